package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/kolkstreams/kolk/internal/state"
)

// atomicRows is up to how many rows a checkpoint is one transaction of Badger's, which is also what costs least for so few.
const atomicRows = 1000

// Apply makes the batches a checkpoint.
func (s *Store) Apply(batches []state.Batch, data []byte) error {
	return s.ApplySegments(batches, nil, nil, data)
}

// ApplySegments is Apply with rows of segments, and segments to drop.
func (s *Store) ApplySegments(batches []state.Batch, segments []state.SegmentBatch, drop []state.Segment, data []byte) error {
	if s.failed != nil {
		return fmt.Errorf("apply a checkpoint in %s: %w", s.dir, s.failed)
	}
	err := state.CheckBatches(batches, segments)
	if err == nil {
		err = s.apply(batches, segments, drop, data)
	}
	if err == nil {
		err = s.collect()
	}
	if err != nil {
		s.failed = fmt.Errorf("an earlier write failed, the store must be opened again: %w", err)
		return fmt.Errorf("apply a checkpoint in %s: %w", s.dir, err)
	}
	return nil
}

// part is what a checkpoint changes in one store or segment.
type part struct {
	prefix []byte
	rows   []state.Row
	was    []int64   // for each row, the bytes that it had, or -1
	own    segmentID // the database of the rows; the task's if born is 0
	create bool      // ... which is made by this checkpoint
	purge  bool      // rows that the task's database has under prefix go, but for what rows says
	move   bool      // ... and are copied to own
	purged int64     // how many
}

// plan is a checkpoint before it is written.
type plan struct {
	rec   *record // as it will be
	parts []part
	gone  []segmentID // databases that it no longer has
}

func (s *Store) apply(batches []state.Batch, segments []state.SegmentBatch, drop []state.Segment, data []byte) error {
	var size, longest int64
	for _, b := range batches {
		size, longest = measure(b.Rows, size, longest)
	}
	for _, b := range segments {
		size, longest = measure(b.Rows, size, longest)
	}
	// Rows go to the log, to a table, and to the next level's table; each has a version and some framing.
	if err := s.room(3 * size); err != nil {
		return err
	}
	if err := s.cfg.fault("plan"); err != nil {
		return err
	}
	s.last++
	p := plan{rec: s.rec.next(s.last, data)}
	if err := s.plan(&p, batches, segments, drop); err != nil {
		return err
	}
	record := p.rec.encode()
	s.values = s.values || max(longest, int64(len(record))) >= s.db.Opts().ValueThreshold
	atOnce := p.small(size+int64(len(record)), longest, s.db.Opts().MemTableSize)
	if atOnce {
		err := s.writeAtomically(p, record)
		if err != nil && !errors.Is(err, badger.ErrTxnTooBig) {
			return err
		}
		atOnce = err == nil // long keys that are purged, and deletes that linger, are not foreseen
	}
	if !atOnce {
		if err := s.writeInParts(p, record); err != nil {
			return err
		}
	}
	s.finished(p.rec, p.gone)
	return s.cfg.fault("return")
}

// finished makes a record that was written the last one.
func (s *Store) finished(rec *record, gone []segmentID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rec = rec
	s.dropped = append(s.dropped, gone...)
}

// measure adds the rows' bytes with what Badger puts around them, and finds the longest value.
func measure(rows []state.Row, size, longest int64) (int64, int64) {
	for _, r := range rows {
		size += int64(len(r.Key)+len(r.Value)) + 40
		longest = max(longest, int64(len(r.Value)))
	}
	return size, longest
}

// plan finds what is there already, counts, and decides where the rows go.
func (s *Store) plan(p *plan, batches []state.Batch, segments []state.SegmentBatch, drop []state.Segment) error {
	now := s.db.NewTransactionAt(s.rec.number, false)
	for _, b := range batches {
		if len(b.Rows) == 0 {
			continue
		}
		pt := part{prefix: slotPrefix(nil, b.Slot), rows: b.Rows}
		c := p.rec.slots[b.Slot]
		var err error
		if pt.was, err = lookUp(now, pt.prefix, b.Rows, c.rows); err != nil {
			return damage(s.dir, "look up rows", err)
		}
		c.change(b.Rows, pt.was)
		p.rec.slots[b.Slot] = c
		p.parts = append(p.parts, pt)
	}
	purges := map[state.Segment]int64{}
	for _, seg := range drop {
		info, ok := p.rec.segment(seg)
		if !ok {
			continue
		}
		if info.born != 0 {
			p.gone = append(p.gone, info.id())
		} else {
			purges[seg] = info.rows
		}
		p.rec.set(segmentInfo{Segment: seg})
	}
	for _, b := range segments {
		if len(b.Rows) == 0 {
			continue
		}
		pt, err := s.planSegment(p, now, b, purges)
		if err != nil {
			return err
		}
		p.parts = append(p.parts, pt)
	}
	for seg, n := range purges {
		p.parts = append(p.parts, part{prefix: segmentPrefix(nil, seg), purge: true, purged: n})
	}
	// Neighbours go to Badger together: it finds their place faster.
	slices.SortFunc(p.parts, func(a, b part) int { return bytes.Compare(a.prefix, b.prefix) })
	return nil
}

func (s *Store) planSegment(p *plan, now *badger.Txn, b state.SegmentBatch, purges map[state.Segment]int64) (part, error) {
	pt := part{prefix: segmentPrefix(nil, b.Segment), rows: b.Rows}
	pt.purged, pt.purge = purges[b.Segment]
	delete(purges, b.Segment)
	info, ok := p.rec.segment(b.Segment)
	switch {
	case !ok: // new, or dropped just now
		pt.was = slices.Repeat([]int64{-1}, len(b.Rows))
	case info.born == 0:
		var err error
		if pt.was, err = lookUp(now, pt.prefix, b.Rows, info.rows); err != nil {
			return pt, damage(s.dir, "look up rows of a segment", err)
		}
	default:
		d, err := s.segs.acquire(info.id(), false)
		if err != nil {
			return pt, err
		}
		defer s.segs.release(d)
		pt.was, err = lookUp(d.db.NewTransactionAt(s.rec.number, false), pt.prefix, b.Rows, info.rows)
		if err != nil {
			return pt, damage(s.segs.path(info.id()), "look up rows of a segment", err)
		}
	}
	before := info.rows
	info.change(b.Rows, pt.was)
	switch {
	case info.rows == 0 && info.born != 0:
		p.gone = append(p.gone, info.id())
		pt.rows, pt.was = nil, nil
	case info.born != 0:
		pt.own = info.id()
	case info.rows >= s.cfg.segmentRows || info.bytes >= s.cfg.segmentBytes:
		info.born = p.rec.number
		pt.own, pt.create = info.id(), true
		if before > 0 {
			pt.purge, pt.move, pt.purged = true, true, before
		}
	}
	p.rec.set(info)
	return pt, nil
}

// change counts rows in, given what they were.
func (c *count) change(rows []state.Row, was []int64) {
	for i, r := range rows {
		if was[i] >= 0 {
			c.rows--
			c.bytes -= was[i]
		}
		if r.Value != nil {
			c.rows++
			c.bytes += int64(len(r.Key) + len(r.Value))
		}
	}
}

// small says whether the checkpoint can be one transaction.
func (p plan) small(size, longest, memtable int64) bool {
	n := int64(0)
	for _, pt := range p.parts {
		if pt.own.born != 0 {
			return false
		}
		n += int64(len(pt.rows)) + pt.purged
		size += pt.purged * (state.MaxKey / 64)
	}
	return n <= atomicRows && size < memtable/10 && longest <= 1<<20
}

// sink takes rows for one database. What it is given stays unchanged until the checkpoint is written; a nil value deletes.
type sink func(key, value []byte) error

// writeAtomically writes rows and record in one transaction.
func (s *Store) writeAtomically(p plan, record []byte) error {
	txn := s.db.NewTransactionAt(p.rec.number, true)
	defer txn.Discard()
	set := func(key, value []byte) error {
		if value == nil && s.lingers(key) {
			return errors.Join(txn.Set(goneKey(key), nil), txn.SetEntry(badger.NewEntry(key, nil).WithMeta(gone[0])))
		}
		if value == nil {
			return txn.Delete(key)
		}
		return txn.Set(key, value)
	}
	for _, pt := range p.parts {
		if err := s.emit(pt, set, nil); err != nil {
			return err
		}
	}
	if err := txn.Set(recordKey, record); err != nil {
		return err
	}
	if err := s.cfg.fault("transaction"); err != nil {
		return err
	}
	return txn.CommitAt(p.rec.number, nil)
}

// writeInParts writes the rows to all databases, and when they are all there the record, which makes them valid.
func (s *Store) writeInParts(p plan, record []byte) error {
	if err := s.cfg.fault("rows"); err != nil {
		return err
	}
	err := load(s.db, p.rec.number, s.cfg.fault, s.lingers, func(task sink) error {
		for _, pt := range p.parts {
			if pt.own.born == 0 {
				if err := s.emit(pt, task, nil); err != nil {
					return err
				}
				continue
			}
			if pt.create {
				if err := s.cfg.fault("make a segment"); err != nil {
					return err
				}
			}
			d, err := s.segs.acquire(pt.own, pt.create)
			if err != nil {
				return err
			}
			err = load(d.db, p.rec.number, s.cfg.fault, nil, func(own sink) error { return s.emit(pt, own, task) })
			s.segs.release(d)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.cfg.fault("record"); err != nil {
		return err
	}
	return writeRecord(s.db, p.rec.number, record)
}

// writeRecord is a transaction of its own: a loader's rows have no marks of where they end.
func writeRecord(db *badger.DB, number uint64, record []byte) error {
	txn := db.NewTransactionAt(number, true)
	defer txn.Discard()
	if err := txn.Set(recordKey, record); err != nil {
		return err
	}
	return txn.CommitAt(number, nil)
}

// emit gives the part's rows to the database they belong to, and deletes for those that leave the task's.
func (s *Store) emit(pt part, to, task sink) error {
	var arena []byte
	full := func(key []byte) []byte {
		if n := len(pt.prefix) + len(key); cap(arena)-len(arena) < n {
			arena = make([]byte, 0, max(n, 16<<10))
		}
		at := len(arena)
		arena = append(append(arena, pt.prefix...), key...)
		return arena[at:len(arena):len(arena)]
	}
	if pt.purge {
		if err := s.purge(pt, full, to, task); err != nil {
			return err
		}
	}
	for i, r := range pt.rows {
		if r.Value == nil && (pt.was[i] < 0 || pt.create) {
			continue
		}
		if err := to(full(r.Key), r.Value); err != nil {
			return err
		}
	}
	return nil
}

// purge deletes the rows that the task's database has under the part's prefix, and copies them to the part's own if it says so. Rows that
// the part sets or deletes itself are left to emit, lest a key have two rows of one version.
func (s *Store) purge(pt part, full func([]byte) []byte, to, task sink) error {
	if task == nil {
		task = to
	}
	next := 0
	var failed error
	scanItems(s.db.NewTransactionAt(s.rec.number, false), pt.prefix, nil, nil, false, func(key []byte, item *badger.Item) bool {
		for next < len(pt.rows) && bytes.Compare(pt.rows[next].Key, key) < 0 {
			next++
		}
		mine := next < len(pt.rows) && bytes.Equal(pt.rows[next].Key, key)
		if mine && pt.own.born == 0 && (pt.rows[next].Value != nil || pt.was[next] >= 0) {
			return true
		}
		k := full(key)
		if pt.move && !mine {
			var value []byte
			if value, failed = appendValue(item, []byte{}); failed == nil {
				failed = to(k, value)
			}
		}
		if failed == nil {
			failed = task(k, nil)
		}
		return failed == nil
	})
	return failed
}

// lookUp is what each row was: the bytes of its key and value in the database, or -1. stored is how many rows there are.
func lookUp(txn *badger.Txn, prefix []byte, rows []state.Row, stored int64) ([]int64, error) {
	was := make([]int64, len(rows))
	unknown := 0
	for i, r := range rows {
		was[i] = -1
		if r.Known {
			was[i] = max(r.Was, -1)
		} else {
			unknown++
		}
	}
	if unknown == 0 || stored == 0 {
		return was, nil
	}
	if int64(unknown) > stored/10 {
		return was, mergeRows(txn, prefix, rows, was)
	}
	key := bytes.Clone(prefix)
	for i, r := range rows {
		if r.Known {
			continue
		}
		key = append(key[:len(prefix)], r.Key...)
		n, ok, err := valueLength(txn, key)
		if err != nil {
			return nil, err
		}
		if ok {
			was[i] = int64(len(r.Key)) + n
		}
	}
	return was, nil
}

// mergeRows walks the stored rows and the given ones side by side: cheaper than looking up each once they are a tenth of all.
func mergeRows(txn *badger.Txn, prefix []byte, rows []state.Row, was []int64) error {
	last := rows[len(rows)-1].Key
	next := 0
	var failed error
	scanItems(txn, prefix, rows[0].Key, append(bytes.Clone(last), 0), false, func(key []byte, item *badger.Item) bool {
		order := -1
		for next < len(rows) {
			if order = bytes.Compare(rows[next].Key, key); order >= 0 {
				break
			}
			next++
		}
		if order != 0 || rows[next].Known {
			return next < len(rows)
		}
		var n int64
		if n, failed = itemLength(item); errors.Is(failed, errLost) {
			n, _, failed = valueLength(txn, item.KeyCopy(nil))
		}
		was[next] = int64(len(key)) + n
		return failed == nil
	})
	return failed
}

// itemLength is the exact length of an item's value.
func itemLength(item *badger.Item) (int64, error) {
	n := item.ValueSize()
	if n <= inlineAtMost {
		return n, nil
	}
	v, err := appendValue(item, nil)
	return int64(len(v)), err
}

func valueLength(txn *badger.Txn, key []byte) (n int64, ok bool, err error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, false, nil
	}
	if err != nil || isGone(item) {
		return 0, false, err
	}
	if n, err = itemLength(item); errors.Is(err, errLost) {
		var v []byte
		v, ok, err = get(txn, key, nil)
		return int64(len(v)), ok, err
	}
	return n, err == nil, err
}
