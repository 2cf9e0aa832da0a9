package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// inlineAtMost is a length that no value in a value log is as short as, whatever the memtable is: the length of those is an estimate.
const inlineAtMost = 64 << 10

// gone marks a row that stands for a delete. Badger does not know that, and keeps it.
//
// The collection of Badger's value log moves a value by writing it anew, with its old version, above all else. It moves those too that were deleted or
// replaced, as long as the tables have them. A delete lies below what was moved then, and the merge that drops it brings the value back. So a delete of a
// key of which the tables have a value outside of them is written as a row, until they have none: what they do not have when no collection is running never
// comes back. Collections run between checkpoints, never beside one.
var gone = []byte{1}

func isGone(item *badger.Item) bool { return item.UserMeta() == gone[0] }

func goneKey(key []byte) []byte { return append(bytes.Clone(gonePrefix), key...) }

// lingers says whether a delete of a key in the task's database must stay. The databases of segments are not collected: they go as a whole.
func (s *Store) lingers(key []byte) bool {
	if !s.values {
		return false
	}
	it := s.db.NewTransactionAt(math.MaxUint64, false).NewKeyIterator(key, badger.IteratorOptions{AllVersions: true})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if it.Item().ValueSize() > inlineAtMost {
			s.lingering++
			return true
		}
	}
	return false
}

// mostPasses is how many files of the value log a checkpoint rewrites.
const mostPasses = 2

// collect gives back space of values that are gone from the value log. Badger finds in no time that there is nothing to do; each pass over a log
// file that has enough rewrites what is still in use.
func (s *Store) collect() error {
	for pass := 0; s.values && pass < mostPasses && s.room(2*s.cfg.valueLog) == nil; pass++ {
		err := s.db.RunValueLogGC(0.5)
		if errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected) {
			break
		}
		if err != nil {
			s.cfg.Logger.Warn("the value log could not be cleaned; it takes more space than it needs", "dir", s.dir, "error", err)
			break
		}
		if err := s.cfg.fault("values moved"); err != nil {
			return err
		}
	}
	return s.exhume()
}

// fewExhumed is at how many lingering deletes a checkpoint looks at least.
const fewExhumed = 16

// exhume makes deletes of some lingering ones, after each checkpoint, in turn: of more than have come to linger with it. They get the last checkpoint's
// version: they say the same as what was there.
func (s *Store) exhume() error {
	if !s.listed && s.lingering == 0 {
		return nil
	}
	most, room := max(fewExhumed, 2*s.lingering), s.db.Opts().MemTableSize/20
	s.lingering, s.listed = 0, true
	now := s.rec.number
	txn := s.db.NewTransactionAt(now, true)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: gonePrefix})
	defer it.Close()
	it.Seek(append(bytes.Clone(gonePrefix), s.goneAt...))
	first := len(s.goneAt) == 0
	n := 0
	var writes [][]byte
	for ; it.Valid() && n < most && room > 0; it.Next() {
		n++
		listed := it.Item().KeyCopy(nil)
		key := listed[len(gonePrefix):]
		s.goneAt = append(append(s.goneAt[:0], key...), 0)
		item, err := txn.Get(key)
		switch {
		case it.Item().Version() == now:
			continue // of one key there is one row of a version
		case errors.Is(err, badger.ErrKeyNotFound):
		case err != nil:
			return damage(s.dir, "look at a delete", err)
		case isGone(item) && (item.Version() == now || s.lingers(key)):
			continue
		case isGone(item):
			writes = append(writes, key)
		}
		writes = append(writes, listed)
		room -= int64(2*len(key) + 32)
	}
	s.lingering = 0 // those just looked at
	if !it.Valid() {
		s.goneAt = s.goneAt[:0]
		s.listed = n > 0 || !first
	}
	if len(writes) == 0 {
		return nil
	}
	if err := s.cfg.fault("forget deletes"); err != nil {
		return err
	}
	for _, key := range writes {
		if err := txn.Delete(key); err != nil {
			return fmt.Errorf("forget a delete in %s: %w", s.dir, err)
		}
	}
	it.Close()
	if err := txn.CommitAt(now, nil); err != nil {
		return fmt.Errorf("forget deletes in %s: %w", s.dir, err)
	}
	return nil
}

// lists says whether there are deletes that linger.
func lists(db *badger.DB) bool {
	it := db.NewTransactionAt(math.MaxUint64, false).NewIterator(badger.IteratorOptions{Prefix: gonePrefix})
	defer it.Close()
	it.Rewind()
	return it.Valid()
}

// valueLogHeader is what each of Badger's value log files begins with, in bytes.
const valueLogHeader = 20

// hasValues says whether a value log has anything: a file without values has zeros behind its header, or nothing.
func hasValues(dir string) (bool, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("look for values: %w", err)
	}
	for _, file := range files {
		if filepath.Ext(file.Name()) != ".vlog" {
			continue
		}
		name := filepath.Join(dir, file.Name())
		f, err := os.Open(name)
		if err != nil {
			return false, fmt.Errorf("look for values: %w", err)
		}
		var first [32]byte
		_, err = f.ReadAt(first[:], valueLogHeader)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return false, fmt.Errorf("look for values in %s: %w", name, err)
		}
		if first != [32]byte{} {
			return true, nil
		}
	}
	return false, nil
}
