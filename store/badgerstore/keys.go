package badgerstore

import (
	"encoding/binary"

	"github.com/kolkstreams/kolk/internal/state"
)

// Keys in Badger:
//
//	00                                        the record of the last checkpoint
//	00 00 00 key                              a key whose delete lingers, as it is in Badger: see Store.lingers
//	slot (2) 01 key                           a row of a store
//	slot (2) 02 segment (8) 01 key            a row of a small segment
//
// Numbers are big-endian, the segment's with its sign bit turned, so that they sort as they count. A segment with a database of its own
// has the same keys in there. No row is as short as the end of a prefix (its last byte plus one), which reverse scans seek to.
const (
	plainRows    = 1
	segmentedRow = 2
	rowsOf       = 1
)

var (
	recordKey  = []byte{0}
	gonePrefix = []byte{0, 0, 0}
)

// slotPrefix appends the prefix of a store's plain rows.
func slotPrefix(dst []byte, slot uint16) []byte {
	return append(binary.BigEndian.AppendUint16(dst, slot), plainRows)
}

// segmentPrefix appends the prefix of a segment's rows.
func segmentPrefix(dst []byte, s state.Segment) []byte {
	dst = append(binary.BigEndian.AppendUint16(dst, s.Slot), segmentedRow)
	return append(binary.BigEndian.AppendUint64(dst, uint64(s.Number)^1<<63), rowsOf)
}

// splitKey is the opposite for a key of a row: its segment, unless plain, and the rest.
func splitKey(k []byte) (s state.Segment, plain bool, key []byte) {
	s.Slot = binary.BigEndian.Uint16(k)
	if k[2] == plainRows {
		return s, true, k[3:]
	}
	s.Number = int64(binary.BigEndian.Uint64(k[3:]) ^ 1<<63)
	return s, false, k[12:]
}

// prefixEnd is the smallest key above all keys with a prefix of the above.
func prefixEnd(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	end[len(end)-1]++
	return end
}

func commonPrefix(a, b []byte) []byte {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
