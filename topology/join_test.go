package topology_test

import (
	"testing"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
)

var joined = topology.NewTopic("joined", serde.String(), serde.String())

// Which records find a row, and what becomes of the others.
func TestJoinTable(t *testing.T) {
	left := func(v *string, row *string) string {
		if row == nil {
			return *v + "+null"
		}
		return *v + "+" + *row
	}
	for _, c := range []struct {
		name    string
		declare func(s topology.Stream[string, *string], t topology.Table[string, string]) topology.Stream[string, string]
		want    string
		drops   []string
	}{
		{"inner", func(s topology.Stream[string, *string], t topology.Table[string, string]) topology.Stream[string, string] {
			return s.JoinTable(t, func(v *string, row string) string { return *v + "+" + row }, topology.Named("join"))
		}, "7=r2+x@3", []string{"join null_key", "join no_row", "join null_value"}},
		{"left", func(s topology.Stream[string, *string], t topology.Table[string, string]) topology.Stream[string, string] {
			return s.LeftJoinTable(t, left, topology.Named("join"))
		}, "∅=r1+null@2 7=r2+x@3 8=r3+null@4", []string{"join null_value"}},
		{"left, mapped", func(s topology.Stream[string, *string], t topology.Table[string, string]) topology.Stream[string, string] {
			return s.LeftJoinTable(t.MapValues(upper).Filter(func(_, v string) bool { return v == "X" }), left, topology.Named("join"))
		}, "∅=r1+null@2 7=r2+X@3 8=r3+null@4", []string{"join null_value"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := run(t, func(b *topology.Builder) { c.declare(b.Stream(nulls), b.Table("t", more, few)).To(joined) }, func(w *world) { w.env.MaxIdle = -1 })
			w.send("more", "7=x@9")
			w.send("words", "∅=r1@2", "7=r2@3", "8=r3@4", "7=∅@5")
			w.wants("joined", c.want)
			w.dropped(c.drops...)
			w.send("more", "7=∅@10", "8=y@11") // the table alone sends nothing
			w.wants("joined", "")
		})
	}
}
