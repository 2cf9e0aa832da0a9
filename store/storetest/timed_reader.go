package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/window"
)

// oneStore is a view of a single store.
type oneStore struct{ live state.Live }

// Stores are the store alone.
func (v oneStore) Stores(string) []state.Live { return []state.Live{v.live} }

// readCommitted compares what a reader sees with what is committed.
func (w *timedWorld) readCommitted() {
	r := w.decl.Read(oneStore{w.live}).(store.WindowReader[string, string])
	ctx := context.Background()
	place := func(k window.Key[string]) spot {
		if w.sessions {
			return spot{k.End().UnixMilli(), k.Start().UnixMilli()}
		}
		return spot{at: k.Start().UnixMilli()}
	}
	k := w.draw()
	start := k.at
	if w.sessions {
		start = k.from
	}
	v, ok, err := r.Get(ctx, window.Of(k.key, time.UnixMilli(start), time.UnixMilli(k.at)))
	want, there := w.committed[k]
	there = there && !w.gone(k.at, w.committedObserved)
	if err != nil || ok != there || ok && v != want.value {
		w.t.Fatalf("a reader gets %q, %v, %v of %+v, want %q, %v", v, ok, err, k, want.value, there)
	}
	lo, hi := w.window()
	var got []string
	for e, err := range r.Fetch(ctx, k.key, time.UnixMilli(lo), time.UnixMilli(hi)) {
		if err != nil {
			w.t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%q %v %s", e.Key.Key, place(e.Key), e.Value))
	}
	touches := w.touching(lo, hi)
	if want := w.want(w.committed, w.committedObserved, func(o timedKey) bool { return o.key == k.key && touches(o) }); !slices.Equal(got, want) {
		w.t.Fatalf("a reader fetches %q in [%d, %d]:\n%q\nwant\n%q", k.key, lo, hi, got, want)
	}
	got = nil
	for e, err := range r.All(ctx, time.UnixMilli(lo), time.UnixMilli(hi)) {
		if err != nil {
			w.t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%q %v %s", e.Key.Key, place(e.Key), e.Value))
	}
	if want := w.want(w.committed, w.committedObserved, func(o timedKey) bool { return o.at >= lo && o.at <= hi }); !slices.Equal(got, want) {
		w.t.Fatalf("a reader finds in [%d, %d]:\n%q\nwant\n%q", lo, hi, got, want)
	}
}
