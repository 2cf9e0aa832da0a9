package store

import "github.com/kolkstreams/kolk/serde"

// cells hold the values of entries by number. They know nothing of keys and layers.
type cells interface {
	// grow makes room for another chunk of numbers.
	grow()
	// set takes an encoded value.
	set(id uint32, value []byte) error
	// encoded is the value's bytes, nil if the serde writes it as null. They are valid until the next call.
	encoded(id uint32) ([]byte, error)
	// clear forgets the value.
	clear(id uint32)
	// held is the memory of all values in bytes, beside the fixed size of each cell.
	held() int64
}

// decoded keeps values as they are.
type decoded[V any] struct {
	serde   serde.Serde[V]
	chunks  [][]V
	scratch []byte
}

func (c *decoded[V]) at(id uint32) *V { return &c.chunks[id>>chunkBits][id&chunkMask] }
func (c *decoded[V]) grow()           { c.chunks = append(c.chunks, make([]V, chunkSize)) }
func (c *decoded[V]) held() int64     { return 0 }

func (c *decoded[V]) set(id uint32, value []byte) (err error) {
	v, err := c.serde.Decode(value)
	if err == nil {
		*c.at(id) = v
	}
	return err
}

func (c *decoded[V]) encoded(id uint32) ([]byte, error) {
	b, err := c.serde.Encode(c.scratch[:0], *c.at(id))
	if b != nil {
		c.scratch = b
	}
	return b, err
}

func (c *decoded[V]) clear(id uint32) {
	var zero V
	*c.at(id) = zero
}

// raw keeps values encoded.
type raw struct {
	chunks [][][]byte
	bytes  int64
}

func (c *raw) at(id uint32) *[]byte { return &c.chunks[id>>chunkBits][id&chunkMask] }
func (c *raw) grow()                { c.chunks = append(c.chunks, make([][]byte, chunkSize)) }
func (c *raw) held() int64          { return c.bytes }

func (c *raw) set(id uint32, value []byte) error {
	cell := c.at(id)
	if n := cap(*cell); n < len(value) || n > 2*len(value)+64 {
		c.bytes += int64(len(value) - n)
		*cell = make([]byte, len(value))
	}
	*cell = append((*cell)[:0], value...)
	if *cell == nil {
		*cell = []byte{}
	}
	return nil
}

func (c *raw) encoded(id uint32) ([]byte, error) { return *c.at(id), nil }

func (c *raw) clear(id uint32) {
	cell := c.at(id)
	c.bytes -= int64(cap(*cell))
	*cell = nil
}
