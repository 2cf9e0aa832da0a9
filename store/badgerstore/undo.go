package badgerstore

import (
	"bytes"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// undo puts the rows of an unfinished checkpoint back to what they were at the last finished one. They get the next number, and so does
// the record, which says nothing else than before. If the process dies in here, the next open undoes that, too.
func (s *Store) undo(torn []segmentInfo) error {
	upto := s.last
	s.last++
	n, err := undoRows(s.db, s.rec.number, upto, s.last, s.cfg.fault, s.lingers)
	if err != nil {
		return fmt.Errorf("undo an unfinished checkpoint in %s: %w", s.dir, err)
	}
	s.opened.Undone += n
	for _, info := range torn {
		d, err := s.segs.acquire(info.id(), false)
		if err != nil {
			return err
		}
		n, err = undoRows(d.db, s.rec.number, upto, s.last, s.cfg.fault, nil)
		s.segs.release(d)
		if err != nil {
			return fmt.Errorf("undo an unfinished checkpoint in %s: %w", s.segs.path(info.id()), err)
		}
		s.opened.Undone += n
	}
	if err := s.cfg.fault("record of an undo"); err != nil {
		return err
	}
	rec := s.rec.next(s.last, s.rec.data)
	if err := writeRecord(s.db, rec.number, rec.encode()); err != nil {
		return fmt.Errorf("undo an unfinished checkpoint in %s: %w", s.dir, err)
	}
	s.rec = rec
	return nil
}

// undoRows writes, for every key that has a row of a version in (at, upto], its row as of at under the version to.
func undoRows(db *badger.DB, at, upto, to uint64, fault func(string) error, lingers func(key []byte) bool) (n int64, err error) {
	then := db.NewTransactionAt(at, false)
	it := db.NewTransactionAt(upto, false).NewIterator(badger.IteratorOptions{AllVersions: true, SinceTs: at})
	defer it.Close()
	err = load(db, to, fault, lingers, func(write sink) error {
		if err := fault("undo"); err != nil {
			return err
		}
		var last []byte
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().Key()
			if n > 0 && bytes.Equal(key, last) {
				continue
			}
			last = append(last[:0], key...)
			value, ok, err := get(then, last, []byte{})
			if err != nil {
				return damage(db.Opts().Dir, "read a row to put it back", err)
			}
			n++
			if !ok && bytes.HasPrefix(key, gonePrefix) {
				continue // the delete that it lists may linger again with this undo
			}
			if !ok {
				value = nil
			}
			if err := write(bytes.Clone(key), value); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}
