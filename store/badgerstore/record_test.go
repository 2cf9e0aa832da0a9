package badgerstore

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kolkstreams/kolk/internal/state"
)

func TestRecord(t *testing.T) {
	for _, r := range []*record{
		{number: 1, slots: map[uint16]count{}},
		{number: 2, slots: map[uint16]count{0: {1, 2}, 0xffff: {1 << 40, 1 << 50}}, data: []byte{}},
		{number: 1 << 60, slots: map[uint16]count{7: {}}, data: []byte("data"), segments: []segmentInfo{
			{Segment: state.Segment{Slot: 1, Number: -1 << 63}, count: count{1, 1}},
			{Segment: state.Segment{Slot: 1, Number: 1<<63 - 1}, count: count{1, 1}, born: 1 << 60},
		}},
	} {
		b := r.encode()
		got, err := decodeRecord(b, r.number)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got, cmp.AllowUnexported(record{}, segmentInfo{}, count{})); diff != "" {
			t.Errorf("decoded differs: %s", diff)
		}
		for i := range b {
			broken := bytes.Clone(b)
			broken[i] ^= 1
			if _, err := decodeRecord(broken, 1); err == nil {
				t.Errorf("a change of byte %d was not noticed", i)
			}
			if _, err := decodeRecord(b[:i], 1); err == nil {
				t.Errorf("a cut at byte %d was not noticed", i)
			}
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add((&record{slots: map[uint16]count{1: {2, 3}}, segments: []segmentInfo{{count: count{1, 1}, born: 4}}, data: []byte("d")}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b, 1)
		if err != nil {
			return
		}
		again, err := decodeRecord(r.encode(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, again, cmp.AllowUnexported(record{}, segmentInfo{}, count{})); diff != "" {
			t.Error(diff)
		}
	})
}

func TestKeys(t *testing.T) {
	for _, s := range []state.Segment{{Slot: 0, Number: -1 << 63}, {Slot: 0x2162, Number: -1}, {Slot: 0xffff, Number: 1<<63 - 1}} {
		got, plain, key := splitKey(append(segmentPrefix(nil, s), "key"...))
		if got != s || plain || string(key) != "key" {
			t.Errorf("%v became %v, %v, %q", s, got, plain, key)
		}
		got, plain, key = splitKey(append(slotPrefix(nil, s.Slot), "key"...))
		if got.Slot != s.Slot || !plain || string(key) != "key" {
			t.Errorf("slot %v became %v, %v, %q", s.Slot, got, plain, key)
		}
	}
	ordered := [][]byte{recordKey, slotPrefix(nil, 1), segmentPrefix(nil, state.Segment{Slot: 1, Number: -2}), segmentPrefix(nil, state.Segment{Slot: 1, Number: -1}),
		segmentPrefix(nil, state.Segment{Slot: 1, Number: 0}), slotPrefix(nil, 2)}
	for i := 1; i < len(ordered); i++ {
		if bytes.Compare(ordered[i-1], ordered[i]) >= 0 {
			t.Errorf("%x is not below %x", ordered[i-1], ordered[i])
		}
	}
}
