package store

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/window"
)

// WindowReader is KeyValueReader's counterpart for windows and sessions: it reads committed state from outside the topology, is safe for use
// by many goroutines and sees one consistent state per call. What has expired is not there. A loop ends after an error.
type WindowReader[K comparable, V any] interface {
	// Get asks the owner of the key for one window or session. Of a window only key and start matter.
	Get(ctx context.Context, key window.Key[K]) (V, bool, error)
	// Fetch visits one key's windows that start in [from, to], in order of start, or its sessions that touch [from, to], in order of end.
	Fetch(ctx context.Context, key K, from, to time.Time) iter.Seq2[Entry[window.Key[K], V], error]
	// All visits the local windows that start, or sessions that end, in [from, to]: partition by partition, in each by time, then by
	// encoded key.
	All(ctx context.Context, from, to time.Time) iter.Seq2[Entry[window.Key[K], V], error]
}

// reads is a window or session store as a reader sees it. Each call reads what is committed, and leaves everything as it is.
type reads[K comparable, V any] interface {
	get(key window.Key[K]) (value V, at int64, ok bool)
	one(key K, from, to int64, visit func(Entry[window.Key[K], V]))
	every(from, to int64, visit func(Entry[window.Key[K], V]))
}

var (
	_ reads[string, int] = (*windows[string, int])(nil)
	_ reads[string, int] = (*sessions[string, int])(nil)
)

func (s *windows[K, V]) get(k window.Key[K]) (V, int64, bool) {
	return s.committedAt(at(k.Key, k.Start().UnixMilli()))
}

func (s *windows[K, V]) one(key K, from, to int64, visit func(Entry[window.Key[K], V])) {
	s.each(query[K]{key: key, one: true, lo: from, hi: to, until: math.MaxInt64, committed: true}, s.entries(visit))
}

func (s *windows[K, V]) every(from, to int64, visit func(Entry[window.Key[K], V])) {
	s.each(query[K]{lo: from, hi: to, until: math.MaxInt64, committed: true}, s.entries(visit))
}

func (s *windows[K, V]) entries(visit func(Entry[window.Key[K], V])) func(placed[K], V, int64) bool {
	return func(p placed[K], value V, at int64) bool {
		visit(Entry[window.Key[K], V]{s.key(p), value, time.UnixMilli(at)})
		return true
	}
}

func (s *sessions[K, V]) get(k window.Key[K]) (V, int64, bool) { return s.committedAt(sessionOf(k)) }

func (s *sessions[K, V]) one(key K, from, to int64, visit func(Entry[window.Key[K], V])) {
	s.each(query[K]{key: key, one: true, lo: from, hi: math.MaxInt64, until: to, committed: true}, s.entries(visit))
}

func (s *sessions[K, V]) every(from, to int64, visit func(Entry[window.Key[K], V])) {
	s.each(query[K]{lo: from, hi: to, until: math.MaxInt64, committed: true}, s.entries(visit))
}

func (s *sessions[K, V]) entries(visit func(Entry[window.Key[K], V])) func(placed[K], V, int64) bool {
	return func(p placed[K], value V, at int64) bool {
		visit(Entry[window.Key[K], V]{sessionKey(p.key, p.from, p.at), value, time.UnixMilli(at)})
		return true
	}
}

// windowReader reads the stores that a view shows.
type windowReader[K comparable, V any] struct {
	view state.View
	name string
}

// Get asks one partition after the other: a key is in one of them at most.
func (r windowReader[K, V]) Get(ctx context.Context, key window.Key[K]) (value V, ok bool, err error) {
	defer guard(&err)
	if err := ctx.Err(); err != nil {
		return value, false, err
	}
	for _, live := range r.view.Stores(r.name) {
		if value, _, ok = live.(reads[K, V]).get(key); ok {
			return value, true, nil
		}
	}
	return value, false, nil
}

// Fetch visits one key's entries.
func (r windowReader[K, V]) Fetch(ctx context.Context, key K, from, to time.Time) iter.Seq2[Entry[window.Key[K], V], error] {
	return r.each(ctx, func(s reads[K, V], visit func(Entry[window.Key[K], V])) {
		s.one(key, from.UnixMilli(), to.UnixMilli(), visit)
	})
}

// All visits the entries of all keys.
func (r windowReader[K, V]) All(ctx context.Context, from, to time.Time) iter.Seq2[Entry[window.Key[K], V], error] {
	return r.each(ctx, func(s reads[K, V], visit func(Entry[window.Key[K], V])) {
		s.every(from.UnixMilli(), to.UnixMilli(), visit)
	})
}

// each reads everything before the loop's body sees anything, so that the body may let the tasks go on.
func (r windowReader[K, V]) each(ctx context.Context, read func(reads[K, V], func(Entry[window.Key[K], V]))) iter.Seq2[Entry[window.Key[K], V], error] {
	return func(yield func(Entry[window.Key[K], V], error) bool) {
		entries, err := r.collect(ctx, read)
		if err != nil {
			yield(Entry[window.Key[K], V]{}, err)
			return
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				yield(Entry[window.Key[K], V]{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (r windowReader[K, V]) collect(ctx context.Context, read func(reads[K, V], func(Entry[window.Key[K], V]))) (entries []Entry[window.Key[K], V], err error) {
	defer guard(&err)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, live := range r.view.Stores(r.name) {
		read(live.(reads[K, V]), func(e Entry[window.Key[K], V]) { entries = append(entries, e) })
	}
	return entries, nil
}
