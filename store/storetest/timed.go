package storetest

import (
	"encoding/binary"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// Window checks window stores over a backend, which must be a state.Segmented, against a model: random reads, writes, ranges whose loops write,
// commits, aborts, checkpoints, evictions, expiry by stream time, and crashes after which checkpoint and changelog bring everything back.
func Window(t *testing.T, open OpenBackend) {
	timedStores(t, open, func(w *timedWorld) *state.Decl {
		h := store.NewWindow("rows", w.keys, serde.String(), 10*time.Millisecond, time.Duration(w.retention)*time.Millisecond)
		w.tail = func(b []byte, p spot) []byte {
			return append(binary.BigEndian.AppendUint64(b, uint64(p.at)), 0, 0, 0, 0)
		}
		w.opened = func(live state.Live) { w.store = windowStore{live.(state.Windows[string, string]), w} }
		return state.Of(h)
	})
}

// Session checks session stores, as Window does.
func Session(t *testing.T, open OpenBackend) {
	timedStores(t, open, func(w *timedWorld) *state.Decl {
		h := store.NewSession("rows", w.keys, serde.String(), time.Duration(w.retention)*time.Millisecond)
		w.sessions = true
		w.tail = func(b []byte, p spot) []byte {
			return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(p.at)), uint64(p.from))
		}
		w.opened = func(live state.Live) {
			w.store = sessionStore{live.(state.Sessions[string, string])}
		}
		return state.Of(h)
	})
}

// Names of keys may be prefixes of each other, and look like the times that follow them.
var timedKeys = []string{"", "\x00", "\x00\x00\x00\x00\x00\x00\x00\x01", "a", "a\x00", "a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "ab", "\xff", "key", "key2"}

func timedStores(t *testing.T, open OpenBackend, declare func(*timedWorld) *state.Decl) {
	root := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(root, "timed")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := &timedWorld{t: rt, root: dir, openBackend: open, keys: serde.String(), written: map[timedKey]bool{}, now: timedRows{}, committed: timedRows{}, observed: -1, committedObserved: -1}
		w.retention = rapid.SampledFrom([]int64{20, 150_000, 400_000}).Draw(rt, "retention")
		switch rapid.IntRange(0, 2).Draw(rt, "memory") {
		case 1: // none: everything that can be evicted is, and nothing is known of it
			w.limit = 1
		case 2: // other stores have it all, but for what is reserved for filters
			w.limit, w.others = 1<<20, 1<<20
		}
		w.decl = declare(w)
		if len(w.decl.Faults) > 0 {
			rt.Fatal(w.decl.Faults)
		}
		w.open()
		defer func() { w.backend.Close(false) }()
		for range rapid.IntRange(1, 80).Draw(rt, "operations") {
			w.step()
		}
		w.settle()
	})
}

// spot is a place in time: a window's start, or a session's end and start.
type spot struct{ at, from int64 }

// timedStore is a window or session store as operators use it.
type timedStore interface {
	get(key string, p spot) (string, bool)
	modify(key string, p spot, f func(old string, ok bool) (string, bool)) bool
	remove(key string, p spot)
	one(key string, lo, hi int64, visit func(p spot, value string) bool)
	all(lo, hi int64, visit func(key string, p spot, value string) bool)
	First(from int64) (at int64, ok bool)
}

type windowStore struct {
	state.Windows[string, string]
	w *timedWorld
}

func (s windowStore) get(key string, p spot) (string, bool) {
	v, _, ok := s.Lookup(key, p.at)
	return v, ok
}

func (s windowStore) modify(key string, p spot, f func(string, bool) (string, bool)) bool {
	return s.Modify(key, p.at, func(old string, _ int64, ok bool) (string, int64, bool) {
		v, keep := f(old, ok)
		return v, s.w.time, keep
	})
}

func (s windowStore) remove(key string, p spot) {
	s.Modify(key, p.at, func(string, int64, bool) (string, int64, bool) { return "", s.w.time, false })
}

func (s windowStore) one(key string, lo, hi int64, visit func(spot, string) bool) {
	s.Fetch(key, lo, hi, false, func(start int64, v string, _ int64) bool { return visit(spot{at: start}, v) })
}

func (s windowStore) all(lo, hi int64, visit func(string, spot, string) bool) {
	s.Starting(lo, hi, func(key string, start int64, v string, _ int64) bool { return visit(key, spot{at: start}, v) })
}

type sessionStore struct{ state.Sessions[string, string] }

func (s sessionStore) get(key string, p spot) (string, bool) { return s.Lookup(key, p.from, p.at) }

func (s sessionStore) modify(key string, p spot, f func(string, bool) (string, bool)) bool {
	v, keep := f(s.get(key, p))
	if !keep {
		v = "dropped"
	}
	if !s.Put(key, p.from, p.at, v) {
		return false
	}
	if !keep {
		s.Remove(key, p.from, p.at)
	}
	return true
}

func (s sessionStore) remove(key string, p spot) { s.Remove(key, p.from, p.at) }

func (s sessionStore) one(key string, lo, hi int64, visit func(spot, string) bool) {
	s.Find(key, lo, hi, func(start, end int64, v string) bool { return visit(spot{end, start}, v) })
}

func (s sessionStore) all(lo, hi int64, visit func(string, spot, string) bool) {
	s.Ending(lo, hi, func(key string, start, end int64, v string) bool { return visit(key, spot{end, start}, v) })
}
