package operator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
)

// seen writes a change as old>new, with - for what is not there.
func seen[V any](b *bench) engine.Receive[string, operator.Change[V]] {
	return func(_ *engine.Rec, k string, c operator.Change[V]) {
		old, new := "-", "-"
		if c.HasOld {
			old = fmt.Sprint(c.Old)
		}
		if c.HasNew {
			new = fmt.Sprint(c.New)
		}
		b.sent = append(b.sent, k+"="+old+">"+new)
	}
}

// changes makes changes of k=old>new texts.
func changes(next engine.Receive[string, operator.Change[string]]) operator.Take[string, string] {
	return func(r *engine.Rec, k, v string, _ bool) {
		old, new, _ := strings.Cut(v, ">")
		next(r, k, operator.Change[string]{Old: old, New: new, HasOld: old != "", HasNew: new != ""})
	}
}

// A filter or mapping works on the old value too where it is known, and with its own store does not need it.
func TestTableOperators(t *testing.T) {
	length := func(_, v string) int64 { return int64(len(v)) }
	short := func(_ string, v string) bool { return len(v) < 3 }
	for _, c := range []struct {
		name string
		wire func(b *bench) engine.Receive[string, operator.Change[string]]
		want string
	}{
		{"mapping", func(b *bench) engine.Receive[string, operator.Change[string]] {
			return operator.MapTable(b.Task, b.node, length, operator.TableOf[string, int64]{Old: true}, seen[int64](b))
		}, "k=->1 k=1>3 k=3>-"},
		{"mapping without old values", func(b *bench) engine.Receive[string, operator.Change[string]] {
			return operator.MapTable(b.Task, b.node, length, operator.TableOf[string, int64]{}, seen[int64](b))
		}, "k=->1 k=->3 k=->-"},
		{"stored mapping", func(b *bench) engine.Receive[string, operator.Change[string]] {
			table, err := operator.Rows[string, int64](b.Task, "rows")
			if err != nil {
				t.Fatal(err)
			}
			return operator.MapTable(b.Task, b.node, length, operator.TableOf[string, int64]{Rows: table, Old: true}, seen[int64](b))
		}, "k=->1 k=1>3 k=3>-"},
		{"filter", func(b *bench) engine.Receive[string, operator.Change[string]] {
			return operator.FilterTable(b.Task, b.node, short, operator.TableOf[string, string]{Old: true}, seen[string](b))
		}, "k=->a k=a>-"},
		{"filter without old values", func(b *bench) engine.Receive[string, operator.Change[string]] {
			return operator.FilterTable(b.Task, b.node, short, operator.TableOf[string, string]{}, seen[string](b))
		}, "k=->a k=->- k=->-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] { return changes(c.wire(b)) })
			if err := b.send("k=>a", "k=a>abc", "k=abc>"); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(b.sent, " "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Rows are read through what is not stored.
func TestLookupThrough(t *testing.T) {
	b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		base := func(_ *engine.Rec, k string) (string, int64, bool, bool) { return k + k, 1, k != "none", true }
		lookup := operator.FilterLookup(b.Task, b.node, func(_ string, n int64) bool { return n < 5 },
			operator.MapLookup(b.Task, b.node, func(_, v string) int64 { return int64(len(v)) }, base))
		return events(operator.JoinTable(b.Task, b.node, lookup, nil, func(v string, n int64) string { return fmt.Sprint(v, n) },
			func(_ *engine.Rec, k, v string) { b.sent = append(b.sent, k+"="+v) }))
	})
	if err := b.send("ab=v", "abc=v", "none=v"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(append(b.sent, b.drops...), " "); got != "ab=v4 no_row no_row" {
		t.Errorf("got %s", got)
	}
}
