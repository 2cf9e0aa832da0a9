package parity

import (
	"slices"
	"testing"
)

func of(s string) *string { return &s }

func TestFunctions(t *testing.T) {
	for _, c := range []struct {
		name       string
		key, value *string
		want       *string
	}{
		{"upper", nil, of("Ünïß"), of("ÜNÏSS")}, {"upper", nil, nil, of("NULL")},
		{"len", nil, of("aé😀"), of("4")}, {"len", nil, nil, of("4")},
		{"first", nil, of("éa"), of("é")}, {"first", nil, of(""), of("")}, {"first", nil, of("😀a"), of("?")}, {"first", nil, nil, of("n")},
		{"rest", nil, of("éab"), of("ab")}, {"rest", nil, of(""), of("")}, {"rest", nil, of("😀a"), of("?a")}, {"rest", nil, of("a😀"), of("😀")},
		{"key", of("k"), of("v"), of("k")}, {"key", nil, of("v"), of("null")}, {"value", of("k"), nil, of("null")},
		{"keyvalue", nil, of("v"), of("null=v")}, {"append:!", of("k"), of("v"), of("v!")}, {"const:c:d", nil, nil, of("c:d")}, {"null", of("k"), of("v"), nil},
		{"nullif:z", nil, of("az"), nil}, {"nullif:z", nil, of("a"), of("a")}, {"nullif:n", nil, nil, nil},
		{"field:0", nil, of("a,b"), of("a")}, {"field:1", nil, of("a,b"), of("b")}, {"field:1", nil, of("a,"), nil}, {"field:2", nil, of("a,b"), nil}, {"field:0", nil, nil, of("null")},
	} {
		f, err := functionOf(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := f(c.key, c.value); (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s of %q, %q: %q, not %q", c.name, text(c.key), text(c.value), text(got), text(c.want))
		}
	}
	for _, bad := range []string{"", "lower", "field:x", "field:-1"} {
		if _, err := functionOf(bad); err == nil {
			t.Errorf("there is a function %q", bad)
		}
	}
}

func TestPredicates(t *testing.T) {
	for _, c := range []struct {
		name       string
		key, value *string
		want       bool
	}{
		{"contains:x", nil, of("axb"), true}, {"contains:x", nil, of("ab"), false}, {"contains:u", nil, nil, true},
		{"keyis:k", of("k"), nil, true}, {"keyis:k", nil, nil, false}, {"keyis:null", nil, nil, true},
		{"notnull", nil, of(""), true}, {"notnull", of("k"), nil, false}, {"evenlen", nil, of("😀"), true}, {"evenlen", nil, of("a"), false}, {"evenlen", nil, nil, false},
	} {
		p, err := predicateOf(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := p(c.key, c.value); got != c.want {
			t.Errorf("%s of %q, %q: %v", c.name, text(c.key), text(c.value), got)
		}
	}
	if _, err := predicateOf("odd"); err == nil {
		t.Error("there is a predicate odd")
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		value *string
		want  []string
	}{{nil, nil}, {of(""), nil}, {of("q w e"), []string{"q", "w", "e"}}, {of(" a  b  "), []string{"", "a", "", "b"}}, {of("  "), nil}} {
		var got []string
		for w := range words(c.value) {
			got = append(got, *w)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("words of %q: %q, not %q", text(c.value), got, c.want)
		}
	}
}
