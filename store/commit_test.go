package store_test

import (
	"errors"
	"testing"
)

func TestFlushInOrderOfFirstWrite(t *testing.T) {
	w := newFixture(texts, nil)
	for _, k := range []string{"c", "a", "b", "a", "c"} {
		w.kv.Put(k, k)
	}
	equal(t, "flush", w.flush(t), "c=c@0, a=a@0, b=b@0")
	w.kv.Put("b", "B")
	w.kv.Delete("d")
	equal(t, "second flush", w.flush(t), "b=B@0, d deleted@0")
	equal(t, "third flush", w.flush(t), "")
	w.live.Committed()
	equal(t, "flush after the commit", w.commit(t), "")
}

func TestFlushThatFails(t *testing.T) {
	w := newFixture(texts, nil)
	for _, k := range []string{"a", "b", "c"} {
		w.kv.Put(k, k)
	}
	full := errors.New("full")
	n := 0
	err := w.live.Flush(func(_, _ []byte, _ int64) error {
		if n++; n == 2 {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) {
		t.Fatalf("error %v", err)
	}
	equal(t, "flush of the rest", w.flush(t), "b=b@0, c=c@0")
	w.live.Rollback()
	equal(t, "length", w.kv.Len(), 0)
}

// What an aborted transaction wrote is gone, over each of the layers that may be below.
func TestRollback(t *testing.T) {
	for name, below := range map[string]func(w *fixture[string, string]){
		"backend":   func(w *fixture[string, string]) { w.checkpoint(t) },
		"committed": func(w *fixture[string, string]) {},
		"frozen":    func(w *fixture[string, string]) { w.live.Freeze() },
	} {
		for _, flushed := range []bool{false, true} {
			w := newFixture(texts, nil)
			w.time = 4
			w.kv.Put("a", "before")
			w.kv.Put("gone", "x")
			w.commit(t)
			w.kv.Delete("gone")
			w.commit(t)
			below(w)
			w.time = 5
			w.kv.Put("a", "aborted, and longer than before")
			w.kv.Put("new", "x")
			w.kv.Put("gone", "y")
			if flushed {
				w.flush(t)
				w.kv.Put("a", "once more")
			}
			w.live.Rollback()
			e, _ := w.kv.Entry("a")
			if e.Value != "before" || e.Time.UnixMilli() != 4 {
				t.Errorf("%s: %+v after the abort", name, e)
			}
			equal(t, name+": length", w.kv.Len(), 1)
			equal(t, name+": flush", w.commit(t), "")
		}
	}
}

func TestCommittedWithoutFlush(t *testing.T) {
	w := newFixture(texts, nil)
	w.kv.Put("a", "x")
	if caught(w.live.Committed) == nil {
		t.Error("a write that no changelog has was committed")
	}
}

// Updates of entries that are there allocate nothing, however often they are committed.
func TestNoAllocations(t *testing.T) {
	w := newFixture(counts, nil)
	keys := []string{"a", "b", "c", "d"}
	write := func(_, _ []byte, _ int64) error { return nil }
	add := func(old int64, _ bool) (int64, bool) { return old + 1, true }
	round := func() {
		for _, k := range keys {
			w.kv.Update(k, add)
		}
		if err := w.live.Flush(write); err != nil {
			t.Fatal(err)
		}
		w.live.Committed()
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
