package kolk

import (
	"testing"
	"time"
)

// What was committed of a repartition topic is deleted, so that its disk does not grow for ever; what was not is kept.
func TestPurge(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		r := w.start(countingValues(), w.config("app")).ready()
		w.send("words", "1=a", "2=b", "3=a")
		w.settled("app", "words", "app-counts-repartition")
		w.wait(purgeEvery + time.Second)
		starts, err := w.adm.ListStartOffsets(w.t.Context(), "app-counts-repartition")
		if err != nil {
			t.Fatal(err)
		}
		if s, _ := starts.Lookup("app-counts-repartition", 0); s.Offset < 3 {
			t.Errorf("the topic still begins at %d", s.Offset)
		}
		if starts, err = w.adm.ListStartOffsets(w.t.Context(), "words"); err != nil {
			t.Fatal(err)
		}
		if s, _ := starts.Lookup("words", 0); s.Offset != 0 {
			t.Errorf("the user's topic begins at %d", s.Offset)
		}
		w.send("words", "4=a")
		w.settled("app", "words", "app-counts-repartition")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.same("counts", w.counts("totals"), map[string]int64{"a": 3, "b": 1})
	})
}

func TestPurgeOnlyWhatMoved(t *testing.T) {
	p := newPurger()
	p.committed("t", 0, 10)
	due := p.due()
	if due["t"][0] != 10 {
		t.Fatalf("due: %v", due)
	}
	p.purged(due)
	p.committed("t", 0, 10)
	p.committed("t", 1, 5)
	if due = p.due(); len(due["t"]) != 1 || due["t"][1] != 5 {
		t.Errorf("due: %v", due)
	}
	if due = p.due(); len(due) != 0 {
		t.Errorf("due again: %v", due)
	}
}
