package operator

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kolkstreams/kolk/serde"
)

// Change is an update of a row of a table on its way through the operators. Without HasNew the row is deleted. Old is filled in only where
// something further down wants it; the topology knows where.
type Change[V any] struct {
	Old, New       V
	HasOld, HasNew bool
	// Past says that a newer version of the row is known: the update changes what was, not what is. It comes from versioned tables.
	Past bool
	// Began says that there was no row, and that Old is what a windowed aggregate began with. Kafka Streams takes that for the old value
	// where it shows: in the changelog of a suppression.
	Began bool
}

// What the last byte of an encoded Change says of what is before it. Kafka Streams also writes each with an additional byte before the
// flag, which says whether the update was the latest version of its row.
const (
	onlyOld = iota
	onlyNew
	oldAndNew
	onlyOldLatest
	onlyNewLatest
	oldAndNewLatest
)

var errEmptyChange = errors.New("neither an old nor a new value")

// splitChange takes an encoded change apart; the results share src.
func splitChange(src []byte) (new, old []byte, err error) {
	if len(src) == 0 {
		return nil, nil, errors.New("a change of a table must not be empty")
	}
	flag, body := src[len(src)-1], src[:len(src)-1]
	if flag >= onlyOldLatest && flag <= oldAndNewLatest {
		if len(body) == 0 {
			return nil, nil, fmt.Errorf("a change with the flag %d ends too early", flag)
		}
		flag, body = flag-onlyOldLatest, body[:len(body)-1]
	}
	switch flag {
	case onlyOld:
		return nil, body, nil
	case onlyNew:
		return body, nil, nil
	case oldAndNew:
		size, n := binary.Varint(body)
		if n <= 0 || size < 0 || size > int64(len(body)-n) {
			return nil, nil, fmt.Errorf("a change of %d bytes has a new value of impossible size", len(src))
		}
		return body[n : n+int(size)], body[n+int(size):], nil
	}
	return nil, nil, fmt.Errorf("a change with the unknown flag %d", flag)
}

// Changes is the serde of changes in the repartition topic of a grouped table.
func Changes[V any](value serde.Serde[V]) serde.Serde[Change[V]] { return &changes[V]{value} }

type changes[V any] struct{ value serde.Serde[V] }

func (c *changes[V]) String() string { return "change(" + serde.Name(c.value) + ")" }

// Encode writes a change as Kafka Streams does. A value that is encoded as null counts as none.
func (c *changes[V]) Encode(dst []byte, x Change[V]) ([]byte, error) {
	start := len(dst)
	dst, hasNew, err := c.part(dst, x.New, x.HasNew)
	if err != nil {
		return dst, err
	}
	size := len(dst) - start
	dst, hasOld, err := c.part(dst, x.Old, x.HasOld)
	if err != nil {
		return dst, err
	}
	switch {
	case hasNew && hasOld:
		// The size comes first, but is known last.
		var prefix [binary.MaxVarintLen64]byte
		n := binary.PutVarint(prefix[:], int64(size))
		end := len(dst)
		dst = append(dst, prefix[:n]...)
		copy(dst[start+n:], dst[start:end])
		copy(dst[start:], prefix[:n])
		return append(dst, oldAndNew), nil
	case hasNew:
		return append(dst, onlyNew), nil
	case hasOld:
		return append(dst, onlyOld), nil
	}
	return dst, errEmptyChange
}

func (c *changes[V]) part(dst []byte, v V, has bool) (_ []byte, ok bool, err error) {
	if !has {
		return dst, false, nil
	}
	longer, err := c.value.Encode(dst, v)
	if err != nil || longer == nil {
		return dst, false, err
	}
	return longer, true, nil
}

func (c *changes[V]) Decode(src []byte) (x Change[V], err error) {
	new, old, err := splitChange(src)
	if err != nil {
		return x, err
	}
	if new != nil {
		if x.New, err = c.value.Decode(new); err != nil {
			return x, err
		}
		x.HasNew = true
	}
	if old != nil {
		if x.Old, err = c.value.Decode(old); err != nil {
			return x, err
		}
		x.HasOld = true
	}
	return x, nil
}
