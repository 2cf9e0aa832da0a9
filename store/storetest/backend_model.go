package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/kolkstreams/kolk/internal/state"
)

// area is a store's plain rows, or one of its segments.
type area struct {
	slot    uint16
	segment bool
	number  int64
}

func (a area) String() string {
	if a.segment {
		return fmt.Sprintf("slot %d, segment %d", a.slot, a.number)
	}
	return fmt.Sprintf("slot %d", a.slot)
}

// model is what a backend should hold.
type model struct {
	areas map[area]map[string][]byte
	data  []byte
}

func newModel() *model { return &model{areas: map[area]map[string][]byte{}} }

func (m *model) clone() *model {
	n := &model{areas: make(map[area]map[string][]byte, len(m.areas)), data: m.data}
	for a, rows := range m.areas {
		n.areas[a] = maps.Clone(rows)
	}
	return n
}

// was is what Row.Was says of a key.
func (m *model) was(a area, key []byte) int64 {
	v, ok := m.areas[a][string(key)]
	if !ok {
		return -1
	}
	return int64(len(key) + len(v))
}

func (m *model) put(a area, key, value []byte) {
	if value == nil {
		delete(m.areas[a], string(key))
		if len(m.areas[a]) == 0 {
			delete(m.areas, a)
		}
		return
	}
	if m.areas[a] == nil {
		m.areas[a] = map[string][]byte{}
	}
	m.areas[a][string(key)] = value
}

func (m *model) count(slot uint16) (n, size int64) {
	for a, rows := range m.areas {
		if a.slot != slot {
			continue
		}
		for k, v := range rows {
			n, size = n+1, size+int64(len(k)+len(v))
		}
	}
	return n, size
}

func (m *model) segments(slot uint16) []int64 {
	var list []int64
	for a := range m.areas {
		if a.segment && a.slot == slot {
			list = append(list, a.number)
		}
	}
	slices.Sort(list)
	return list
}

// scan is the rows between the bounds, in the order asked for.
func (m *model) scan(a area, from, to []byte, reverse bool) (keys []string) {
	for _, k := range slices.Sorted(maps.Keys(m.areas[a])) {
		if k >= string(from) && (to == nil || k < string(to)) {
			keys = append(keys, k)
		}
	}
	if reverse {
		slices.Reverse(keys)
	}
	return keys
}

// checkpoint is the input of an apply.
type checkpoint struct {
	batches  []state.Batch
	segments []state.SegmentBatch
	drop     []state.Segment
	data     []byte
}

// apply makes the model what the checkpoint makes the backend.
func (m *model) apply(c checkpoint) {
	for _, s := range c.drop {
		delete(m.areas, area{slot: s.Slot, segment: true, number: s.Number})
	}
	for _, b := range c.batches {
		for _, r := range b.Rows {
			m.put(area{slot: b.Slot}, r.Key, r.Value)
		}
	}
	for _, b := range c.segments {
		for _, r := range b.Rows {
			m.put(area{slot: b.Segment.Slot, segment: true, number: b.Segment.Number}, r.Key, r.Value)
		}
	}
	m.data = c.data
}

func (c checkpoint) applyTo(b state.Backend) error {
	if s, ok := b.(state.Segmented); ok && (len(c.segments) > 0 || len(c.drop) > 0) {
		return s.ApplySegments(c.batches, c.segments, c.drop, c.data)
	}
	return b.Apply(c.batches, c.data)
}

func scanArea(b state.Backend, a area, from, to []byte, reverse bool, visit func(key, value []byte) bool) error {
	if a.segment {
		return b.(state.Segmented).ScanSegment(state.Segment{Slot: a.slot, Number: a.number}, from, to, reverse, visit)
	}
	return b.Scan(a.slot, from, to, reverse, visit)
}

func getArea(b state.Backend, a area, key, dst []byte) ([]byte, bool, error) {
	if a.segment {
		return b.(state.Segmented).GetSegment(state.Segment{Slot: a.slot, Number: a.number}, key, dst)
	}
	return b.Get(a.slot, key, dst)
}

// compareScan says how a scan differs from the model's.
func (m *model) compareScan(b state.Backend, a area, from, to []byte, reverse bool) error {
	want := m.scan(a, from, to, reverse)
	i := 0
	var differs error
	err := scanArea(b, a, from, to, reverse, func(key, value []byte) bool {
		switch {
		case i >= len(want):
			differs = fmt.Errorf("a row too many, key %.80q", key)
		case want[i] != string(key):
			differs = fmt.Errorf("row %d has key %.80q, want %.80q", i, key, want[i])
		case !bytes.Equal(m.areas[a][want[i]], value):
			differs = fmt.Errorf("key %.80q has %d bytes %.80q, want %d bytes %.80q", key, len(value), value, len(m.areas[a][want[i]]), m.areas[a][want[i]])
		}
		i++
		return differs == nil
	})
	if err == nil {
		err = differs
	}
	if err == nil && i != len(want) {
		err = fmt.Errorf("%d rows, want %d", i, len(want))
	}
	if err != nil {
		return fmt.Errorf("%v: scan from %.80q to %.80q (nil: %v), reverse %v: %w", a, from, to, to == nil, reverse, err)
	}
	return nil
}

// compare says how what the backend's reads see differs from the model. slots and keys are looked at whether the model has them or not.
func (m *model) compare(b state.Backend, slots []uint16, keys [][]byte) error {
	places := map[area]bool{}
	for _, slot := range slots {
		places[area{slot: slot}] = true
		n, size := b.Count(slot)
		if wantN, wantSize := m.count(slot); n != wantN || size != wantSize {
			return fmt.Errorf("slot %d: counts %d rows of %d bytes, want %d of %d", slot, n, size, wantN, wantSize)
		}
		if s, ok := b.(state.Segmented); ok {
			if got, want := s.Segments(slot), m.segments(slot); !slices.Equal(got, want) {
				return fmt.Errorf("slot %d: segments %v, want %v", slot, got, want)
			}
			places[area{slot: slot, segment: true, number: 4}] = true
		}
	}
	for a := range m.areas {
		places[a] = true
	}
	for a := range places {
		for _, reverse := range []bool{false, true} {
			if err := m.compareScan(b, a, nil, nil, reverse); err != nil {
				return err
			}
		}
		for _, k := range keys {
			dst := []byte("dst")
			got, ok, err := getArea(b, a, k, dst)
			want, wantOK := m.areas[a][string(k)]
			if err != nil || ok != wantOK || !bytes.Equal(got, append([]byte("dst"), want...)) {
				return fmt.Errorf("%v: get %.80q: %.80q, %v, %v; want %.80q, %v", a, k, got, ok, err, want, wantOK)
			}
		}
	}
	return nil
}
