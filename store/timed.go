package store

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/tidwall/btree"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

// timed is what window and session stores have in common: entries are found by key and place in time, lie in segments by time, and are gone
// with time. A window's place is its start, that of a session its end and start.
//
// All entries in memory, clean ones too, are in the maps, and once they are asked for in order also in trees. So a segment that is whole in memory
// is read without the backend.
type timed[K comparable, V any] struct {
	valued[V]
	segmented
	index[placed[K]]
	keySerde serde.Serde[K]
	kind     keyKind[K]
	tail     int // bytes of a name after the key
	byKey    *btree.BTreeG[treeItem]
	byTime   *btree.BTreeG[treeItem]
	items    []item // scratch
}

// placed is a key at a place in time.
type placed[K comparable] struct {
	key K
	place
}

// place is where in time an entry is. at is the time that it expires by: a window's start, a session's end.
type place struct {
	at   int64
	from int64 // a session's start; 0 for windows
}

// Names end in these: start and a sequence number that is always 0, as Kafka Streams has it, or end and start.
const (
	windowTail  = 12
	sessionTail = 16
)

func (s *timed[K, V]) open(d *state.Decl, env state.Env, kind keyKind[K], key serde.Serde[K], value serde.Serde[V], tail int) {
	s.keySerde, s.kind, s.tail = key, kind, tail
	s.valued.init(d, env, s, value, s.index.init(kind.byValue))
	s.segmented.init(&s.memory, d.Retention+d.Beyond, tail)
	s.stored = &s.segmented
	s.entrySz += 2 * int64(unsafe.Sizeof(uint32(0))) // in the segment's list
}

// encodeName writes key and place into scratch.
func (s *timed[K, V]) encodeName(p placed[K]) []byte {
	b, err := s.keySerde.Encode(s.kb[:0], p.key)
	switch {
	case err != nil:
		s.refuse("encode key %v: %w", p.key, err)
	case b == nil:
		s.refuse("key %v is null to its serde, and a store has no null keys", p.key)
	case len(b)+s.tail > state.MaxKey:
		s.refuse("%w: a key of %d bytes, at most %d are possible", state.ErrTooLarge, len(b), state.MaxKey-s.tail)
	}
	s.kb = appendPlace(b, p.place, s.tail)
	return s.kb
}

func appendPlace(b []byte, p place, tail int) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.at))
	if tail == windowTail {
		return append(b, 0, 0, 0, 0)
	}
	return binary.BigEndian.AppendUint64(b, uint64(p.from))
}

// number reads eight bytes of a name.
func number[T string | []byte](name T, at int) int64 {
	_ = name[at+7]
	return int64(uint64(name[at])<<56 | uint64(name[at+1])<<48 | uint64(name[at+2])<<40 | uint64(name[at+3])<<32 |
		uint64(name[at+4])<<24 | uint64(name[at+5])<<16 | uint64(name[at+6])<<8 | uint64(name[at+7]))
}

// placeOf reads the place at the end of a name.
func placeOf[T string | []byte](name T, tail int) (p place) {
	n := len(name) - tail
	p.at = number(name, n)
	if tail == sessionTail {
		p.from = number(name, n+8)
	}
	return p
}

// readName takes a name from outside apart.
func (s *timed[K, V]) readName(name []byte) (p placed[K], err error) {
	n := len(name) - s.tail
	if n < 0 {
		return p, fmt.Errorf("a key of %d bytes, at least %d are needed for its place in time", len(name), s.tail)
	}
	p.place = placeOf(name, s.tail)
	if p.at < 0 || p.from < 0 {
		return p, fmt.Errorf("key %x lies before 1970", name)
	}
	if s.tail == windowTail && name[n+8]|name[n+9]|name[n+10]|name[n+11] != 0 {
		return p, fmt.Errorf("key %x has a sequence number, as in a store that keeps duplicates", name)
	}
	if p.key, err = s.keySerde.Decode(name[:n]); err != nil {
		return p, fmt.Errorf("decode the key: %w", err)
	}
	return p, nil
}

// seek finds an entry in memory. If there is none, its name is in scratch, for create.
func (s *timed[K, V]) seek(p placed[K]) (uint32, bool) {
	if s.byValue != nil {
		id, ok := s.byValue[p]
		if !ok {
			s.last = p
			s.encodeName(p)
		}
		return id, ok
	}
	id, ok := s.byName[string(s.encodeName(p))]
	return id, ok
}

// entry finds an entry, in memory or in the backend.
func (s *timed[K, V]) entry(p placed[K]) (uint32, *entry) {
	id, ok := s.seek(p)
	if !ok {
		id = s.create(s.kb, true)
	}
	e := s.slab.at(id)
	if !e.has(touched) {
		e.flags |= touched
	}
	return id, e
}

// blind is entry without a look at the backend, but for what is known without.
func (s *timed[K, V]) blind(p placed[K]) uint32 {
	id, ok := s.seek(p)
	if !ok {
		id = s.create(s.kb, s.segment(p.at).lacks(s.kb))
	}
	return id
}

// locate finds the entry of a name.
func (s *timed[K, V]) locate(name []byte) (uint32, bool, error) {
	if s.byValue == nil {
		if _, err := s.readName(name); err != nil {
			return 0, false, err
		}
		id, ok := s.byName[string(name)]
		return id, ok, nil
	}
	p, err := s.readName(name)
	if err != nil {
		return 0, false, err
	}
	s.last = p
	id, ok := s.byValue[p]
	return id, ok, nil
}

func (s *timed[K, V]) add(id uint32, name string) {
	s.segment(placeOf(name, s.tail).at).add(id)
	if s.byKey != nil {
		s.byKey.Set(treeItem{name, id})
	}
	if s.byTime != nil {
		s.byTime.Set(treeItem{name, id})
	}
	if s.kind.share != nil {
		s.last.key = s.kind.share(s.last.key, name[:len(name)-s.tail])
	}
	s.insert(id, name)
}

func (s *timed[K, V]) forget(id uint32) {
	e := s.slab.at(id)
	s.lose(s.segment(placeOf(e.name, s.tail).at), e)
	if s.byKey != nil {
		s.byKey.Delete(treeItem{name: e.name})
	}
	if s.byTime != nil {
		s.byTime.Delete(treeItem{name: e.name})
	}
	s.erase(id, e.name)
}

// lookup is the value at a place and its entry's time.
func (s *timed[K, V]) lookup(p placed[K]) (value V, at int64, ok bool) {
	s.check()
	if s.before(p.at) {
		return value, 0, false
	}
	id, ok := s.seek(p)
	if !ok {
		if s.segment(p.at).lacks(s.kb) {
			return value, 0, false // and nothing is gained from keeping that
		}
		id = s.create(s.kb, true)
	}
	e := s.slab.at(id)
	if !e.has(touched) {
		e.flags |= touched
	}
	if !e.has(present) {
		return value, 0, false
	}
	return s.value(id), e.at, true
}

// modify replaces the value at a place by what f makes of it.
func (s *timed[K, V]) modify(p placed[K], f func(old V, at int64, ok bool) (V, int64, bool)) bool {
	s.check()
	if !s.admits(p.place) {
		return false
	}
	id, e := s.entry(p)
	gen := e.gen
	var old V
	var at int64
	ok := e.has(present)
	if ok {
		old, at = s.value(id), e.at
	}
	value, newAt, keep := f(old, at, ok)
	s.check()
	if e = s.slab.at(id); e.gen != gen {
		id, e = s.entry(p)
	}
	if keep {
		s.put(id, e, value, newAt)
	} else {
		s.remove(id, e, newAt)
	}
	s.observe(p.at)
	return true
}

// set sets the value at a place.
func (s *timed[K, V]) set(p placed[K], value V, at int64) bool {
	s.check()
	if !s.admits(p.place) {
		return false
	}
	id := s.blind(p)
	s.put(id, s.slab.at(id), value, at)
	s.observe(p.at)
	return true
}

// unset deletes what is at a place. The changelog gets a delete in any case.
func (s *timed[K, V]) unset(p placed[K]) bool {
	s.check()
	if !s.admits(p.place) {
		return false
	}
	id := s.blind(p)
	s.remove(id, s.slab.at(id), s.env.Now())
	s.observe(p.at)
	return true
}

// admits says whether a place may be written to. One before 1970 has no place in the order of bytes, so it is refused as a mistake.
func (s *timed[K, V]) admits(p place) bool {
	if p.at < 0 || p.from < 0 {
		s.refuse("windows do not start before 1970: a time of %d ms", min(p.at, p.from))
	}
	return !s.before(p.at)
}
