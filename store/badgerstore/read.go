package badgerstore

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/kolkstreams/kolk/internal/state"
)

// view is what reads see. It is not changed.
type view struct {
	rec *record
	txn *badger.Txn // at rec.number; nil if there is nothing to read
	err error       // of every read
}

// newView does not hand back its transaction: in managed mode one that only reads holds nothing.
func newView(db *badger.DB, rec *record) *view {
	return &view{rec: rec, txn: db.NewTransactionAt(rec.number, false)}
}

// errLost says that a value was not where its pointer said. Badger itself only logs that, and gives an empty value.
var errLost = errors.New("a value is missing from the value log")

// appendValue appends an item's value to dst.
func appendValue(item *badger.Item, dst []byte) ([]byte, error) {
	n := len(dst)
	err := item.Value(func(v []byte) error {
		dst = append(dst, v...)
		return nil
	})
	if err == nil && len(dst) == n && item.ValueSize() > 0 {
		err = errLost
	}
	return dst, err
}

// get appends the value of a key in Badger to dst.
func get(txn *badger.Txn, key, dst []byte) (_ []byte, ok bool, err error) {
	n := len(dst)
	// The value log's garbage collection may move a value between the two steps; then it is found at its new place.
	for range 3 {
		var item *badger.Item
		item, err = txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return dst[:n], false, nil
		}
		if err != nil {
			break
		}
		if isGone(item) {
			return dst[:n], false, nil
		}
		dst, err = appendValue(item, dst[:n])
		if !errors.Is(err, errLost) {
			break
		}
	}
	return dst, err == nil, err
}

// Get appends the row's value to dst.
func (s *Store) Get(slot uint16, key, dst []byte) ([]byte, bool, error) {
	v := s.view.Load()
	if v.err != nil || v.txn == nil || v.rec.slots[slot].rows == 0 {
		return dst, false, v.err
	}
	var buf [64]byte
	return s.got(v, slotPrefix(buf[:0], slot), key, dst, v.txn)
}

func (s *Store) got(v *view, prefix, key, dst []byte, txn *badger.Txn) ([]byte, bool, error) {
	value, ok, err := get(txn, append(prefix, key...), dst)
	if err != nil {
		return dst, false, damage(s.dir, fmt.Sprintf("get key %.64x as of checkpoint %d", key, v.rec.number), err)
	}
	return value, ok, nil
}

// GetSegment is Get within a segment.
func (s *Store) GetSegment(seg state.Segment, key, dst []byte) (value []byte, ok bool, err error) {
	value = dst
	var buf [64]byte
	err = s.inSegment(seg, func(v *view, txn *badger.Txn) error {
		var err error
		value, ok, err = s.got(v, segmentPrefix(buf[:0], seg), key, dst, txn)
		return err
	})
	return value, ok, err
}

// inSegment calls do with a transaction on the database that has the segment's rows, if it has any.
func (s *Store) inSegment(seg state.Segment, do func(*view, *badger.Txn) error) error {
	v := s.view.Load()
	if v.err != nil || v.txn == nil {
		return v.err
	}
	info, ok := v.rec.segment(seg)
	if !ok {
		return nil
	}
	if info.born == 0 {
		return do(v, v.txn)
	}
	d, err := s.segs.acquire(info.id(), false)
	if err != nil {
		return err
	}
	defer s.segs.release(d)
	return do(v, d.db.NewTransactionAt(v.rec.number, false))
}

// Scan visits a range of a store's rows.
func (s *Store) Scan(slot uint16, from, to []byte, reverse bool, visit func(key, value []byte) bool) error {
	v := s.view.Load()
	if v.err != nil || v.txn == nil || v.rec.slots[slot].rows == 0 {
		return v.err
	}
	return s.scanned(v, scan(v.txn, slotPrefix(nil, slot), from, to, reverse, visit))
}

// ScanSegment is Scan within a segment.
func (s *Store) ScanSegment(seg state.Segment, from, to []byte, reverse bool, visit func(key, value []byte) bool) error {
	return s.inSegment(seg, func(v *view, txn *badger.Txn) error {
		return s.scanned(v, scan(txn, segmentPrefix(nil, seg), from, to, reverse, visit))
	})
}

func (s *Store) scanned(v *view, err error) error {
	if err != nil {
		return damage(s.dir, fmt.Sprintf("scan as of checkpoint %d", v.rec.number), err)
	}
	return nil
}

// scan visits the rows under a prefix, with their keys without it.
func scan(txn *badger.Txn, prefix, from, to []byte, reverse bool, visit func(key, value []byte) bool) error {
	var value []byte
	var failed error
	scanItems(txn, prefix, from, to, reverse, func(key []byte, item *badger.Item) bool {
		value, failed = appendValue(item, value[:0])
		if errors.Is(failed, errLost) {
			var ok bool
			value, ok, failed = get(txn, item.KeyCopy(nil), value[:0])
			if failed == nil && !ok {
				failed = errLost
			}
		}
		return failed == nil && visit(key, value)
	})
	return failed
}

// scanItems visits the items under a prefix, with their keys without it.
func scanItems(txn *badger.Txn, prefix, from, to []byte, reverse bool, visit func(key []byte, item *badger.Item) bool) {
	low := append(bytes.Clone(prefix), from...)
	high := prefixEnd(prefix)
	o := badger.IteratorOptions{Prefix: prefix, Reverse: reverse}
	if to != nil {
		high = append(bytes.Clone(prefix), to...)
		// Keys between two with a common beginning have it too; Badger leaves out the tables without it.
		o.Prefix = commonPrefix(low, high)
	}
	if bytes.Compare(low, high) >= 0 {
		return
	}
	it := txn.NewIterator(o)
	defer it.Close()
	if !reverse {
		for it.Seek(low); it.Valid(); it.Next() {
			item := it.Item()
			key := item.Key()
			if bytes.Compare(key, high) >= 0 || !isGone(item) && !visit(key[len(prefix):], item) {
				return
			}
		}
		return
	}
	for it.Seek(high); it.Valid(); it.Next() {
		item := it.Item()
		key := item.Key()
		if bytes.Equal(key, high) {
			continue
		}
		if bytes.Compare(key, low) < 0 || !isGone(item) && !visit(key[len(prefix):], item) {
			return
		}
	}
}

// Count is the number of a store's rows, segments included, and their bytes.
func (s *Store) Count(slot uint16) (rows, bytes int64) {
	c := s.view.Load().rec.count(slot)
	return c.rows, c.bytes
}

// Segments lists a store's segments.
func (s *Store) Segments(slot uint16) []int64 {
	rec := s.view.Load().rec
	var list []int64
	i, _ := rec.find(state.Segment{Slot: slot, Number: -1 << 63})
	for ; i < len(rec.segments) && rec.segments[i].Slot == slot; i++ {
		list = append(list, rec.segments[i].Number)
	}
	return list
}

// Data is what was handed to the last finished checkpoint.
func (s *Store) Data() []byte { return s.rec.data }

// Switch makes reads see the last Apply, and removes the segments that only the reads before it saw.
func (s *Store) Switch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	if v.err != nil || v.txn == nil || v.rec == s.rec {
		return
	}
	s.view.Store(newView(s.db, s.rec))
	discard(s.db, s.rec.number)
	s.segs.setDiscard(s.rec.number)
	if gone := s.dropped; len(gone) > 0 {
		s.dropped = nil
		s.background.Go(func() {
			for _, id := range gone {
				s.segs.remove(id)
			}
		})
	}
}
