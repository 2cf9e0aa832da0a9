package badgerstore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
)

// A large segment of small rows, such as those of Deduplicate for ids of 12 bytes that have no order, takes up at most 40 bytes a row on disk.
func TestSmallRowsAreDense(t *testing.T) {
	const n, most = 300_000, 40
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([]state.Row, n)
	for i := range rows {
		start, at := uint64(1_700_000_000_000), uint64(1_700_000_000_000+i/10)
		key := append(binary.BigEndian.AppendUint64(fmt.Appendf(nil, "%012s", base32(r)), start), 0, 0, 0, 0)
		value := binary.AppendUvarint(append(binary.BigEndian.AppendUint64(nil, at), 1), uint64(i))
		rows[i] = state.Row{Key: key, Value: value, Known: true, Was: -1}
	}
	slices.SortFunc(rows, func(a, b state.Row) int { return strings.Compare(string(a.Key), string(b.Key)) })
	dir := t.TempDir()
	s := open(t, dir, Config{MinFree: -1})
	applySegments(t, s, []state.SegmentBatch{segment(1, rows)})
	s.Switch()
	for i := 0; i < n; i += 1000 {
		v, ok, err := s.GetSegment(state.Segment{Slot: 1, Number: 1}, rows[i].Key, nil)
		if err != nil || !ok || string(v) != string(rows[i].Value) {
			t.Fatalf("row %d: %x, %v, %v", i, v, ok, err)
		}
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	size := tableBytes(s.rowsDir())
	for _, name := range directories(t, s) {
		size += tableBytes(filepath.Join(dir, segmentsName, name))
	}
	if size == 0 || size > most*n {
		t.Errorf("%d rows take up %d bytes, %.1f each, want at most %d each", n, size, float64(size)/n, most)
	}
}

// base32 is 12 characters of no order.
func base32(r *rand.Rand) string {
	b := make([]byte, 12)
	for i := range b {
		b[i] = "0123456789abcdefghijklmnopqrstuv"[r.IntN(32)]
	}
	return string(b)
}
