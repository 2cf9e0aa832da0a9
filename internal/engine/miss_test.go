package engine_test

import (
	"slices"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
)

// Misses are counted by join and cause; those that are dropped are counted there too, and both are told. A rewind keeps the counts.
func TestMisses(t *testing.T) {
	var missed []engine.Drop
	w := newWorld(t, 1, func(w *world) {
		w.env.Missed = func(d engine.Drop) { missed = append(missed, d) }
		w.process = func(w *world, r *engine.Rec, key, value string) {
			w.Miss(w.Misses(w.operator(), "no_row", ""), r)
			if value == "drop" {
				w.Miss(w.Misses(w.operator(), "no_row", "no_row"), r)
				w.Miss(w.Misses(w.operator(), "row_newer", "late"), r)
			}
		}
	})
	w.Add(0, []engine.Record{{Key: []byte("k"), Value: []byte("go"), Time: 5}, {Key: []byte("k"), Value: []byte("drop"), Time: 6, Offset: 1}}, 2, 2)
	for range 2 {
		if _, err := w.Process(0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Rewind(); err != nil {
		t.Fatal(err)
	}
	if got, want := w.AllMisses(), []engine.MissCount{{"operator", "no_row", 3}, {"operator", "row_newer", 1}}; !slices.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	if len(missed) != 4 || missed[3].Reason != "row_newer" || missed[3].Offset != 1 || missed[3].Topic != "topic0" || missed[3].Node != "operator" || missed[3].Time != 6 {
		t.Errorf("told %+v", missed)
	}
	var reasons []string
	for _, d := range w.drops {
		reasons = append(reasons, d.Reason)
	}
	if !slices.Equal(reasons, []string{"no_row", "late"}) {
		t.Errorf("dropped %v", reasons)
	}
}
