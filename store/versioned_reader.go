package store

import (
	"context"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
)

// VersionedReader is KeyValueReader's counterpart for versioned stores.
type VersionedReader[K comparable, V any] interface {
	// Get is Versioned.Get on committed state.
	Get(ctx context.Context, key K) (VersionedValue[V], bool, error)
	// AsOf is Versioned.AsOf on committed state.
	AsOf(ctx context.Context, key K, t time.Time) (VersionedValue[V], bool, error)
}

// versionedReader reads the stores that a view shows.
type versionedReader[K comparable, V any] struct {
	view state.View
	name string
}

// Get returns the newest value.
func (r versionedReader[K, V]) Get(ctx context.Context, key K) (VersionedValue[V], bool, error) {
	return r.find(ctx, key, func(s *versioned[K, V], key []byte) (VersionedValue[V], bool) {
		value, from, ok := s.latest.settledRow(key)
		if !ok {
			return VersionedValue[V]{}, false
		}
		return s.version(key, value, from, none), true
	})
}

// AsOf returns the value that was valid at t.
func (r versionedReader[K, V]) AsOf(ctx context.Context, key K, t time.Time) (VersionedValue[V], bool, error) {
	return r.find(ctx, key, func(s *versioned[K, V], key []byte) (VersionedValue[V], bool) {
		value, from, to, ok := s.settledAt(key, t.UnixMilli())
		if !ok {
			return VersionedValue[V]{}, false
		}
		return s.version(key, value, from, to), true
	})
}

// find asks one partition after the other: a key is in one of them at most.
func (r versionedReader[K, V]) find(ctx context.Context, key K, read func(*versioned[K, V], []byte) (VersionedValue[V], bool)) (v VersionedValue[V], ok bool, err error) {
	defer guard(&err)
	if err := ctx.Err(); err != nil {
		return v, false, err
	}
	for _, live := range r.view.Stores(r.name) {
		s := live.(*versioned[K, V])
		s.check()
		if v, ok = read(s, s.key(key)); ok {
			return v, true, nil
		}
	}
	return v, false, nil
}

// settledAt is at as of the last commit.
func (h *history) settledAt(key []byte, t int64) (value []byte, from, to int64, ok bool) {
	if value, from, ok = h.latest.settledRow(key); ok && from <= t {
		return value, from, none, true
	}
	if _, from, ok = h.past.settledRow(graveName(nil, key)); ok && from <= t {
		return nil, 0, 0, false
	}
	_, observed, ok := h.past.settledRow([]byte{clock})
	if !ok || t < before(observed, h.keep) {
		return nil, 0, 0, false
	}
	v, ok := h.under(key, t, true)
	if !ok || v.to <= t || !v.has {
		return nil, 0, 0, false
	}
	return v.value, v.from, v.to, true
}
