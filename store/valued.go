package store

import (
	"unsafe"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

// valued is the part of a store that knows the type of its values, but not that of its keys.
type valued[V any] struct {
	memory
	valueSerde serde.Serde[V]
	values     *decoded[V] // one of these two holds the values
	raws       *raw
}

func (s *valued[V]) init(d *state.Decl, env state.Env, index keyIndex, value serde.Serde[V], keySize int64) {
	s.valueSerde = value
	var v V
	var c cells
	cellSize := int64(unsafe.Sizeof(v))
	if keepsDecoded(value) {
		s.values = &decoded[V]{serde: value}
		c = s.values
	} else {
		s.raws = &raw{}
		c, cellSize = s.raws, int64(unsafe.Sizeof([]byte{}))
	}
	s.memory.init(d.Name, env, index, c, d.TTL, keySize, cellSize)
}

// value is what an entry that is present holds.
func (s *valued[V]) value(id uint32) V {
	if s.values != nil {
		return *s.values.at(id)
	}
	return s.decode(s.slab.at(id).name, *s.raws.at(id))
}

func (s *valued[V]) decode(name string, value []byte) V {
	v, err := s.valueSerde.Decode(value)
	if err != nil {
		s.fail("decode the value of key %x: %w", name, err)
	}
	return v
}

// put sets the value of an entry.
func (s *valued[V]) put(id uint32, e *entry, value V, at int64) {
	if s.values != nil {
		s.save(id, e)
		*s.values.at(id) = value
		s.wrote(id, e, at, true)
		return
	}
	b := s.encodeValue(e, value)
	if b == nil {
		s.remove(id, e, at)
		return
	}
	s.save(id, e)
	was := 0
	if e.dirty() {
		was = len(*s.raws.at(id))
	}
	s.raws.set(id, b)
	s.wrote(id, e, at, true)
	s.dirtyBytes += int64(len(b) - was)
}

// encodeValue writes a value into scratch; nil if it is null.
func (s *valued[V]) encodeValue(e *entry, value V) []byte {
	b, err := s.valueSerde.Encode(s.vb[:0], value)
	if err != nil {
		s.refuse("encode the value of key %x: %w", e.name, err)
	}
	if b == nil {
		return nil
	}
	if len(b) > state.MaxValue-timeSize {
		s.refuse("%w: key %x has a value of %d bytes, at most %d are possible", state.ErrTooLarge, e.name, len(b), state.MaxValue-timeSize)
	}
	s.vb = b[:0]
	return b
}
