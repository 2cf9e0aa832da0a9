package store

import (
	"iter"
	"math"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/window"
)

// Session is a session store as a processor sees it: values by key, start and end, both included. Like KeyValue it belongs to the task, its
// methods return no error, values are copies, and loops see the store as it was when they began.
//
// A session is gone once its end is the retention or more behind the largest end that was written: reads do not see it, and a write is dropped
// and counted under "expired". A session that starts before 1970, or ends before it starts, is a record that failed.
type Session[K comparable, V any] interface {
	// Get returns the value of exactly this session, and whether there is one.
	Get(key window.Key[K]) (V, bool)
	// Put sets the value. Storing a nil pointer deletes. The store does not merge sessions: delete those that become part of a longer one.
	Put(key window.Key[K], value V)
	// Delete removes exactly this session, if it is there.
	Delete(key window.Key[K])
	// Find visits one key's sessions that touch [from, to], in order of their end, then their start.
	Find(key K, from, to time.Time) iter.Seq2[window.Key[K], V]
	// FindBackward is Find in descending order.
	FindBackward(key K, from, to time.Time) iter.Seq2[window.Key[K], V]
	// Range is All for the keys from first to last, both included, by their encoded form.
	Range(first, last K, from, to time.Time) iter.Seq2[window.Key[K], V]
	// All visits the sessions of all keys that end in [from, to], in order of end, then start, then of encoded key.
	All(from, to time.Time) iter.Seq2[window.Key[K], V]
	// Len is the number of sessions. Those that have expired count until a checkpoint removes them.
	Len() int64
}

// sessions is a task's session store.
type sessions[K comparable, V any] struct{ timed[K, V] }

var (
	_ state.Sessions[string, int] = (*sessions[string, int])(nil)
	_ state.Segmenting            = (*sessions[string, int])(nil)
	_ state.Opener                = (*sessions[string, int])(nil)
)

func openSession[K comparable, V any](d *state.Decl, env state.Env, kind keyKind[K], key serde.Serde[K], value serde.Serde[V]) *sessions[K, V] {
	s := &sessions[K, V]{}
	s.open(d, env, kind, key, value, sessionTail)
	return s
}

func session[K comparable](key K, start, end int64) placed[K] {
	return placed[K]{key, place{at: end, from: start}}
}

// Lookup is the value of exactly this session.
func (s *sessions[K, V]) Lookup(key K, start, end int64) (V, bool) {
	value, _, ok := s.lookup(session(key, start, end))
	return value, ok
}

// Find visits one key's sessions.
func (s *sessions[K, V]) Find(key K, from, to int64, visit func(start, end int64, value V) bool) {
	s.find(key, from, to, false, visit)
}

func (s *sessions[K, V]) find(key K, from, to int64, backward bool, visit func(start, end int64, value V) bool) {
	s.each(query[K]{key: key, one: true, lo: from, hi: math.MaxInt64, until: to, backward: backward}, func(p placed[K], value V, _ int64) bool {
		return visit(p.from, p.at, value)
	})
}

// Put stores a session.
func (s *sessions[K, V]) Put(key K, start, end int64, value V) bool {
	if start > end {
		s.refuse("a session from %d to %d ends before it starts", start, end)
	}
	return s.set(session(key, start, end), value, s.env.Now())
}

// Remove deletes exactly this session.
func (s *sessions[K, V]) Remove(key K, start, end int64) { s.unset(session(key, start, end)) }

// Ending visits the sessions of all keys.
func (s *sessions[K, V]) Ending(from, to int64, visit func(key K, start, end int64, value V) bool) {
	s.each(query[K]{lo: from, hi: to, until: math.MaxInt64}, func(p placed[K], value V, _ int64) bool {
		return visit(p.key, p.from, p.at, value)
	})
}

// First is the first end that is not before from.
func (s *sessions[K, V]) First(from int64) (end int64, ok bool) { return s.first(from) }

// Opened is the store for processors.
func (s *sessions[K, V]) Opened() any { return Session[K, V](sessionView[K, V]{s}) }

// sessionView is a session store as processors see it.
type sessionView[K comparable, V any] struct{ s *sessions[K, V] }

func sessionOf[K comparable](k window.Key[K]) placed[K] {
	return session(k.Key, k.Start().UnixMilli(), k.End().UnixMilli())
}

func sessionKey[K comparable](key K, start, end int64) window.Key[K] {
	return window.Of(key, time.UnixMilli(start), time.UnixMilli(end))
}

// Get returns the value.
func (v sessionView[K, V]) Get(key window.Key[K]) (V, bool) {
	value, _, ok := v.s.lookup(sessionOf(key))
	return value, ok
}

// Put sets the value.
func (v sessionView[K, V]) Put(key window.Key[K], value V) {
	if p := sessionOf(key); !v.s.Put(p.key, p.from, p.at, value) {
		v.s.env.Drop(expired)
	}
}

// Delete removes the session.
func (v sessionView[K, V]) Delete(key window.Key[K]) {
	if !v.s.unset(sessionOf(key)) {
		v.s.env.Drop(expired)
	}
}

// Find visits one key's sessions.
func (v sessionView[K, V]) Find(key K, from, to time.Time) iter.Seq2[window.Key[K], V] {
	return v.find(key, from, to, false)
}

// FindBackward visits one key's sessions in descending order.
func (v sessionView[K, V]) FindBackward(key K, from, to time.Time) iter.Seq2[window.Key[K], V] {
	return v.find(key, from, to, true)
}

func (v sessionView[K, V]) find(key K, from, to time.Time, backward bool) iter.Seq2[window.Key[K], V] {
	return func(yield func(window.Key[K], V) bool) {
		v.s.find(key, from.UnixMilli(), to.UnixMilli(), backward, func(start, end int64, value V) bool {
			return yield(sessionKey(key, start, end), value)
		})
	}
}

// All visits the sessions of all keys.
func (v sessionView[K, V]) All(from, to time.Time) iter.Seq2[window.Key[K], V] {
	return v.some(from, to, func(K) bool { return true })
}

// Range visits the sessions of some keys.
func (v sessionView[K, V]) Range(first, last K, from, to time.Time) iter.Seq2[window.Key[K], V] {
	return func(yield func(window.Key[K], V) bool) {
		v.s.check()
		v.some(from, to, v.s.between(first, last))(yield)
	}
}

func (v sessionView[K, V]) some(from, to time.Time, wants func(K) bool) iter.Seq2[window.Key[K], V] {
	return func(yield func(window.Key[K], V) bool) {
		v.s.Ending(from.UnixMilli(), to.UnixMilli(), func(key K, start, end int64, value V) bool {
			return !wants(key) || yield(sessionKey(key, start, end), value)
		})
	}
}

// Len is the number of sessions.
func (v sessionView[K, V]) Len() int64 { return v.s.count() }
