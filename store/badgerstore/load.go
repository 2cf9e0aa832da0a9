package badgerstore

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/kolkstreams/kolk/internal/state"
)

// loader sorts rows outside of Badger, and then writes tables of its last level straight away: each row is written twice, where checkpoints
// would write it about five times.
type loader struct {
	store  *Store
	sorter sorter
	prefix []byte
	ended  bool
	failed error
}

var _ state.SegmentLoader = (*loader)(nil)

// Load starts a bulk load. It fails if the store has rows. Reads find nothing until it ends.
func (s *Store) Load() (state.Loader, error) {
	if s.failed != nil {
		return nil, fmt.Errorf("load rows into %s: %w", s.dir, s.failed)
	}
	if n := s.rec.total().rows; n > 0 {
		return nil, fmt.Errorf("load rows into %s: it has %d rows already", s.dir, n)
	}
	s.view.Store(&view{rec: &record{}})
	return &loader{store: s, sorter: sorter{
		dir: filepath.Join(s.dir, runsName), limit: s.cfg.LoadMemory, room: s.room, fault: s.cfg.fault,
	}}, nil
}

func (l *loader) Put(slot uint16, key, value []byte) error {
	l.prefix = slotPrefix(l.prefix[:0], slot)
	return l.put(key, value)
}

func (l *loader) PutSegment(seg state.Segment, key, value []byte) error {
	l.prefix = segmentPrefix(l.prefix[:0], seg)
	return l.put(key, value)
}

func (l *loader) put(key, value []byte) error {
	err := l.usable()
	if err == nil {
		err = state.CheckRow(key, value)
	}
	if err == nil {
		err = l.sorter.add(l.prefix, key, value)
	}
	if err != nil {
		return l.fail(err)
	}
	return nil
}

func (l *loader) usable() error {
	switch {
	case l.failed != nil:
		return l.failed
	case l.ended:
		return errors.New("the load has ended")
	}
	return l.store.failed
}

func (l *loader) fail(err error) error {
	l.failed = err
	l.store.failed = fmt.Errorf("a load failed, the store must be opened again: %w", err)
	return fmt.Errorf("load rows into %s: %w", l.store.dir, err)
}

func (l *loader) Abort() error {
	if l.ended {
		return nil
	}
	l.ended = true
	if l.failed == nil {
		l.store.view.Store(newView(l.store.db, l.store.rec))
	}
	if err := l.sorter.discard(); err != nil {
		return fmt.Errorf("abort a load into %s: %w", l.store.dir, err)
	}
	return nil
}

func (l *loader) Finish(data []byte) error {
	err := l.usable()
	if err == nil {
		err = l.finish(data)
	}
	if err != nil {
		return l.fail(err)
	}
	l.ended = true
	return nil
}

func (l *loader) finish(data []byte) error {
	s := l.store
	if s.last > 0 {
		// Badger's own way to empty a database does not do it at once; a crash within it could bring old rows back.
		s.background.Wait()
		if err := s.reset("", runsName); err != nil {
			return err
		}
	}
	rows, err := l.sorter.rows()
	if err != nil {
		return err
	}
	s.last++
	rec := (&record{}).next(s.last, data)
	w := &loadWriter{s: s, rec: rec}
	if err := errors.Join(w.write(&rows), rows.close()); err != nil {
		w.cancel()
		return err
	}
	if err := s.cfg.fault("record"); err != nil {
		return err
	}
	if err := writeRecord(s.db, rec.number, rec.encode()); err != nil {
		return err
	}
	s.finished(rec, nil)
	if s.values, err = hasValues(s.rowsDir()); err != nil {
		return err
	}
	discard(s.db, rec.number)
	s.segs.setDiscard(rec.number)
	s.view.Store(newView(s.db, rec))
	return errors.Join(s.cfg.fault("return"), l.sorter.discard())
}

// loadWriter writes sorted rows to the task's database and to those of large segments.
type loadWriter struct {
	s    *Store
	rec  *record
	task *tableWriter

	segment segmentInfo // the one whose rows come now, if it has any
	held    sorter      // its rows, while it is small; used as a list only
	own     *tableWriter
	db      *segmentDB
}

func (w *loadWriter) write(rows source) error {
	s := w.s
	w.task = &tableWriter{s: s, db: s.db, version: w.rec.number}
	for {
		key, value, ok, err := rows.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if value == nil {
			continue
		}
		seg, plain, rest := splitKey(key)
		if plain {
			if err := w.endSegment(); err != nil {
				return err
			}
			c := w.rec.slots[seg.Slot]
			c.add(count{1, int64(len(rest) + len(value))})
			w.rec.slots[seg.Slot] = c
			if err := w.task.put(key, value); err != nil {
				return err
			}
			continue
		}
		if err := w.segmentRow(seg, key, value, int64(len(rest)+len(value))); err != nil {
			return err
		}
	}
	if err := w.endSegment(); err != nil {
		return err
	}
	return w.task.finish()
}

// segmentRow holds a segment's rows back until it is known which database they go to.
func (w *loadWriter) segmentRow(seg state.Segment, key, value []byte, size int64) error {
	if w.segment.rows > 0 && w.segment.Segment != seg {
		if err := w.endSegment(); err != nil {
			return err
		}
	}
	w.segment.Segment = seg
	w.segment.add(count{1, size})
	if w.own != nil {
		return w.own.put(key, value)
	}
	w.held.limit = 1 << 62
	if err := w.held.add(nil, key, value); err != nil {
		return err
	}
	if w.segment.rows < w.s.cfg.segmentRows && w.segment.bytes < w.s.cfg.segmentBytes {
		return nil
	}
	if err := w.s.cfg.fault("make a segment"); err != nil {
		return err
	}
	w.segment.born = w.rec.number
	d, err := w.s.segs.acquire(w.segment.id(), true)
	if err != nil {
		return err
	}
	w.db = d
	w.own = &tableWriter{s: w.s, db: d.db, version: w.rec.number}
	return w.release(w.own)
}

// release writes what was held back.
func (w *loadWriter) release(to *tableWriter) error {
	for _, it := range w.held.items {
		if err := to.put(w.held.key(it), w.held.value(it)); err != nil {
			return err
		}
	}
	w.held.arena, w.held.items = w.held.arena[:0], w.held.items[:0]
	return nil
}

func (w *loadWriter) endSegment() error {
	if w.segment.rows == 0 {
		return nil
	}
	var err error
	if w.own == nil {
		err = w.release(w.task)
	} else {
		err = w.own.finish()
		w.s.segs.release(w.db)
		w.own, w.db = nil, nil
	}
	w.rec.set(w.segment)
	w.segment = segmentInfo{}
	return err
}

// cancel ends what is open after an error.
func (w *loadWriter) cancel() {
	w.task.cancel()
	if w.own != nil {
		w.own.cancel()
		w.s.segs.release(w.db)
	}
}

// tableWriter writes rows in ascending order of key as tables of an empty database.
type tableWriter struct {
	s       *Store
	db      *badger.DB
	version uint64
	w       *badger.StreamWriter
	buf     *z.Buffer
	kv      pb.KV
	rows    int
	unasked int // bytes written since free space was looked at
}

// sendBytes is how many bytes of rows go to Badger at a time, and askBytes after how many free space is looked at again.
const (
	sendBytes = 1 << 20
	askBytes  = 32 << 20
)

func (t *tableWriter) put(key, value []byte) error {
	if t.w == nil {
		if err := t.s.room(2 * askBytes); err != nil {
			return err
		}
		t.w = t.db.NewStreamWriter()
		if err := t.w.Prepare(); err != nil {
			return err
		}
		t.buf = z.NewBuffer(2*sendBytes, "kolk load")
	}
	if t.rows++; t.rows%stepRows == 0 {
		if err := t.s.cfg.fault("some rows"); err != nil {
			return err
		}
	}
	t.kv.Key, t.kv.Value, t.kv.Version = key, value, t.version
	badger.KVToBuffer(&t.kv, t.buf)
	if t.buf.LenNoPadding() < sendBytes {
		return nil
	}
	return t.send()
}

func (t *tableWriter) send() error {
	n := t.buf.LenNoPadding()
	if t.unasked += n; t.unasked > askBytes {
		t.unasked = 0
		if err := t.s.room(2 * askBytes); err != nil {
			return err
		}
	}
	err := t.w.Write(t.buf)
	t.buf.Reset()
	return err
}

func (t *tableWriter) finish() error {
	if t.w == nil {
		return nil
	}
	err := t.send()
	if err == nil {
		err = t.w.Flush()
	}
	if err != nil {
		t.cancel()
		return err
	}
	t.w = nil
	return t.buf.Release()
}

func (t *tableWriter) cancel() {
	if t == nil || t.w == nil {
		return
	}
	t.w.Cancel()
	t.w = nil
	if err := t.buf.Release(); err != nil {
		t.s.cfg.Logger.Warn("a buffer of a load could not be given back", "dir", t.s.dir, "error", err)
	}
}
