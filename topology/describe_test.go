package topology_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

// drawn has one of most things: two sub-topologies, a repartition topic, a branch, a merge, a table with a join, a dynamic sink.
func drawn(b *topology.Builder) {
	s := b.Stream(words)
	split := s.Split()
	long := split.Branch("long", func(_, v string) bool { return len(v) > 5 })
	merged := long.MapValues(upper).Merge(split.Rest())
	merged.GroupBy(byValue).Count("by-word", few).To(counts)
	s.LeftJoinTable(b.Table("more-rows", more, few), func(v string, _ *string) string { return v }, topology.Named("enrich")).
		ToEach(words, func(_, v string) string { return v })
}

func TestPictures(t *testing.T) {
	top := build(t, drawn)
	golden(t, "describe.txt", top.Describe())
	golden(t, "topology.dot", top.DOT())
	golden(t, "topology.mmd", top.Mermaid())
}

// inTime has what belongs to time: windows, sessions, final results, a suppression, a throttle, a join of windows, duplicates, a sequence.
func inTime(b *topology.Builder) {
	minute := window.Tumbling(time.Minute).Grace(time.Second)
	results := topology.NewTopic("minutes", window.KeySerde(serde.String(), minute), serde.Int64())
	s := b.Stream(words).Deduplicate("once", time.Hour, func(_, v string) string { return v })
	counted := s.GroupByKey().Windowed(minute).Count("per-minute")
	counted.Final().To(results)
	counted.Suppress("closed", topology.UntilWindowCloses()).To(results)
	counted.Throttle("slow", time.Second).Stream().ByKey(func(_ window.Key[string], n int64) int64 { return n }).To(counts)
	more := b.Stream(more).GroupByKey().Windowed(minute).Count("more-per-minute")
	counted.Join(more, func(l, r int64) int64 { return l + r }, topology.Named("both")).Stored("sums").To(results)
	s.GroupBy(byValue).Sessions(window.Sessions(time.Minute).MaxLength(time.Hour)).Count("visits").To(topology.NewTopic("visits", window.SessionKeySerde(serde.String()), serde.Int64()))
	s.Sequence("twice", topology.First("a", func(v string) bool { return v == "a" }).Then("b", func(v string) bool { return v == "b" }).Within(time.Minute),
		func(_ string, _ topology.Match[string]) int64 { return 1 }).To(counts)
}

func TestPicturesOfTime(t *testing.T) {
	top := build(t, inTime)
	golden(t, "timed.txt", top.Describe())
	golden(t, "timed.dot", top.DOT())
	golden(t, "timed.mmd", top.Mermaid())
}

// Numbers are Kafka Streams' own, as its descriptions in the parity vectors show.
func TestNumbers(t *testing.T) {
	top := build(t, func(b *topology.Builder) {
		t := b.Table("src-store", words, few)
		t.Store()
		t.GroupBy(func(k, v string) (string, string) { return v, k }).Reduce("agg-store", few, concat, concat).Stream().To(more)
	})
	for _, line := range []string{
		"Source: KSTREAM-SOURCE-0000000000 (topics: [words])",
		"Processor: KTABLE-SOURCE-0000000001 (stores: [src-store])",
		"Processor: KTABLE-SELECT-0000000002 (stores: [])",
		"Sink: KSTREAM-SINK-0000000003 (topic: agg-store-repartition)",
		"Source: KSTREAM-SOURCE-0000000004 (topics: [agg-store-repartition])",
		"Processor: KTABLE-REDUCE-0000000005 (stores: [agg-store])",
		"Processor: KTABLE-TOSTREAM-0000000006 (stores: [])",
		"Sink: KSTREAM-SINK-0000000007 (topic: more)",
	} {
		if !strings.Contains(top.Describe(), line) {
			t.Errorf("no line %q in\n%s", line, top.Describe())
		}
	}
}

// What does not touch state does not change the fingerprint; what does, does.
func TestFingerprint(t *testing.T) {
	print := func(declare func(b *topology.Builder)) string { return build(t, declare).Fingerprint() }
	plain := print(func(b *topology.Builder) { b.Stream(words).GroupBy(byValue).Count("c", few) })
	if len(plain) != 64 {
		t.Errorf("the fingerprint is %q", plain)
	}
	same := print(func(b *topology.Builder) {
		s := b.Stream(words).Peek(func(_, _ string) {}, topology.Named("look"))
		s.Filter(keep).GroupBy(byValue).Count("c", store.FiniteKeys(7)).To(counts)
	})
	if same != plain {
		t.Error("stateless operators, sinks or the expected size changed it")
	}
	for name, declare := range map[string]func(b *topology.Builder){
		"another name":          func(b *topology.Builder) { b.Stream(words).GroupBy(byValue).Count("d", few) },
		"another kind of value": func(b *topology.Builder) { b.Stream(words).GroupBy(byValue).Reduce("c", few, concat) },
		"a version of the store": func(b *topology.Builder) {
			b.Stream(words).GroupBy(byValue).Count("c", few, store.Version(1))
		},
		"a version":      func(b *topology.Builder) { b.Version(1); b.Stream(words).GroupBy(byValue).Count("c", few) },
		"no repartition": func(b *topology.Builder) { b.Stream(words).GroupByKey().Count("c", few) },
		"partitions": func(b *topology.Builder) {
			b.Stream(words).GroupBy(byValue, topology.Partitions(3)).Count("c", few)
		},
		"another key": func(b *topology.Builder) {
			b.Stream(words).GroupBy(func(_, v string) int64 { return int64(len(v)) }).Count("c", few)
		},
		"its source as changelog": func(b *topology.Builder) {
			b.Table("c", topology.NewTopic("words", serde.String(), serde.Int64()), few, topology.SourceIsChangelog()).Store()
		},
	} {
		if print(declare) == plain {
			t.Errorf("%s did not change it", name)
		}
	}
}
