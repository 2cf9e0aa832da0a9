package operator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
)

func pairs(kind string) operator.Pair[string, string, string] {
	side := func(s *string) string {
		if s == nil {
			return "_"
		}
		return *s
	}
	switch kind {
	case "inner":
		return operator.Inner(func(l, r string) string { return l + r })
	case "left":
		return operator.Left(func(l string, r *string) string { return l + side(r) })
	}
	return operator.Outer(func(l, r *string) string { return side(l) + side(r) })
}

// has is a table that holds a row for the key "k" alone.
func has(row string) operator.Lookup[string, string] {
	return func(_ *engine.Rec, k string) (string, int64, bool, bool) { return row, 10, k == "k", true }
}

// Each side of each join, with a partner and without, from the change of a new, another and a deleted row.
func TestJoinSides(t *testing.T) {
	for _, c := range []struct{ kind, left, right string }{
		{"inner", "k=->aR k=aR>bR k=bR>-", "k=->La k=La>Lb k=Lb>-"},
		{"left", "k=->aR k=aR>bR k=bR>- x=->a_ x=a_>b_ x=b_>-", "k=L_>La k=La>Lb k=Lb>L_"},
		{"outer", "k=_R>aR k=aR>bR k=bR>_R x=->a_ x=a_>b_ x=b_>-", "k=L_>La k=La>Lb k=Lb>L_ x=->_a x=_a>_b x=_b>-"},
	} {
		for i, want := range []string{c.left, c.right} {
			b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
				if i == 0 {
					return changes(operator.JoinLeft(b.Task, b.node, pairs(c.kind), has("R"), true, seen[string](b)))
				}
				return changes(operator.JoinRight(b.Task, b.node, pairs(c.kind), has("L"), true, seen[string](b)))
			})
			if err := b.send("k=>a", "k=a>b", "k=b>", "x=>", "x=>a", "x=a>b", "x=b>"); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(b.sent, " "); got != want {
				t.Errorf("%s, side %d:\ngot  %s\nwant %s", c.kind, i, got, want)
			}
		}
	}
}

// A row has the time of the younger side, and the record its own again afterwards.
func TestTimesOfJoinedRows(t *testing.T) {
	var rec *engine.Rec
	b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		join := operator.JoinLeft(b.Task, b.node, pairs("left"), has("R"), false, func(r *engine.Rec, k string, _ operator.Change[string]) {
			b.sent = append(b.sent, fmt.Sprint(k, r.Time))
		})
		return changes(func(r *engine.Rec, k string, c operator.Change[string]) { rec = r; join(r, k, c) })
	})
	for range 11 {
		if err := b.send("k=>a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.send("x=>a"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(b.sent, " "); !strings.HasPrefix(got, "k10 k10") || !strings.HasSuffix(got, "k11 x12") || rec.Time != 12 {
		t.Errorf("got %s, then %d", got, rec.Time)
	}
}

// What is stored is the old value of the next change, whatever the change says.
func TestKeep(t *testing.T) {
	b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		table, err := operator.Rows[string, int64](b.Task, "rows")
		if err != nil {
			t.Fatal(err)
		}
		keep := operator.Keep(b.Task, b.node, operator.TableOf[string, int64]{Rows: table, Old: true}, seen[int64](b))
		return changes(func(r *engine.Rec, k string, c operator.Change[string]) {
			keep(r, k, operator.Change[int64]{Old: 99, HasOld: true, New: int64(len(c.New)), HasNew: c.HasNew})
		})
	})
	if err := b.send("k=>a", "k=>abc", "k=>"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(b.sent, " "); got != "k=->1 k=1>3 k=3>-" {
		t.Errorf("got %s", got)
	}
}

// Rows of a join that is not stored are read through it; a side that fails ends the look-up.
func TestJoinLookup(t *testing.T) {
	failing := func(*engine.Rec, string) (string, int64, bool, bool) { return "", 0, false, false }
	only := func(key string, at int64) operator.Lookup[string, string] {
		return func(_ *engine.Rec, k string) (string, int64, bool, bool) {
			return k, at, strings.Contains(key, k), true
		}
	}
	b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		return events(func(r *engine.Rec, _, _ string) {
			for _, kind := range []string{"inner", "left", "outer"} {
				look := operator.JoinLookup(b.Task, b.node, pairs(kind), only("ab", 3), only("bc", 5))
				for _, k := range []string{"a", "b", "c", "d"} {
					if v, at, ok, done := look(r, k); ok || !done {
						b.sent = append(b.sent, fmt.Sprint(v, at, done))
					}
				}
				for _, look := range []operator.Lookup[string, string]{operator.JoinLookup(b.Task, b.node, pairs(kind), failing, has("")), operator.JoinLookup(b.Task, b.node, pairs(kind), has(""), failing)} {
					if _, _, ok, done := look(r, "k"); ok || done {
						t.Error("a look-up that failed has a row")
					}
				}
			}
		})
	})
	if err := b.send("k=v"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(b.sent, " "); got != "bb5 true a_3 true bb5 true a_3 true bb5 true _c5 true" {
		t.Errorf("got %s", got)
	}
}
