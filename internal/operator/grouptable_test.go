package operator_test

import (
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
)

// Old and new travel in one record if the group stays, the old one first if it does not.
func TestGroupTable(t *testing.T) {
	b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		return changes(operator.GroupTable(b.Task, b.node, func(k, v string) (string, string) { return v[:1], v }, seen[string](b)))
	})
	if err := b.send("k=>a1", "k=a1>a2", "k=a2>b1", "k=b1>", "k=>"); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(b.sent, " "), "a=->a1 a=a1>a2 a=a2>- b=->b1 b=b1>-"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A row is taken out only of an aggregate that exists.
func TestAggregateTable(t *testing.T) {
	b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		table, err := operator.Rows[string, int64](b.Task, "rows")
		if err != nil {
			t.Fatal(err)
		}
		fold := operator.TableFold[string, string, int64]{Add: func(_, v string, n int64) int64 { return n + int64(len(v)) }, Remove: func(_, v string, n int64) int64 { return n - int64(len(v)) }}
		return changes(operator.AggregateTable(b.Task, b.node, table, fold, true, seen[int64](b)))
	})
	if err := b.send("k=abc>", "k=>ab", "k=ab>abcd", "k=abcd>"); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(b.sent, " "), "k=->- k=->2 k=2>4 k=4>0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
