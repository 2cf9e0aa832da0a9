package kolk

import (
	"testing"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

// Guards against a start that is refused for no reason: the totals had state from one input while nothing had come yet from the other, which
// feeds them through a repartition topic, so that it had no offsets. An instance that was killed at the first start of an application could not start again.
func TestStateBeforeTheOtherInputIsRead(t *testing.T) {
	inWorld(t, map[string]int32{"words": 2, "others": 2, "totals": 1}, func(w *world) {
		both := func() *topology.Builder {
			b := topology.New()
			others := b.Stream(topology.NewTopic("others", serde.String(), serde.String())).
				SelectKey(func(_, v string) string { return v }).Repartition("by-value")
			b.Stream(words).Merge(others).GroupByKey().Count("counts", store.FiniteKeys(100)).To(totals)
			return b
		}
		c := w.config("app")
		r := w.start(both(), c).ready()
		w.send("words", "a=x", "b=x", "c=x")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = w.start(both(), c).ready()
		w.send("others", "x=a")
		w.settled("app", "words", "others", "app-by-value-repartition")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = w.start(both(), c).ready()
		if got := w.counts("totals"); len(got) != 3 || got["a"] != 2 || got["b"] != 1 || got["c"] != 1 {
			t.Errorf("counts %v", got)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if n := len(w.values("totals")); n != 4 {
			t.Errorf("%d results of 4 records", n)
		}
	})
}
