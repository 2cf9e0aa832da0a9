package store

import (
	"context"
	"iter"

	"github.com/kolkstreams/kolk/internal/state"
)

// KeyValueReader reads committed state from outside the topology. It is safe for use by many goroutines and sees one consistent
// state per call. Errors are those of the kolk package: ErrNotReady, *MovedError, ErrClosed. Entries past their TTL are not there.
type KeyValueReader[K comparable, V any] interface {
	// Get asks the owner of the key, over HTTP if that is another instance and forwarding is on.
	Get(ctx context.Context, key K) (V, bool, error)
	// Entry is Get with the time of the last write.
	Entry(ctx context.Context, key K) (Entry[K, V], bool, error)
	// Range visits the local keys from from to to, both included: partition by partition, in each in the order of the encoded keys. The
	// loop ends after an error.
	Range(ctx context.Context, from, to K) iter.Seq2[Entry[K, V], error]
	// All visits the local keys, in the same order.
	All(ctx context.Context) iter.Seq2[Entry[K, V], error]
}

// keyValueReader reads the stores that a view shows.
type keyValueReader[K comparable, V any] struct {
	view state.View
	name string
}

// Get returns the value and whether there is one.
func (r keyValueReader[K, V]) Get(ctx context.Context, key K) (V, bool, error) {
	e, ok, err := r.Entry(ctx, key)
	return e.Value, ok, err
}

// Entry asks one partition after the other: a key is in one of them at most.
func (r keyValueReader[K, V]) Entry(ctx context.Context, key K) (e Entry[K, V], ok bool, err error) {
	defer guard(&err)
	if err := ctx.Err(); err != nil {
		return e, false, err
	}
	for _, live := range r.view.Stores(r.name) {
		if e, ok = live.(*keyValue[K, V]).committed(key); ok {
			return e, true, nil
		}
	}
	return e, false, nil
}

// Range visits the keys from from to to.
func (r keyValueReader[K, V]) Range(ctx context.Context, from, to K) iter.Seq2[Entry[K, V], error] {
	return r.each(ctx, func(s *keyValue[K, V]) (first, end []byte) { return s.bounds(from, to) })
}

// All visits all keys.
func (r keyValueReader[K, V]) All(ctx context.Context) iter.Seq2[Entry[K, V], error] {
	return r.each(ctx, func(*keyValue[K, V]) (first, end []byte) { return nil, nil })
}

// each reads everything before the loop's body sees anything, so that the body may let the tasks go on.
func (r keyValueReader[K, V]) each(ctx context.Context, bounds func(*keyValue[K, V]) (first, end []byte)) iter.Seq2[Entry[K, V], error] {
	return func(yield func(Entry[K, V], error) bool) {
		entries, err := r.collect(ctx, bounds)
		if err != nil {
			yield(Entry[K, V]{}, err)
			return
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				yield(Entry[K, V]{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (r keyValueReader[K, V]) collect(ctx context.Context, bounds func(*keyValue[K, V]) (first, end []byte)) (entries []Entry[K, V], err error) {
	defer guard(&err)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, live := range r.view.Stores(r.name) {
		s := live.(*keyValue[K, V])
		first, end := bounds(s)
		s.eachCommitted(first, end, func(e Entry[K, V]) { entries = append(entries, e) })
	}
	return entries, nil
}
