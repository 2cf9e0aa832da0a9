package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/engine"
)

func TestOldestHeadFirst(t *testing.T) {
	w := newWorld(t, 3, nil)
	w.add(2, 0, "c=1@5", "c=2@20")
	w.add(0, 0, "a=1@10", "a=2@7") // within an input the order is that of offsets, whatever the times
	w.add(1, 0, "b=1@10")
	w.run()
	equal(t, "order", w.took(), []string{"out/-1 c=1@5", "out/-1 a=1@10", "out/-1 a=2@7", "out/-1 b=1@10", "out/-1 c=2@20"})
	if at := w.StreamTime(); at != 20 {
		t.Errorf("stream time %d", at)
	}
}

func TestTiesGoToTheFirstInput(t *testing.T) {
	for _, first := range []int{0, 1} {
		w := newWorld(t, 2, nil)
		w.add(first, 0, fmt.Sprintf("k=%d@7", first))
		w.add(1-first, 0, fmt.Sprintf("k=%d@7", 1-first))
		w.run()
		equal(t, "order", w.took(), []string{"out/-1 k=0@7", "out/-1 k=1@7"})
	}
}

func TestMaxIdle(t *testing.T) {
	did := func(w *world) bool {
		t.Helper()
		did, err := w.Process(w.wall)
		if err != nil {
			t.Fatal(err)
		}
		return did
	}
	t.Run("never waits", func(t *testing.T) {
		w := newWorld(t, 2, func(w *world) { w.env.MaxIdle = -1 })
		w.Start(1, 0, 10, engine.Meta{}) // ten records are there, and were not fetched yet
		w.add(0, 0, "a=1@5")
		if !did(w) {
			t.Error("waited")
		}
	})
	t.Run("zero waits for what the broker has", func(t *testing.T) {
		w := newWorld(t, 2, nil)
		w.Start(1, 0, 1, engine.Meta{PartitionTime: -1})
		w.add(0, 0, "a=1@5")
		if did(w) {
			t.Error("did not wait")
		}
		w.add(1, 0, "b=1@4")
		w.run()
		equal(t, "order", w.took(), []string{"out/-1 b=1@4", "out/-1 a=1@5"})
		w.add(0, 1, "a=2@6")
		if !did(w) {
			t.Error("waited for an input that has nothing")
		}
	})
	t.Run("a while", func(t *testing.T) {
		w := newWorld(t, 2, func(w *world) { w.env.MaxIdle = 100 })
		w.add(0, 0, "a=1@5", "a=2@6")
		if did(w) {
			t.Error("did not wait")
		}
		w.wall += 99
		if did(w) {
			t.Error("waited too short")
		}
		w.wall++
		if !did(w) {
			t.Error("waited too long")
		}
		w.add(1, 0, "b=1@1")
		if !did(w) {
			t.Fatal("did not take the record that came")
		}
		if did(w) { // the wait begins anew
			t.Error("did not wait again")
		}
		w.wall -= 500 // the clock is put back
		if did(w) {
			t.Error("did not wait")
		}
		w.wall += 100
		if !did(w) {
			t.Error("waits until the clock has caught up")
		}
	})
	t.Run("only while something waits", func(t *testing.T) { // or what comes after a silence would depend on the speed of fetching
		w := newWorld(t, 2, func(w *world) { w.env.MaxIdle = 100 })
		for _, key := range []string{"a", "b"} {
			if did(w) {
				t.Error("there is nothing to do")
			}
			w.wall += 1000
			w.add(0, w.Position(0), key+"=1@5")
			if did(w) {
				t.Error("did not wait after a silence")
			}
			w.wall += 100
			if !did(w) {
				t.Error("waited too long")
			}
		}
	})
	t.Run("inputs are waited for at once", func(t *testing.T) {
		w := newWorld(t, 3, func(w *world) { w.env.MaxIdle = 100 })
		w.add(2, 0, "c=1@2")
		if did(w) {
			t.Error("did not wait")
		}
		w.wall += 100
		if !did(w) {
			t.Error("waited for one after the other")
		}
	})
	t.Run("an input that the task has no partition of", func(t *testing.T) {
		w := newWorld(t, 2, func(w *world) { w.env.MaxIdle = 100 })
		task, err := engine.Open(w.Sub, 3, w.env)
		if err != nil {
			t.Fatal(err)
		}
		w.Task = task
		w.Start(0, 0, 0, engine.Meta{PartitionTime: -1})
		for range 2 {
			w.add(0, w.Position(0), "a=1@2")
			if !did(w) {
				t.Error("waited")
			}
			w.commit()
			if err := w.Rewind(); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("the deadline of each input counts", func(t *testing.T) {
		w := newWorld(t, 3, func(w *world) { w.env.MaxIdle = 100 })
		w.add(1, 0, "b=1@1")
		w.add(2, 0, "c=1@2", "c=2@3")
		if did(w) {
			t.Error("did not wait")
		}
		w.wall += 100
		if !did(w) { // b; now 1 is empty too
			t.Error("waited")
		}
		if did(w) {
			t.Error("did not wait for the second input")
		}
		w.wall += 100
		if !did(w) {
			t.Error("waited")
		}
	})
}

func TestRecordsThatWereFetchedTwice(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.add(0, 0, "a=1@1", "a=2@2")
	w.add(0, 1, "a=2@2", "a=3@3")
	w.run()
	w.add(0, 2, "a=3@3")
	w.run()
	equal(t, "sent", w.took(), []string{"out/-1 a=1@1", "out/-1 a=2@2", "out/-1 a=3@3"})
}

func TestPositionsPassControlRecords(t *testing.T) {
	w := newWorld(t, 1, nil)
	next := func() int64 { return w.Cuts(nil)[0].Next }
	w.Start(0, 40, 50, engine.Meta{})
	if w.Moved() {
		t.Error("moved by its start")
	}
	w.Add(0, []engine.Record{rec(42, "a=1@1"), rec(45, "a=2@2")}, 50, 50) // transaction markers at 40, 43, 46
	if got := w.Lag(0); got != 10 {
		t.Errorf("lag %d", got)
	}
	if did, _ := w.Process(0); !did || next() != 43 {
		t.Errorf("next %d after the first record", next())
	}
	w.run()
	if next() != 50 || w.Position(0) != 50 || w.Lag(0) != 0 {
		t.Errorf("next %d, position %d, lag %d", next(), w.Position(0), w.Lag(0))
	}
	w.commit()
	if w.Moved() {
		t.Error("moved right after a commit")
	}
	w.Add(0, nil, 50, 50)
	if w.Moved() {
		t.Error("moved by nothing")
	}
	w.Add(0, nil, 53, 53)
	if !w.Moved() || next() != 53 {
		t.Errorf("moved %v, next %d after markers alone", w.Moved(), next())
	}
}

func TestBadRecordsFailInTheirTurn(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.add(0, 0, "a=1@1", "a=bad@2")
	if did, err := w.Process(0); !did || err != nil {
		t.Fatalf("the record before: %v, %v", did, err)
	}
	if _, err := w.Process(0); err == nil {
		t.Fatal("no error")
	}
}

func TestOffsetPassesDroppedRecords(t *testing.T) {
	w := newWorld(t, 2, func(w *world) { w.env.OnDecode = engine.Policy{Kind: engine.Skip}; w.env.MaxIdle = -1 })
	w.add(0, 0, "a=bad@1", "a=1@-5", "a=bad@2")
	w.run()
	if got := w.Cuts(nil)[0].Next; got != 3 || !w.Moved() {
		t.Errorf("next %d, moved %v", got, w.Moved())
	}
	if at := w.StreamTime(); at != -1 {
		t.Errorf("dropped records moved stream time to %d", at)
	}
}

func TestMaxAhead(t *testing.T) {
	w := newWorld(t, 1, func(w *world) { w.env.MaxAhead = 100 })
	w.add(0, 0, "a=1@1100", "a=2@1101", "a=3@9223372036854775807")
	w.run()
	equal(t, "sent", w.took(), []string{"out/-1 a=1@1100"})
	if len(w.drops) != 2 || w.drops[0].Reason != "ahead" || w.drops[0].Offset != 1 || w.drops[0].Topic != "topic0" || w.drops[0].Node != "in0" {
		t.Errorf("drops %+v", w.drops)
	}
}

// A queue that never runs empty keeps no more than what waits in it.
func TestQueueThatNeverRunsEmpty(t *testing.T) {
	w := newWorld(t, 1, func(w *world) { w.process = func(*world, *engine.Rec, string, string) {} })
	w.add(0, 0, "a=1@1")
	for i := int64(1); i < 2000; i++ {
		w.add(0, i, "a=1@1")
		if _, err := w.Process(0); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.Buffered(0); n != 1 {
		t.Fatalf("%d wait", n)
	}
	if c := engine.QueueCap(w.Task, 0); c > 16 {
		t.Errorf("room for %d records", c)
	}
}

// However records are fetched, a task that waits for its inputs takes them in the same order.
func TestOrderDoesNotHangOnFetches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		inputs := rapid.IntRange(1, 3).Draw(rt, "inputs")
		all := make([][]engine.Record, inputs)
		for i := range all {
			for o := range rapid.IntRange(0, 12).Draw(rt, "records") {
				at := rapid.Int64Range(0, 6).Draw(rt, "time")
				all[i] = append(all[i], rec(int64(o), fmt.Sprintf("%d=%d@%d", i, o, at)))
			}
		}
		run := func(size func() int) []string {
			w := newWorld(t, inputs, nil)
			at := make([]int, inputs)
			for i := range all {
				w.Start(i, 0, int64(len(all[i])), engine.Meta{PartitionTime: -1})
			}
			for {
				moved := false
				for i := range all {
					n := min(size(), len(all[i])-at[i])
					if n > 0 {
						w.Add(i, slices.Clone(all[i][at[i]:at[i]+n]), int64(at[i]+n), int64(len(all[i])))
						at[i], moved = at[i]+n, true
					}
					w.run()
				}
				left := 0
				for i := range all {
					left += len(all[i]) - at[i]
				}
				if !moved && left == 0 {
					return w.took()
				}
			}
		}
		whole := run(func() int { return 100 })
		parts := run(func() int { return rapid.IntRange(0, 3).Draw(rt, "batch") })
		if !slices.Equal(whole, parts) {
			rt.Fatalf("at once %q\nin parts %q", whole, parts)
		}
	})
}
