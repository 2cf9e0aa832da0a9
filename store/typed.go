package store

import (
	"bytes"
	"fmt"
	"iter"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

// keyValue is a task's key-value store: what processors see, what operators use, and what the commit cycle moves. Only here are the types of
// keys and values known.
type keyValue[K comparable, V any] struct {
	valued[V]
	index[K]
	keySerde serde.Serde[K]
	kind     keyKind[K]
}

var (
	_ KeyValue[string, int]    = (*keyValue[string, int])(nil)
	_ state.Live               = (*keyValue[string, int])(nil)
	_ state.Table[string, int] = (*keyValue[string, int])(nil)
	_ state.Encoder[string]    = (*keyValue[string, int])(nil)
	_ keyIndex                 = (*keyValue[string, int])(nil)
)

func openKeyValue[K comparable, V any](d *state.Decl, env state.Env, kind keyKind[K], key serde.Serde[K], value serde.Serde[V]) *keyValue[K, V] {
	s := &keyValue[K, V]{keySerde: key, kind: kind}
	s.valued.init(d, env, s, value, s.index.init(kind.byValue))
	return s
}

// encodeKey writes the key into scratch.
func (s *keyValue[K, V]) encodeKey(key K) []byte {
	b, err := s.keySerde.Encode(s.kb[:0], key)
	switch {
	case err != nil:
		s.refuse("encode key %v: %w", key, err)
	case b == nil:
		s.refuse("key %v is null to its serde, and a store has no null keys", key)
	case len(b) > state.MaxKey:
		s.refuse("%w: a key of %d bytes, at most %d are possible", state.ErrTooLarge, len(b), state.MaxKey)
	}
	s.kb = b
	return b
}

// seek finds the entry of a key in memory. If there is none, its encoded key is in scratch, for create.
func (s *keyValue[K, V]) seek(key K) (uint32, bool) {
	s.check()
	if s.byValue != nil {
		id, ok := s.byValue[key]
		if !ok {
			s.last = key
			s.encodeKey(key)
		}
		return id, ok
	}
	id, ok := s.byName[string(s.encodeKey(key))]
	return id, ok
}

// entry finds the entry of a key, in memory or in the backend.
func (s *keyValue[K, V]) entry(key K) (uint32, *entry) {
	id, ok := s.seek(key)
	if !ok {
		id = s.create(s.kb, true)
	}
	e := s.slab.at(id)
	if !e.has(touched) {
		e.flags |= touched
	}
	return id, e
}

// locate finds the entry of an encoded key.
func (s *keyValue[K, V]) locate(name []byte) (uint32, bool, error) {
	if s.byValue == nil {
		id, ok := s.byName[string(name)]
		return id, ok, nil
	}
	key, err := s.keySerde.Decode(name)
	if err != nil {
		return 0, false, fmt.Errorf("decode the key: %w", err)
	}
	s.last = key
	id, ok := s.byValue[key]
	return id, ok, nil
}

func (s *keyValue[K, V]) add(id uint32, name string) {
	if s.kind.share != nil {
		s.last = s.kind.share(s.last, name)
	}
	s.insert(id, name)
}

func (s *keyValue[K, V]) forget(id uint32) { s.erase(id, s.slab.at(id).name) }

// Get returns the value and whether there is one.
func (s *keyValue[K, V]) Get(key K) (value V, ok bool) {
	id, e := s.entry(key)
	if !e.has(present) || s.gone(e) {
		return value, false
	}
	return s.value(id), true
}

// Entry is Get with the time.
func (s *keyValue[K, V]) Entry(key K) (Entry[K, V], bool) {
	id, e := s.entry(key)
	if !e.has(present) || s.gone(e) {
		return Entry[K, V]{}, false
	}
	return Entry[K, V]{Key: key, Value: s.value(id), Time: time.UnixMilli(e.at)}, true
}

// Put sets the value.
func (s *keyValue[K, V]) Put(key K, value V) { s.putAt(key, value, s.env.Now()) }

// PutAt is Put with a time.
func (s *keyValue[K, V]) PutAt(key K, value V, at time.Time) { s.putAt(key, value, at.UnixMilli()) }

func (s *keyValue[K, V]) putAt(key K, value V, at int64) {
	id := s.blind(key)
	s.put(id, s.slab.at(id), value, at)
}

// blind finds the entry of a key, and if it is not in memory makes one without a look at the backend.
func (s *keyValue[K, V]) blind(key K) uint32 {
	id, ok := s.seek(key)
	if !ok {
		id = s.create(s.kb, false)
	}
	return id
}

// Delete removes the entry.
func (s *keyValue[K, V]) Delete(key K) {
	id := s.blind(key)
	s.remove(id, s.slab.at(id), s.env.Now())
}

// Update replaces the value by what f makes of it.
func (s *keyValue[K, V]) Update(key K, f func(old V, ok bool) (V, bool)) {
	id, e := s.entry(key)
	gen := e.gen
	var old V
	ok := e.has(present) && !s.gone(e)
	if ok {
		old = s.value(id)
	}
	value, keep := f(old, ok)
	s.replace(key, id, gen, value, s.env.Now(), keep, false)
}

// replace ends a read, modify and write. In between the function may have used the store, and the entry may have been evicted. With always a
// delete is written also if there was no entry.
func (s *keyValue[K, V]) replace(key K, id, gen uint32, value V, at int64, keep, always bool) {
	s.check()
	e := s.slab.at(id)
	if e.gen != gen {
		id, e = s.entry(key)
	}
	switch {
	case keep:
		s.put(id, e, value, at)
	case always || e.has(present):
		s.remove(id, e, at)
	}
}

// Lookup is Get for operators.
func (s *keyValue[K, V]) Lookup(key K) (value V, at int64, ok bool) {
	id, e := s.entry(key)
	if !e.has(present) || s.gone(e) && !(s.shows && s.shown == e.name) {
		return value, 0, false
	}
	return s.value(id), e.at, true
}

// Last is Lookup of what may have expired.
func (s *keyValue[K, V]) Last(key K) (value V, at int64, ok bool) {
	id, e := s.entry(key)
	if !e.has(present) {
		return value, 0, false
	}
	return s.value(id), e.at, true
}

// Encoded is the value's bytes, for operators.
func (s *keyValue[K, V]) Encoded(key K) (value []byte, ok bool) {
	id, e := s.entry(key)
	if !e.has(present) || s.gone(e) {
		return nil, false
	}
	value, err := s.cells.encoded(id)
	if err != nil {
		s.refuse("encode the value of key %x: %w", e.name, err)
	}
	return value, true
}

// Modify is Update for operators.
func (s *keyValue[K, V]) Modify(key K, f func(old V, at int64, ok bool) (V, int64, bool)) {
	id, e := s.entry(key)
	if e.has(present) && s.gone(e) {
		s.expel(id, e, []byte(e.name))
		id, e = s.entry(key)
	}
	gen := e.gen
	var old V
	var at int64
	ok := e.has(present)
	if ok {
		old, at = s.value(id), e.at
	}
	value, newAt, keep := f(old, at, ok)
	s.replace(key, id, gen, value, newAt, keep, true)
}

// DecodeKey reads an encoded key.
func (s *keyValue[K, V]) DecodeKey(name []byte) (K, error) { return s.keySerde.Decode(name) }

// Range visits keys in ascending order.
func (s *keyValue[K, V]) Range(from, to K) iter.Seq2[K, V] { return s.between(from, to, false) }

// RangeBackward visits keys in descending order.
func (s *keyValue[K, V]) RangeBackward(from, to K) iter.Seq2[K, V] { return s.between(from, to, true) }

func (s *keyValue[K, V]) between(from, to K, reverse bool) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		first, end := s.bounds(from, to)
		s.each(first, end, reverse, yield)
	}
}

// bounds are two keys as a range of bytes that includes both.
func (s *keyValue[K, V]) bounds(from, to K) (first, end []byte) {
	s.check()
	first = bytes.Clone(s.encodeKey(from))
	return first, append(bytes.Clone(s.encodeKey(to)), 0)
}

// Prefix visits the keys whose encoded form starts with prefix.
func (s *keyValue[K, V]) Prefix(prefix []byte) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { s.each(prefix, after(prefix), false, yield) }
}

// All visits everything.
func (s *keyValue[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { s.each(nil, nil, false, yield) }
}

func (s *keyValue[K, V]) each(from, to []byte, reverse bool, yield func(K, V) bool) {
	s.scan(from, to, reverse, false, func(f found) bool {
		key, value := s.read(f)
		return yield(key, value)
	})
}

// read decodes an entry that a range has found.
func (s *keyValue[K, V]) read(f found) (key K, value V) {
	key, err := s.keySerde.Decode(f.name)
	if err != nil {
		s.fail("decode key %x: %w", f.name, err)
	}
	if f.cell {
		return key, s.value(f.id)
	}
	return key, s.decode(string(f.name), f.value)
}

// Len is the exact number of entries.
func (s *keyValue[K, V]) Len() int64 { return s.count() }

// committed reads an entry as of the last commit, and leaves everything as it is.
func (s *keyValue[K, V]) committed(key K) (e Entry[K, V], ok bool) {
	id, inMemory := s.seek(key)
	var l *layered
	if inMemory {
		l = s.settled(s.slab.at(id))
		if s.byValue != nil {
			s.encodeKey(key)
		}
	}
	var blob []byte
	switch {
	case l == nil:
		if blob, ok = s.row(s.kb); !ok {
			return e, false
		}
	case l.del:
		return e, false
	default:
		blob = l.blob
	}
	at := timeOf(blob)
	if s.hasExpired(at, s.env.StreamTime()) {
		return e, false
	}
	return Entry[K, V]{key, s.decode(string(s.kb), blob[timeSize:]), time.UnixMilli(at)}, true
}

// eachCommitted visits entries as of the last commit, in order.
func (s *keyValue[K, V]) eachCommitted(from, to []byte, visit func(Entry[K, V])) {
	s.scan(from, to, false, true, func(f found) bool {
		key, value := s.read(f)
		visit(Entry[K, V]{key, value, time.UnixMilli(f.at)})
		return true
	})
}

// guard makes an error of a store's failure, for readers from outside.
func guard(err *error) {
	switch p := recover().(type) {
	case nil:
	case state.Broken:
		*err = p
	case state.Failed:
		*err = p
	default:
		panic(p)
	}
}
