package parity

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// A function makes text of key and value, each of which may be null; its result may be null too.
type function func(key, value *string) *string

// text is what Java's String.valueOf makes of s.
func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// functionOf is the function of that name: see the vectors' description.
func functionOf(name string) (function, error) {
	what, arg, _ := strings.Cut(name, ":")
	some := func(f func(k, v string) string) (function, error) {
		return func(k, v *string) *string { s := f(text(k), text(v)); return &s }, nil
	}
	switch what {
	case "upper":
		return some(func(_, v string) string { return strings.ReplaceAll(strings.ToUpper(v), "ß", "SS") })
	case "len":
		return some(func(_, v string) string { return strconv.Itoa(units(v)) })
	case "first":
		return some(func(_, v string) string { return first(v) })
	case "rest":
		return some(func(_, v string) string { return rest(v) })
	case "key":
		return some(func(k, _ string) string { return k })
	case "value":
		return some(func(_, v string) string { return v })
	case "keyvalue":
		return some(func(k, v string) string { return k + "=" + v })
	case "append":
		return some(func(_, v string) string { return v + arg })
	case "const":
		return some(func(_, _ string) string { return arg })
	case "null":
		return func(_, _ *string) *string { return nil }, nil
	case "nullif":
		return func(_, v *string) *string {
			if s := text(v); !strings.Contains(s, arg) {
				return &s
			}
			return nil
		}, nil
	case "field":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("function %q: a field has a number from 0 on", name)
		}
		return func(_, v *string) *string {
			if parts := strings.Split(text(v), ","); n < len(parts) && parts[n] != "" {
				return &parts[n]
			}
			return nil
		}, nil
	}
	return nil, fmt.Errorf("function %q is not known", name)
}

// predicateOf is the predicate of that name.
func predicateOf(name string) (func(key, value *string) bool, error) {
	what, arg, _ := strings.Cut(name, ":")
	switch what {
	case "contains":
		return func(_, v *string) bool { return strings.Contains(text(v), arg) }, nil
	case "keyis":
		return func(k, _ *string) bool { return text(k) == arg }, nil
	case "notnull":
		return func(_, v *string) bool { return v != nil }, nil
	case "evenlen":
		return func(_, v *string) bool { return v != nil && units(*v)%2 == 0 }, nil
	}
	return nil, fmt.Errorf("predicate %q is not known", name)
}

// words is what flatMapValues makes of a value.
func words(v *string) iter.Seq[*string] {
	return func(yield func(*string) bool) {
		if v == nil || *v == "" {
			return
		}
		parts := strings.Split(*v, " ")
		for len(parts) > 0 && parts[len(parts)-1] == "" {
			parts = parts[:len(parts)-1]
		}
		for i := range parts {
			if !yield(&parts[i]) {
				return
			}
		}
	}
}

// joined is what the joiner makes of both sides.
func joined(left, right *string) *string {
	s := text(left) + "+" + text(right)
	return &s
}

// units is the length of a text in Java.
func units(s string) int { return len(utf16.Encode([]rune(s))) }

// first is the first UTF-16 unit. Half of a pair is written as a question mark, as Java's encoder does.
func first(s string) string {
	u := utf16.Encode([]rune(s))
	if len(u) == 0 {
		return ""
	}
	return decoded(u[:1])
}

// rest is all but the first unit.
func rest(s string) string {
	u := utf16.Encode([]rune(s))
	if len(u) == 0 {
		return ""
	}
	return decoded(u[1:])
}

func decoded(u []uint16) string {
	u = slices.Clone(u)
	for i, x := range u {
		high := x >= 0xd800 && x < 0xdc00
		low := x >= 0xdc00 && x < 0xe000
		paired := high && i+1 < len(u) && u[i+1] >= 0xdc00 && u[i+1] < 0xe000 || low && i > 0 && u[i-1] >= 0xd800 && u[i-1] < 0xdc00
		if (high || low) && !paired {
			u[i] = '?'
		}
	}
	return string(utf16.Decode(u))
}
