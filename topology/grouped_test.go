package topology_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
)

// An aggregate's time is the largest of its records', and each update is sent on.
func TestAggregates(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		g := b.Stream(words).GroupByKey()
		g.Count("count", few).To(counts)
		g.Reduce("reduce", few, concat).To(more)
		g.Aggregate("sum", serde.Int64(), few, func(_, v string, n int64) int64 { return n + int64(len(v)) }).To(lengths)
		g.AggregateFrom("from", serde.String(), few, func() string { return ">" }, func(k, v, a string) string { return a + v }).To(topology.NewTopic("from-out", serde.String(), serde.String()))
	})
	w.send("words", "k=ab@5", "k=c@3", "j=d@4", "∅=x@6")
	w.wants("counts", "k=1@5 k=2@5 j=1@4")
	w.wants("more", "k=ab@5 k=abc@5 j=d@4")
	w.wants("lengths", "k=2@5 k=3@5 j=1@4")
	w.wants("from-out", "k=>ab@5 k=>abc@5 j=>d@4")
	w.dropped("KSTREAM-AGGREGATE-0000000001 null_key", "KSTREAM-REDUCE-0000000004 null_key", "KSTREAM-AGGREGATE-0000000007 null_key", "KSTREAM-AGGREGATE-0000000010 null_key")
	w.commit()
	w.logged("reduce", "k=abc@5 j=d@4")
}

// Records without a key end before a repartition topic, counted, unless something behind it takes them.
func TestRepartition(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		s := b.Stream(words)
		s.Repartition("plain").To(more)
		s.Repartition("left").LeftJoinTable(b.Table("t", counts, few), func(v string, n *int64) string { return v }).To(more)
	})
	w.send("words", "∅=a@1")
	w.wants("app-plain-repartition", "")
	w.wants("app-left-repartition", "∅=a@1")
	w.wants("more", "∅=a@1")
	w.dropped("plain-repartition-filter null_key")
	if n := w.sent["app-left-repartition"]; n != nil {
		t.Errorf("more was sent: %v", n)
	}
}

// Aggregations of one grouping share a topic if they say so; the number of partitions is the grouping's.
func TestShared(t *testing.T) {
	g := engine.GraphOf(build(t, func(b *topology.Builder) {
		g := b.Stream(words).GroupBy(byValue, topology.Shared("both"), topology.Partitions(5))
		g.Count("c", few)
		g.Reduce("r", few, concat)
	}))
	if len(g.Subs) != 2 || stored(g) != "c r" {
		t.Fatalf("%d sub-topologies, stores %s", len(g.Subs), stored(g))
	}
	if in := g.Subs[1].Inputs; len(in) != 1 || in[0].Full("app") != "app-both-repartition" || in[0].Partitions != 5 {
		t.Errorf("inputs %+v", in[0])
	}
}

// A function that fails leaves the aggregate as it was, and the record goes by the policy.
func TestFailingAggregate(t *testing.T) {
	for _, policy := range []engine.PolicyKind{engine.Stop, engine.Skip} {
		w := run(t, func(b *topology.Builder) {
			b.Stream(words).GroupByKey().Aggregate("lists", serde.JSON[[]string](), few, func(_, v string, list []string) []string {
				list = append(list, v)
				list[0] = v // whoever keeps the old value must not see this
				if v == "bad" {
					panic("no")
				}
				return list
			}).Changes(func(_ string, c topology.Change[[]string]) string {
				if c.Old == nil {
					return strings.Join(*c.New, ",")
				}
				return strings.Join(*c.Old, ",") + ">" + strings.Join(*c.New, ",")
			}).To(more)
		}, func(w *world) { w.env.OnProcess = engine.Policy{Kind: policy} })
		err := w.try("words", "k=a@1", "k=bad@2")
		if policy == engine.Stop {
			failed, ok := errors.AsType[*engine.RecordError](err)
			if !ok || failed.Node != "KSTREAM-AGGREGATE-0000000001" || failed.Offset != 1 || failed.Topic != "words" {
				t.Errorf("got %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		w.send("words", "k=b@3")
		w.wants("more", "k=a@1 k=a>b,b@3")
		w.dropped("KSTREAM-AGGREGATE-0000000001 skipped")
	}
}

// Old values stay apart from new ones that were changed in place.
func TestMapsAreApart(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		b.Stream(words).GroupByKey().Aggregate("sets", serde.JSON[map[string]bool](), few, func(_, v string, set map[string]bool) map[string]bool {
			if set == nil {
				set = make(map[string]bool)
			}
			set[v] = true
			return set
		}).Changes(func(_ string, c topology.Change[map[string]bool]) string {
			out := ""
			if c.Old != nil {
				out = strings.Join(slices.Sorted(maps.Keys(*c.Old)), ",")
			}
			return out + ">" + strings.Join(slices.Sorted(maps.Keys(*c.New)), ",")
		}).To(more)
	})
	w.send("words", "k=a@1", "k=b@2")
	w.wants("more", "k=>a@1 k=a>a,b@2")
}

// Topics that meet in one aggregate must be partitioned alike.
func TestCopartition(t *testing.T) {
	g := engine.GraphOf(build(t, func(b *topology.Builder) {
		b.Stream(words).Merge(b.Stream(more)).GroupByKey().Count("c", few)
		b.Stream(words).JoinTable(b.Table("t", counts, few), func(v string, n int64) string { return v })
	}))
	if n := len(g.Subs); n != 1 {
		t.Fatalf("%d sub-topologies", n)
	}
	s := g.Subs[0]
	if len(s.Copartitioned) != 2 || !slices.Equal(s.Copartitioned[0].Inputs, []int{0, 1}) || !slices.Equal(s.Copartitioned[1].Inputs, []int{0, 2}) {
		t.Errorf("%+v", s.Copartitioned)
	}
	if _, bad := engine.Layout(g, "app", map[string]int32{"words": 6, "more": 6, "counts": 1}); len(bad) == 0 {
		t.Error("6 and 1 partitions are taken for alike")
	}
}
