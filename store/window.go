package store

import (
	"iter"
	"math"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/window"
)

// Window is a window store as a processor sees it: values by key and window start. Like KeyValue it belongs to the task, its methods return
// no error, values are copies, and loops see the store as it was when they began.
//
// A window is gone once its start is the retention or more behind the largest start that was written: reads do not see it, and a write is
// dropped and counted under "expired". Starts are cut to whole milliseconds. A window that starts before 1970 is a record that failed.
type Window[K comparable, V any] interface {
	// Get returns the value of the window that starts at start, and whether there is one.
	Get(key K, start time.Time) (V, bool)
	// Put sets the value. Storing a nil pointer deletes.
	Put(key K, start time.Time, value V)
	// Delete removes the value, if there is one.
	Delete(key K, start time.Time)
	// Fetch visits one key's windows that start in [from, to], in order of start.
	Fetch(key K, from, to time.Time) iter.Seq2[window.Key[K], V]
	// FetchBackward is Fetch in descending order: it begins at to.
	FetchBackward(key K, from, to time.Time) iter.Seq2[window.Key[K], V]
	// Range is All for the keys from first to last, both included, by their encoded form.
	Range(first, last K, from, to time.Time) iter.Seq2[window.Key[K], V]
	// All visits the windows of all keys that start in [from, to], in order of start, then of encoded key.
	All(from, to time.Time) iter.Seq2[window.Key[K], V]
	// Len is the number of entries. Those that have expired count until a checkpoint removes them.
	Len() int64
}

// windows is a task's window store.
type windows[K comparable, V any] struct {
	timed[K, V]
	ends func(start int64) int64
}

var (
	_ state.Windows[string, int] = (*windows[string, int])(nil)
	_ state.Segmenting           = (*windows[string, int])(nil)
	_ state.Opener               = (*windows[string, int])(nil)
)

func openWindow[K comparable, V any](d *state.Decl, env state.Env, kind keyKind[K], key serde.Serde[K], value serde.Serde[V]) *windows[K, V] {
	s := &windows[K, V]{ends: d.Ends}
	s.open(d, env, kind, key, value, windowTail)
	return s
}

func at[K comparable](key K, start int64) placed[K] { return placed[K]{key, place{at: start}} }

// Lookup is the value of one window and its entry's time.
func (s *windows[K, V]) Lookup(key K, start int64) (V, int64, bool) { return s.lookup(at(key, start)) }

// Modify replaces the window's entry by what f makes of it.
func (s *windows[K, V]) Modify(key K, start int64, f func(old V, at int64, ok bool) (V, int64, bool)) bool {
	return s.modify(at(key, start), f)
}

// Fetch visits one key's windows.
func (s *windows[K, V]) Fetch(key K, from, to int64, backward bool, visit func(start int64, value V, at int64) bool) {
	s.each(query[K]{key: key, one: true, lo: from, hi: to, until: math.MaxInt64, backward: backward}, func(p placed[K], value V, at int64) bool {
		return visit(p.at, value, at)
	})
}

// Starting visits the windows of all keys.
func (s *windows[K, V]) Starting(from, to int64, visit func(key K, start int64, value V, at int64) bool) {
	s.each(query[K]{lo: from, hi: to, until: math.MaxInt64}, func(p placed[K], value V, at int64) bool {
		return visit(p.key, p.at, value, at)
	})
}

// First is the first start that is not before from.
func (s *windows[K, V]) First(from int64) (start int64, ok bool) { return s.first(from) }

func (s *windows[K, V]) key(p placed[K]) window.Key[K] {
	return window.Of(p.key, time.UnixMilli(p.at), time.UnixMilli(s.ends(p.at)))
}

// Opened is the store for processors.
func (s *windows[K, V]) Opened() any { return Window[K, V](windowView[K, V]{s}) }

// windowView is a window store as processors see it.
type windowView[K comparable, V any] struct{ s *windows[K, V] }

// Get returns the value.
func (v windowView[K, V]) Get(key K, start time.Time) (V, bool) {
	value, _, ok := v.s.lookup(at(key, start.UnixMilli()))
	return value, ok
}

// Put sets the value.
func (v windowView[K, V]) Put(key K, start time.Time, value V) {
	if !v.s.set(at(key, start.UnixMilli()), value, v.s.env.Now()) {
		v.s.env.Drop(expired)
	}
}

// Delete removes the value.
func (v windowView[K, V]) Delete(key K, start time.Time) {
	if !v.s.unset(at(key, start.UnixMilli())) {
		v.s.env.Drop(expired)
	}
}

// Fetch visits one key's windows.
func (v windowView[K, V]) Fetch(key K, from, to time.Time) iter.Seq2[window.Key[K], V] {
	return v.fetch(key, from, to, false)
}

// FetchBackward visits one key's windows in descending order.
func (v windowView[K, V]) FetchBackward(key K, from, to time.Time) iter.Seq2[window.Key[K], V] {
	return v.fetch(key, from, to, true)
}

func (v windowView[K, V]) fetch(key K, from, to time.Time, backward bool) iter.Seq2[window.Key[K], V] {
	return func(yield func(window.Key[K], V) bool) {
		v.s.Fetch(key, from.UnixMilli(), to.UnixMilli(), backward, func(start int64, value V, _ int64) bool {
			return yield(v.s.key(at(key, start)), value)
		})
	}
}

// All visits the windows of all keys.
func (v windowView[K, V]) All(from, to time.Time) iter.Seq2[window.Key[K], V] {
	return v.some(from, to, func(K) bool { return true })
}

// Range visits the windows of some keys.
func (v windowView[K, V]) Range(first, last K, from, to time.Time) iter.Seq2[window.Key[K], V] {
	return func(yield func(window.Key[K], V) bool) {
		v.s.check()
		v.some(from, to, v.s.between(first, last))(yield)
	}
}

func (v windowView[K, V]) some(from, to time.Time, wants func(K) bool) iter.Seq2[window.Key[K], V] {
	return func(yield func(window.Key[K], V) bool) {
		v.s.Starting(from.UnixMilli(), to.UnixMilli(), func(key K, start int64, value V, _ int64) bool {
			return !wants(key) || yield(v.s.key(at(key, start)), value)
		})
	}
}

// Len is the number of entries.
func (v windowView[K, V]) Len() int64 { return v.s.count() }

// expired is the reason under which refused writes are counted.
const expired = "expired"
