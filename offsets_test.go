package kolk

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

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

// Guards against a start that is refused for no reason: without transactions a process that dies in a task's first commit has written state and no offsets. With them that
// cannot be.
func TestCrashInTheFirstCommitOfATask(t *testing.T) {
	for guarantee, refused := range map[Guarantee]bool{AtLeastOnce: false, ExactlyOnce: true} {
		t.Run(fmt.Sprint("refused ", refused), func(t *testing.T) {
			inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
				c := w.config("app")
				c.Guarantee = guarantee
				r := w.start(counting(), c).ready()
				w.send("words", "a=x", "b=x", "c=x", "d=x")
				w.settled("app", "words")
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				var one kadm.TopicsSet
				one.Add("words", 0)
				if _, err := w.adm.DeleteOffsets(w.t.Context(), "app", one); err != nil {
					t.Fatal(err)
				}
				if refused {
					if err := w.start(counting(), c).failed(); !errors.Is(err, ErrMovedOffsets) {
						t.Errorf("got %v", err)
					}
					return
				}
				r = w.start(counting(), c).ready()
				w.settled("app", "words")
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				total := int64(0)
				for _, n := range w.counts("totals") {
					total += n
				}
				if total <= 4 || total >= 8 { // those of the one partition came again
					t.Errorf("%d counted of 4 records, some of which were read twice", total)
				}
			})
		})
	}
}
