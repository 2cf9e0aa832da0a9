package badgerstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/kolkstreams/kolk/internal/state"
)

// count is how many rows, and the bytes of their keys and values.
type count struct{ rows, bytes int64 }

func (c *count) add(o count) { c.rows, c.bytes = c.rows+o.rows, c.bytes+o.bytes }

// segmentInfo is what the record knows of a segment.
type segmentInfo struct {
	state.Segment
	count
	born uint64 // the checkpoint that made its database, which names the directory; 0 if its rows are in the task's database
}

// record is what a checkpoint writes last: it makes its rows valid. A record in use is not changed any more.
type record struct {
	number   uint64 // of the checkpoint, the version of its rows
	slots    map[uint16]count
	segments []segmentInfo // ascending by slot and number
	data     []byte        // the caller's; nil if there was none
}

// next is the record to begin the next checkpoint with.
func (r *record) next(number uint64, data []byte) *record {
	n := &record{number: number, slots: maps.Clone(r.slots), segments: slices.Clone(r.segments)}
	if n.slots == nil {
		n.slots = map[uint16]count{}
	}
	if data != nil {
		n.data = append([]byte{}, data...)
	}
	return n
}

func compareSegments(a, b state.Segment) int {
	return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Number, b.Number))
}

func (r *record) find(s state.Segment) (int, bool) {
	return slices.BinarySearchFunc(r.segments, s, func(i segmentInfo, s state.Segment) int { return compareSegments(i.Segment, s) })
}

// segment is what is known of a segment, if it exists.
func (r *record) segment(s state.Segment) (segmentInfo, bool) {
	i, ok := r.find(s)
	if !ok {
		return segmentInfo{Segment: s}, false
	}
	return r.segments[i], true
}

// set puts a segment into the list, or takes it out if it has no rows.
func (r *record) set(info segmentInfo) {
	i, ok := r.find(info.Segment)
	switch {
	case info.rows == 0 && ok:
		r.segments = slices.Delete(r.segments, i, i+1)
	case info.rows == 0:
	case ok:
		r.segments[i] = info
	default:
		r.segments = slices.Insert(r.segments, i, info)
	}
}

func (r *record) count(slot uint16) count {
	c := r.slots[slot]
	for i, _ := r.find(state.Segment{Slot: slot, Number: -1 << 63}); i < len(r.segments) && r.segments[i].Slot == slot; i++ {
		c.add(r.segments[i].count)
	}
	return c
}

func (r *record) total() count {
	var c count
	for _, s := range r.slots {
		c.add(s)
	}
	for _, s := range r.segments {
		c.add(s.count)
	}
	return c
}

const recordFormat = 1

// encode writes the record. The number is Badger's version of it, and not in the bytes.
func (r *record) encode() []byte {
	b := []byte{recordFormat}
	b = binary.AppendUvarint(b, uint64(len(r.slots)))
	for _, slot := range slices.Sorted(maps.Keys(r.slots)) {
		b = binary.AppendUvarint(b, uint64(slot))
		b = r.slots[slot].encode(b)
	}
	b = binary.AppendUvarint(b, uint64(len(r.segments)))
	for _, s := range r.segments {
		b = binary.AppendUvarint(b, uint64(s.Slot))
		b = binary.AppendVarint(b, s.Number)
		b = binary.AppendUvarint(b, s.born)
		b = s.count.encode(b)
	}
	if r.data == nil {
		b = append(b, 0)
	} else {
		b = append(append(b, 1), r.data...)
	}
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func (c count) encode(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(c.rows)), uint64(c.bytes))
}

// decodeRecord reads what encode wrote.
func decodeRecord(b []byte, number uint64) (*record, error) {
	if len(b) < 4 || crc32.ChecksumIEEE(b[:len(b)-4]) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return nil, errors.New("the checkpoint's record has a wrong checksum")
	}
	d := decoder{b: b[:len(b)-4]}
	if f := d.byte(); f != recordFormat {
		return nil, errors.New("the checkpoint's record has a format that this program does not know")
	}
	r := &record{number: number, slots: map[uint16]count{}}
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		slot := uint16(d.uvarint())
		r.slots[slot] = d.count()
	}
	for n := d.uvarint(); n > 0 && !d.bad; n-- {
		var s segmentInfo
		s.Slot, s.Number, s.born = uint16(d.uvarint()), d.varint(), d.uvarint()
		s.count = d.count()
		r.segments = append(r.segments, s)
	}
	if d.byte() == 1 {
		r.data = append([]byte{}, d.b...)
	}
	if d.bad {
		return nil, errors.New("the checkpoint's record ends early")
	}
	return r, nil
}

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) count() count {
	return count{rows: int64(d.uvarint()), bytes: int64(d.uvarint())}
}
