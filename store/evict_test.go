package store_test

import (
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

func TestEviction(t *testing.T) {
	h := store.NewKeyValue("numbers", serde.Int64(), serde.Int64(), finite)
	budget := state.NewBudget(1_000_000)
	w := newFixture(h, budget)
	const n = 20_000
	for i := range int64(n) {
		w.kv.Put(i, i)
	}
	w.commit(t)
	equal(t, "length", w.kv.Len(), n)
	if budget.Over() <= 0 {
		t.Fatalf("%d bytes for %d entries that may not be evicted", budget.Used(), n)
	}
	w.checkpoint(t)
	for i := range int64(n) {
		if v, ok := w.kv.Get(i); v != i || !ok {
			t.Fatalf("%d is %d, %v", i, v, ok)
		}
	}
	for range 8 {
		w.commit(t) // each takes a part of what is too much
	}
	if over := budget.Over(); over > 0 {
		t.Errorf("the budget is passed by %d bytes, with nothing but clean entries", over)
	}
	before := w.backend.gets
	for range 100 {
		w.kv.Get(n - 1)
	}
	if w.backend.gets > before+1 {
		t.Errorf("a hot entry was read %d times", w.backend.gets-before)
	}
	w.live.Close()
	equal(t, "memory after close", budget.Used(), 0)
}
