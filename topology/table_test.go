package topology_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

// stored are the names of all stores of a topology.
func stored(g *engine.Graph) string {
	var out []string
	for _, s := range g.Subs {
		for _, d := range s.Stores {
			out = append(out, d.Name)
		}
	}
	return strings.Join(out, " ")
}

// A source table is stored only if something needs it, wherever that was declared.
func TestWhatIsStored(t *testing.T) {
	type table = topology.Table[string, string]
	for _, c := range []struct {
		name    string
		declare func(b *topology.Builder, t table)
		want    string
	}{
		{"nothing", func(b *topology.Builder, t table) { t.To(more) }, ""},
		{"a filter", func(b *topology.Builder, t table) { t.Filter(keep).Stream().To(more) }, ""},
		{"on commit", func(b *topology.Builder, t table) { t.OnCommit().To(more) }, ""},
		{"its handle", func(b *topology.Builder, t table) { t.Store() }, "t"},
		{"changes", func(b *topology.Builder, t table) {
			t.MapValues(upper).Changes(func(_ string, c topology.Change[string]) string { return "" })
		}, "t"},
		{"a grouping", func(b *topology.Builder, t table) {
			t.Filter(keep).GroupBy(func(k, v string) (string, string) { return v, k }).Count("c", few)
		}, "t c"},
		{"a join", func(b *topology.Builder, t table) { b.Stream(more).JoinTable(t.Filter(keep), concat) }, "t"},
		{"a join with a stored one", func(b *topology.Builder, t table) {
			b.Stream(more).JoinTable(t.MapValues(upper).Stored("u").Filter(keep), concat)
		}, "u"},
		{"a stored grouping", func(b *topology.Builder, t table) {
			t.Filter(keep).Stored("u").GroupBy(func(k, v string) (string, string) { return v, k }).Count("c", few)
		}, "u c"},
	} {
		w := engine.GraphOf(build(t, func(b *topology.Builder) { c.declare(b, b.Table("t", words, few)) }))
		if got := stored(w); got != c.want {
			t.Errorf("%s: stored %q, want %q", c.name, got, c.want)
		}
	}
	g := engine.GraphOf(build(t, func(b *topology.Builder) { b.Table("t", words, store.TTL(time.Hour)).To(more) }))
	if got := stored(g); got != "t" {
		t.Errorf("with a TTL: stored %q", got)
	}
	g = engine.GraphOf(build(t, func(b *topology.Builder) { b.Table("t", words, few, topology.SourceIsChangelog()).Store() }))
	if in := g.Subs[0].Inputs[0]; len(in.Tables) != 1 || in.Tables[0].Source != "words" {
		t.Errorf("the source is not the changelog: %+v", in.Tables)
	}
}

// Deletes pass a filter only where the row was there, if that is known.
func TestTableFilter(t *testing.T) {
	short := func(_, v string) bool { return len(v) < 3 }
	for _, c := range []struct {
		name    string
		declare func(t topology.Table[string, string]) topology.Table[string, string]
		want    string
	}{
		{"not stored", func(t topology.Table[string, string]) topology.Table[string, string] { return t.Filter(short) },
			"a=∅@1 a=xx@2 a=∅@3 a=∅@4"},
		{"source stored", func(t topology.Table[string, string]) topology.Table[string, string] {
			t.Store()
			return t.Filter(short)
		}, "a=xx@2 a=∅@3"},
		{"itself stored", func(t topology.Table[string, string]) topology.Table[string, string] {
			return t.Filter(short).Stored("f")
		}, "a=xx@2 a=∅@3"},
		{"through a mapping", func(t topology.Table[string, string]) topology.Table[string, string] {
			t.Store()
			return t.MapWithKey(func(_, v string) string { return v }).Filter(short)
		}, "a=xx@2 a=∅@3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := run(t, func(b *topology.Builder) { c.declare(b.Table("t", words, few)).To(more) })
			w.send("words", "a=xxx@1", "a=xx@2", "a=xxx@3", "a=∅@4", "∅=x@5")
			w.wants("more", c.want)
			w.dropped("KTABLE-SOURCE-0000000001 null_key")
		})
	}
}

// An empty value is a row; a null ends it; the last record wins whatever its time.
func TestTableRows(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		tab := b.Table("t", words, few)
		tab.Changes(func(_ string, c topology.Change[string]) string {
			s := func(p *string) string {
				if p == nil {
					return "-"
				}
				return "[" + *p + "]"
			}
			return s(c.Old) + s(c.New)
		}).To(more)
	})
	w.send("words", "k=@5", "k=b@3", "k=∅@4", "k=∅@6")
	w.wants("more", "k=-[]@5 k=[][b]@3 k=[b]-@4 k=--@6")
	w.commit()
	w.logged("t", "k=∅@6")
	w.send("words", "k=c@2")
	w.commit()
	w.logged("t", "k=c@2")
}

// A row that a group is made of is taken out as it was put in, whatever happens to it.
func TestGroupedTable(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		g := b.Table("t", words, few).GroupBy(func(k, v string) (string, string) { return v[:1], v }, topology.Shared("groups"))
		g.Count("count", few).To(counts)
		g.Reduce("reduce", few, func(a, v string) string { return a + "+" + v }, func(a, v string) string { return a + "-" + v }).To(more)
	})
	w.send("words", "d1=a1@1", "d1=∅@2", "d1=∅@3", "d9=∅@4", "d1=a1@5")
	w.wants("counts", "a=1@1 a=0@2 a=1@5") // TA01: it heals
	w.wants("more", "a=a1@1 a=a1-a1@2 a=a1-a1+a1@5")
	w.send("words", "d1=a2@6", "d1=b2@7")
	w.wants("counts", "a=1@6 a=0@7 b=1@7")
	w.wants("app-groups-repartition", "a=a1\x01@1 a=a1\x00@2 a=a1\x01@5 a=\x04a2a1\x02@6 a=a2\x00@7 b=b2\x01@7")
	w.dropped()
}

// A nil pointer in place of an aggregate deletes it; the next row begins anew.
func TestGroupedTableDeletes(t *testing.T) {
	some := func(n int64) *int64 { return &n }
	w := run(t, func(b *topology.Builder) {
		b.Table("t", words, few).GroupBy(func(k, v string) (string, string) { return v, k }).
			Aggregate("agg", serde.Optional(serde.Int64()), few, func(_, _ string, n *int64) *int64 {
				if n == nil {
					return some(1)
				}
				return some(*n + 1)
			}, func(_, _ string, n *int64) *int64 {
				if *n == 1 {
					return nil
				}
				return some(*n - 1)
			}).To(topology.NewTopic("out", serde.String(), serde.Optional(serde.Int64())))
	})
	w.send("words", "a=x@1", "b=x@2", "a=∅@3", "b=∅@4", "a=x@5")
	w.wants("out", "x=1@1 x=2@2 x=1@3 x=∅@4 x=1@5")
}

// What a TTL removes is sent on as a delete with stream time, and taken out of groups; also if the row itself is what comes next.
func TestExpiry(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		tab := b.Table("t", words, store.TTL(80*time.Millisecond))
		tab.To(more)
		tab.Filter(keep).Stored("kept").GroupBy(func(k, v string) (string, string) { return v, k }).Count("by-value", few).To(counts)
	})
	w.send("words", "a=x@0", "b=x@5", "c=y@95")
	w.wants("more", "a=x@0 b=x@5 c=y@95 a=∅@95 b=∅@95")
	w.wants("counts", "x=1@0 x=2@5 y=1@95 x=1@95 x=0@95")
	w.send("words", "c=z@175") // c expires at 175, which is when it is written anew
	w.wants("more", "c=∅@175 c=z@175")
	w.wants("counts", "y=0@175 z=1@175")
	w.commit()
	w.logged("kept", "a=∅@95 b=∅@95 c=z@175")
}

// The last value of each row at a commit, in the order of first change, with what was before.
func TestOnCommit(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		held := b.Stream(words).GroupByKey().Count("c", few).OnCommit()
		held.To(counts)
		held.Changes(func(_ string, c topology.Change[int64]) int64 {
			if c.Old == nil {
				return *c.New
			}
			return *c.New - *c.Old
		}).GroupByKey().Count("changes", few).OnCommit().To(lengths)
	})
	w.send("words", "a=x@1", "b=x@2", "a=x@0")
	w.wants("counts", "")
	w.commit()
	w.wants("counts", "a=2@1 b=1@2")
	w.wants("lengths", "a=1@1 b=1@2") // one commit takes a row through both
	w.commit()
	w.wants("counts", "")
	w.send("words", "b=x@3")
	w.commit()
	w.wants("counts", "b=2@3")
}

// A row that came and went between two commits was never there.
func TestOnCommitLeavesOut(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		tab := b.Table("t", words, few)
		tab.Store()
		tab.OnCommit().To(more)
	})
	w.send("words", "a=x@1", "b=x@1", "a=∅@2")
	w.commit()
	w.wants("more", "b=x@1")
	w.send("words", "b=∅@2")
	w.commit()
	w.wants("more", "b=∅@2")
}

func TestToTable(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		tab := b.Stream(nulls).ToTable("t", few)
		tab.To(maybe)
		b.Stream(nulls).SelectKey(func(_ string, v *string) string { return "k" }).ToTable("u", few).Store()
	})
	w.send("words", "a=x@1", "a=∅@2", "∅=y@3")
	w.wants("more", "a=x@1 a=∅@2")
	w.wants("app-u-repartition", "k=x@1 k=∅@2 k=y@3")
	w.dropped("KSTREAM-TOTABLE-0000000001 null_key")
	if got := stored(w.graph); got != "u" {
		t.Errorf("stored %q", got)
	}
}
