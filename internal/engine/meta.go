package engine

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
)

// Meta is what the metadata of a committed offset carries, so that a new owner of the task goes on exactly where the old one was.
type Meta struct {
	// PartitionTime is the largest event time taken from this partition, ms; -1 if none was.
	PartitionTime int64
	// Clocks are the stream times of nodes that judge by their own, by node or store name.
	Clocks map[string]int64
	// Hashes are short hashes of what must not change under existing state, by store name.
	Hashes map[string]uint64
	// TransactionalID is the producer that committed the offset: whoever takes over can fence it.
	TransactionalID string
	// Inputs are the topics that the task read, by InputHash, so that one that is new can be told from one whose offsets were deleted.
	Inputs []uint32
	// Foreign says that Kafka Streams wrote the metadata.
	Foreign bool
}

// InputHash is the short form of a topic's full name in Meta.Inputs.
func InputHash(topic string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(topic))
	return h.Sum32()
}

// MaxMeta is the most bytes of metadata that brokers accept by default (offset.metadata.max.bytes).
const MaxMeta = 4096

// ErrMeta is returned for metadata that neither kolk nor Kafka Streams wrote.
var ErrMeta = errors.New("offset metadata of unknown origin")

// The first byte of our own format, apart from the versions 1 and 2 that Kafka Streams writes.
const metaVersion = 0x6b

// Encode is the metadata as text: base64 of a version byte, the partition time, the clocks, the hashes and the transactional id.
func (m Meta) Encode() string {
	b := append(make([]byte, 0, 64), metaVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(m.PartitionTime))
	b = binary.AppendUvarint(b, uint64(len(m.Clocks)))
	for _, name := range slices.Sorted(maps.Keys(m.Clocks)) {
		b = appendText(b, name)
		b = binary.BigEndian.AppendUint64(b, uint64(m.Clocks[name]))
	}
	b = binary.AppendUvarint(b, uint64(len(m.Hashes)))
	for _, name := range slices.Sorted(maps.Keys(m.Hashes)) {
		b = appendText(b, name)
		b = binary.BigEndian.AppendUint64(b, m.Hashes[name])
	}
	b = appendText(b, m.TransactionalID)
	b = binary.AppendUvarint(b, uint64(len(m.Inputs)))
	for _, h := range m.Inputs {
		b = binary.BigEndian.AppendUint32(b, h)
	}
	return base64.StdEncoding.EncodeToString(b)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// DecodeMeta reads metadata. The empty text is that of a foreign commit: ErrMeta.
func DecodeMeta(text string) (Meta, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) < 9 {
		return Meta{}, fmt.Errorf("%w: %.40q", ErrMeta, text)
	}
	d := decoder{b: b[1:]}
	m := Meta{PartitionTime: int64(d.uint64())}
	switch b[0] {
	case metaVersion:
		m.Clocks = make(map[string]int64)
		for range d.count() {
			name := d.text()
			m.Clocks[name] = int64(d.uint64())
		}
		m.Hashes = make(map[string]uint64)
		for range d.count() {
			name := d.text()
			m.Hashes[name] = d.uint64()
		}
		m.TransactionalID = d.text()
		for range d.count() {
			m.Inputs = append(m.Inputs, d.uint32())
		}
	case 1, 2:
		m.Foreign = true
		if b[0] == 2 && len(d.b) > 0 {
			m.Clocks = make(map[string]int64)
			for range d.uint32() {
				name := string(d.take(uint64(d.uint32())))
				m.Clocks[name] = int64(d.uint64())
				if d.bad {
					break
				}
			}
		}
	default:
		return Meta{}, fmt.Errorf("%w: version %d", ErrMeta, b[0])
	}
	if d.bad || len(d.b) > 0 {
		return Meta{}, fmt.Errorf("%w: damaged: %.40q", ErrMeta, text)
	}
	return m, nil
}

// decoder reads fields in order; after the first that does not fit it is bad and gives zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) uint32() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[size:]
	return n
}

// count is a number of entries, each of at least one byte, so that damage cannot make a loop endless.
func (d *decoder) count() uint64 {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad = true
		return 0
	}
	return n
}

func (d *decoder) text() string { return string(d.take(d.uvarint())) }
