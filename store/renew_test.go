package store

import (
	"reflect"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store/memstore"
)

// Guards against memory that creeps up while keys come and go: once twice as many were forgotten as there are entries the index is made anew, and everything
// is still found.
func TestIndexIsRenewed(t *testing.T) {
	backend := memstore.New()
	h := NewKeyValue("numbers", serde.Int64(), serde.Int64(), FiniteKeys(1000))
	live := state.Of(h).Open(state.Env{Backend: backend, Budget: state.NewBudget(1), Now: func() int64 { return 0 }, StreamTime: func() int64 { return 0 }})
	s := live.(*keyValue[int64, int64])
	index := func() uintptr { return reflect.ValueOf(s.byValue).Pointer() }
	checkpoint := func() {
		t.Helper()
		if err := live.Flush(func([]byte, []byte, int64) error { return nil }); err != nil {
			t.Fatal(err)
		}
		live.Committed()
		if err := backend.Apply(live.Freeze(), nil); err != nil {
			t.Fatal(err)
		}
		backend.Switch()
		live.Applied()
	}
	const kept = 1000
	for i := range int64(kept) {
		s.Put(i, i)
	}
	checkpoint()
	renewals := 0
	for round := range int64(8) {
		before := index()
		for i := range int64(kept / 2) {
			s.Delete(round*kept/2 + i)
			s.Put(kept+round*kept/2+i, i)
		}
		checkpoint()
		if index() != before {
			renewals++
		}
		if n := len(s.byValue); n > kept {
			t.Fatalf("round %d: %d entries in the index, of %d", round, n, kept)
		}
	}
	if renewals < 2 || s.forgotten >= 2*kept {
		t.Errorf("made anew %d times, %d were forgotten since", renewals, s.forgotten)
	}
	for i := range int64(kept) {
		key := 4*kept + i
		if v, ok := s.Get(key); !ok || v != key%(kept/2) {
			t.Fatalf("%d is %d, %v", key, v, ok)
		}
		if _, ok := s.Get(i); ok {
			t.Fatalf("%d is still there", i)
		}
	}
}
