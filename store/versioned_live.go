package store

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

// versioned is a task's versioned store: what processors see, what operators use, and what the commit cycle moves.
type versioned[K comparable, V any] struct {
	history
	puts       puts
	name       string
	env        state.Env
	keySerde   serde.Serde[K]
	valueSerde serde.Serde[V]
	kb, vb     []byte // scratch

	pruned, pruning int64 // by committed transactions, and by the open one
}

var (
	_ Versioned[string, int]      = (*versioned[string, int])(nil)
	_ state.Live                  = (*versioned[string, int])(nil)
	_ state.Versions[string, int] = (*versioned[string, int])(nil)
)

func openVersioned[K comparable, V any](d *state.Decl, env state.Env, key serde.Serde[K], value serde.Serde[V]) *versioned[K, V] {
	s := &versioned[K, V]{name: d.Name, env: env, keySerde: key, valueSerde: value}
	s.history.init(d.Name, env, d.Retention)
	return s
}

func (s *versioned[K, V]) refuse(format string, args ...any) {
	panic(state.Failed{Store: s.name, Err: fmt.Errorf(format, args...)})
}

// maxVersionedKey leaves room for what the names of older versions hold beside the key.
const maxVersionedKey = state.MaxKey - 32

func (s *versioned[K, V]) key(key K) []byte {
	b, err := s.keySerde.Encode(s.kb[:0], key)
	switch {
	case err != nil:
		s.refuse("encode key %v: %w", key, err)
	case b == nil:
		s.refuse("key %v is null to its serde, and a store has no null keys", key)
	case len(b) > maxVersionedKey:
		s.refuse("%w: a key of %d bytes, at most %d are possible", state.ErrTooLarge, len(b), maxVersionedKey)
	}
	s.kb = b
	return b
}

func (s *versioned[K, V]) value(key []byte, value V) []byte {
	b, err := s.valueSerde.Encode(s.vb[:0], value)
	if err != nil {
		s.refuse("encode the value of key %x: %w", key, err)
	}
	if b == nil {
		return nil
	}
	if len(b) >= state.MaxValue-timeSize {
		s.refuse("%w: key %x has a value of %d bytes, at most %d are possible", state.ErrTooLarge, key, len(b), state.MaxValue-timeSize-1)
	}
	s.vb = b
	return b
}

func (s *versioned[K, V]) decode(key, value []byte) V {
	v, err := s.valueSerde.Decode(value)
	if err != nil {
		s.latest.fail("decode the value of key %x: %w", key, err)
	}
	return v
}

// Get returns the newest value.
func (s *versioned[K, V]) Get(key K) (VersionedValue[V], bool) {
	v, from, ok := s.Latest(key)
	if !ok {
		return VersionedValue[V]{}, false
	}
	return VersionedValue[V]{Value: v, From: time.UnixMilli(from)}, true
}

// AsOf returns the value that was valid at t.
func (s *versioned[K, V]) AsOf(key K, t time.Time) (VersionedValue[V], bool) {
	s.check()
	kb := s.key(key)
	value, from, to, ok := s.at(kb, t.UnixMilli())
	if !ok {
		return VersionedValue[V]{}, false
	}
	return s.version(kb, value, from, to), true
}

func (s *versioned[K, V]) version(key, value []byte, from, to int64) VersionedValue[V] {
	v := VersionedValue[V]{Value: s.decode(key, value), From: time.UnixMilli(from)}
	if to != none {
		v.To = time.UnixMilli(to)
	}
	return v
}

// Put sets the value valid from at on.
func (s *versioned[K, V]) Put(key K, value V, at time.Time) bool {
	s.check()
	kb := s.key(key)
	return s.putCounted(kb, s.value(kb, value), at.UnixMilli())
}

// Delete says that there is no value from at on.
func (s *versioned[K, V]) Delete(key K, at time.Time) {
	s.check()
	s.putCounted(s.key(key), nil, at.UnixMilli())
}

func (s *versioned[K, V]) putCounted(key, value []byte, at int64) bool {
	if s.write(key, value, at) != state.Refused {
		return true
	}
	if s.env.Drop != nil {
		s.env.Drop("expired")
	}
	return false
}

// write puts a version and logs it.
func (s *versioned[K, V]) write(key, value []byte, at int64) state.Written {
	if at < 0 {
		s.refuse("a version of key %x from %v on: times before 1970 are not possible", key, time.UnixMilli(at).UTC())
	}
	done := s.put(key, value, at)
	if done == state.Refused {
		return done // a log of it would be the last record of its key, which is what compaction keeps
	}
	s.puts.add(key, value, at)
	if done == state.Past {
		last, from, _, _ := s.newest(key)
		s.puts.add(key, last, from) // for the same reason
	}
	s.pruning += s.prune()
	return done
}

// Latest is the newest value, for operators.
func (s *versioned[K, V]) Latest(key K) (v V, from int64, ok bool) {
	s.check()
	kb := s.key(key)
	value, from, ok := s.latest.get(kb)
	if !ok {
		return v, 0, false
	}
	return s.decode(kb, value), from, true
}

// At is AsOf for operators.
func (s *versioned[K, V]) At(key K, at int64) (v V, from int64, ok bool) {
	s.check()
	kb := s.key(key)
	value, from, _, ok := s.at(kb, at)
	if !ok {
		return v, 0, false
	}
	return s.decode(kb, value), from, true
}

// Oldest is how far the past goes back.
func (s *versioned[K, V]) Oldest() int64 {
	s.check()
	return s.oldest()
}

// Write is Put for operators.
func (s *versioned[K, V]) Write(key K, value V, has bool, at int64) (old V, had bool, done state.Written) {
	s.check()
	kb := s.key(key)
	var vb []byte
	if has {
		vb = s.value(kb, value)
	}
	if was, _, _, ok := s.at(kb, at); ok {
		old, had = s.decode(kb, was), true
	}
	return old, had, s.write(kb, vb, at)
}

// Flush gives every put since the last one to write, in order.
func (s *versioned[K, V]) Flush(write func(key, value []byte, at int64) error) error {
	s.check()
	if err := s.puts.flush(write); err != nil {
		return err
	}
	nobody := func(_, _ []byte, _ int64) error { return nil } // rows are not what the changelog holds
	if err := s.latest.Flush(nobody); err != nil {
		return err
	}
	return s.past.Flush(nobody)
}

// Committed makes what Flush gave committed.
func (s *versioned[K, V]) Committed() {
	s.latest.Committed()
	s.past.Committed()
	s.puts.reset()
	s.pruned, s.pruning = s.pruned+s.pruning, 0
}

// Rollback lets what was put fall back to what is committed.
func (s *versioned[K, V]) Rollback() {
	s.latest.Rollback()
	s.past.Rollback()
	s.puts.reset()
	s.forget()
	s.pruning = 0
}

// Freeze moves the committed rows into the frozen layer.
func (s *versioned[K, V]) Freeze() []state.Batch {
	return slices.Concat(s.latest.Freeze(), s.past.Freeze())
}

// Applied drops the frozen layer.
func (s *versioned[K, V]) Applied() {
	s.latest.Applied()
	s.past.Applied()
}

// Restore takes one committed changelog record: a put, which is refused again if it was too old.
func (s *versioned[K, V]) Restore(key, value []byte, at int64) error {
	s.check()
	if at < 0 {
		return fmt.Errorf("key %x: a version has the time %d, and none before 1970 is possible", key, at)
	}
	s.restoring = true
	defer func() { s.restoring = false }()
	s.put(bytes.Clone(key), value, at)
	s.pruned += s.prune()
	return nil
}

// Load is not for this store, as a put depends on those before it.
func (s *versioned[K, V]) Load(state.Loader, []byte, []byte, int64) error {
	return fmt.Errorf("store %q cannot be loaded in bulk, as its declaration says", s.name)
}

// Expire does nothing: a versioned store has no TTL.
func (s *versioned[K, V]) Expire(int64, int) (more bool) { return false }

// Stats count the newest values as entries, and the bytes of all versions.
func (s *versioned[K, V]) Stats() state.Stats {
	l, p := s.latest.Stats(), s.past.Stats()
	return state.Stats{
		Entries: l.Entries,
		Bytes:   l.Bytes + p.Bytes,
		Dirty:   l.Dirty + p.Dirty + s.puts.bytes,
		Pending: l.Pending + p.Pending,
		Memory:  l.Memory + p.Memory + s.puts.arena.held,
		Expired: s.pruned + s.pruning,
	}
}

// Close gives the memory back.
func (s *versioned[K, V]) Close() {
	s.latest.Close()
	s.past.Close()
}

// Observed is the largest time that was put.
func (s *versioned[K, V]) Observed() int64 {
	s.check()
	s.oldest()
	return s.observed
}
