package state

import (
	"bytes"
	"fmt"
)

// CheckBatches says what is wrong with the input of an apply: rows out of order or twice, a store or segment twice, keys or values over
// the limits. Backends call it before they write anything.
func CheckBatches(batches []Batch, segments []SegmentBatch) error {
	slots := make(map[uint16]bool, len(batches))
	for _, b := range batches {
		if slots[b.Slot] {
			return fmt.Errorf("slot %d: two batches in one checkpoint", b.Slot)
		}
		slots[b.Slot] = true
		if err := checkRows(b.Rows); err != nil {
			return fmt.Errorf("slot %d: %w", b.Slot, err)
		}
	}
	seen := make(map[Segment]bool, len(segments))
	for _, b := range segments {
		if seen[b.Segment] {
			return fmt.Errorf("slot %d, segment %d: two batches in one checkpoint", b.Segment.Slot, b.Segment.Number)
		}
		seen[b.Segment] = true
		if err := checkRows(b.Rows); err != nil {
			return fmt.Errorf("slot %d, segment %d: %w", b.Segment.Slot, b.Segment.Number, err)
		}
	}
	return nil
}

func checkRows(rows []Row) error {
	for i, r := range rows {
		if err := CheckRow(r.Key, r.Value); err != nil {
			return err
		}
		if i > 0 && bytes.Compare(rows[i-1].Key, r.Key) >= 0 {
			return fmt.Errorf("rows are not in ascending order: key %x after %x", r.Key, rows[i-1].Key)
		}
	}
	return nil
}

// CheckRow is nil for a row that fits a backend, and wraps ErrTooLarge for any other.
func CheckRow(key, value []byte) error {
	if len(key) > MaxKey {
		return fmt.Errorf("%w: a key of %d bytes, at most %d are possible", ErrTooLarge, len(key), MaxKey)
	}
	if len(value) > MaxValue {
		return fmt.Errorf("%w: key %.64x has a value of %d bytes, at most %d are possible", ErrTooLarge, key, len(value), MaxValue)
	}
	return nil
}
