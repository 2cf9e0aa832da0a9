package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/store/memstore"
)

// fixture is a store alone in a backend, with a clock to turn.
type fixture[K comparable, V any] struct {
	kv      store.KeyValue[K, V]
	table   state.Table[K, V]
	live    state.Live
	backend *flaky
	budget  *state.Budget
	time    int64
	stream  int64
	deleted []string
}

// flaky is a backend that can be made to fail, and counts its reads.
type flaky struct {
	state.Backend
	err  error
	gets int
}

func (f *flaky) Get(slot uint16, key, dst []byte) ([]byte, bool, error) {
	f.gets++
	if f.err != nil {
		return dst, false, f.err
	}
	return f.Backend.Get(slot, key, dst)
}

func (f *flaky) Scan(slot uint16, from, to []byte, reverse bool, visit func(key, value []byte) bool) error {
	if f.err != nil {
		return f.err
	}
	return f.Backend.Scan(slot, from, to, reverse, visit)
}

func newFixture[K comparable, V any](h store.KeyValueHandle[K, V], budget *state.Budget) *fixture[K, V] {
	w := &fixture[K, V]{backend: &flaky{Backend: memstore.New()}, budget: budget}
	w.live = state.Of(h).Open(state.Env{
		Backend: w.backend, Budget: budget,
		Now: func() int64 { return w.time }, StreamTime: func() int64 { return w.stream },
		Deleted: func(key []byte) { w.deleted = append(w.deleted, string(key)) },
	})
	w.kv, w.table = w.live.(store.KeyValue[K, V]), w.live.(state.Table[K, V])
	return w
}

// flush returns what Flush gives, as text.
func (w *fixture[K, V]) flush(t *testing.T) string {
	t.Helper()
	var out []string
	if err := w.live.Flush(func(key, value []byte, at int64) error {
		if value == nil {
			out = append(out, fmt.Sprintf("%s deleted@%d", key, at))
		} else {
			out = append(out, fmt.Sprintf("%s=%s@%d", key, value, at))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, ", ")
}

func (w *fixture[K, V]) commit(t *testing.T) string {
	t.Helper()
	s := w.flush(t)
	w.live.Committed()
	return s
}

func (w *fixture[K, V]) checkpoint(t *testing.T) {
	t.Helper()
	if err := w.backend.Apply(w.live.Freeze(), nil); err != nil {
		t.Fatal(err)
	}
	w.backend.Switch()
	w.live.Applied()
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// caught is what f panics with.
func caught(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}
