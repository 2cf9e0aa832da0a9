package badgerstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"github.com/kolkstreams/kolk/internal/state"
)

const (
	rowsName = "rows" // the task's database
	runsName = "runs" // temporary files of a bulk load
)

// Opened says what Open found.
type Opened struct {
	// Wiped says that the directory had rows that could not be trusted, and that it is empty now. Reason says why.
	Wiped  bool
	Reason string
	// Undone is the number of rows of an unfinished checkpoint that were put back.
	Undone int64
}

// Store is the rows of one task on disk. It is a state.Segmented, with the rules for goroutines that state.Backend has.
type Store struct {
	dir    string
	cfg    Config
	opened Opened
	lock   *os.File
	segs   *segments
	size   int64 // bytes of tables at open, or the hint

	last   uint64 // the largest number that a checkpoint ever had, finished or not
	failed error  // why nothing may be written until the next open
	values bool   // the task's database may have values outside its tables

	// Deletes that linger, see lingers.
	lingering int    // that the present checkpoint has written
	listed    bool   // there may be some
	goneAt    []byte // where the next look at them begins

	mu      sync.Mutex // guards what follows against Switch
	db      *badger.DB
	rec     *record     // of the last finished checkpoint; changed by Apply's goroutine only
	dropped []segmentID // databases that no checkpoint has any more, but perhaps the view

	view       atomic.Pointer[view]
	background sync.WaitGroup
	closing    atomic.Bool
}

var _ state.Segmented = (*Store)(nil)

// Open opens the store in dir, and makes dir if need be. What an unfinished checkpoint wrote is undone. A store that cannot be trusted after
// a crash of the machine is opened empty; Opened says so.
//
// Errors: ErrLocked if somebody has it open, ErrDiskFull, ErrCorrupt if its files are damaged: then call Wipe, and Open again.
func Open(dir string, cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{dir: dir, cfg: cfg, lock: lock, segs: newSegments(dir, cfg)}
	if err := s.open(); err != nil {
		if s.db != nil {
			err = errors.Join(err, s.segs.close(), s.db.Close())
		}
		lock.Close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	return s, nil
}

// Wipe empties the directory of a store that is not open.
func Wipe(dir string) error {
	lock, err := lockDir(dir)
	if err != nil {
		return fmt.Errorf("wipe store: %w", err)
	}
	defer lock.Close()
	if err := wipe(dir, ""); err != nil {
		return fmt.Errorf("wipe store: %w", err)
	}
	return nil
}

// Remove removes the directory of a store that is not open. Somebody who opens it meanwhile finds it empty, or keeps Remove from it.
func Remove(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := lockDir(dir)
	if err != nil {
		return fmt.Errorf("remove store: %w", err)
	}
	defer lock.Close()
	if err := wipe(dir, ""); err != nil {
		return fmt.Errorf("remove store: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil {
		return fmt.Errorf("remove store: %w", err)
	}
	// Somebody may have made a lock file of their own by now; the directory is theirs then.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrExist) && !isNotEmpty(dir) {
		return fmt.Errorf("remove store: %w", err)
	}
	return nil
}

func isNotEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) > 0
}

// wipe removes all but the lock, and keep. The mark goes first: without it the rest is not trusted, however far this gets.
func wipe(dir, keep string) error {
	if err := os.Remove(filepath.Join(dir, markName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockName || e.Name() == keep {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) open() error {
	m, err := readMark(s.dir)
	if err != nil {
		return err
	}
	if reason := m.distrust(s.cfg.BootID()); reason != "" {
		used, err := exists(filepath.Join(s.dir, rowsName))
		if err != nil {
			return err
		}
		if err := s.wiped(used, reason); err != nil {
			return err
		}
		m = nil
	}
	if err := os.RemoveAll(filepath.Join(s.dir, runsName)); err != nil {
		return fmt.Errorf("remove what a bulk load left: %w", err)
	}
	s.size = max(s.cfg.SizeHint, tableBytes(s.rowsDir()))
	if err := s.start(m); err != nil {
		return err
	}
	if s.rec, err = readRecord(s.db); err != nil {
		return damage(s.dir, "read the checkpoint", err)
	}
	if s.rec == nil {
		if s.db.MaxVersion() > 0 {
			if err := s.reset("no checkpoint of it was ever finished", ""); err != nil {
				return err
			}
		}
		s.rec = &record{}
	}
	if err := s.segs.sweep(s.rec.segments); err != nil {
		return fmt.Errorf("%s: %w", s.dir, err)
	}
	if err := s.undoTorn(m == nil || m.State == running); err != nil {
		return err
	}
	discard(s.db, s.rec.number)
	s.segs.setDiscard(s.rec.number)
	s.view.Store(newView(s.db, s.rec))
	return nil
}

// start marks the directory as in use and opens the task's database. m is the mark that was found.
func (s *Store) start(m *mark) error {
	memtable := s.cfg.memtable
	if m != nil && m.State == running {
		// Badger ends the process if it must replay the log of a larger memtable.
		memtable = max(memtable, m.Memtable)
	}
	if err := s.room(0); err != nil {
		return err
	}
	if err := s.cfg.fault("mark"); err != nil {
		return err
	}
	if err := (mark{Format: markFormat, State: running, Boot: s.cfg.BootID(), Memtable: memtable}).write(s.dir); err != nil {
		return err
	}
	db, err := openSwept(s.cfg.badgerOptions(s.rowsDir(), memtable, s.size))
	if err != nil {
		return damage(s.rowsDir(), "open the database", err)
	}
	s.db = db
	s.values, err = hasValues(s.rowsDir())
	s.listed, s.goneAt = lists(db), nil
	return err
}

func (s *Store) rowsDir() string { return filepath.Join(s.dir, rowsName) }

// wiped empties the directory before it is opened.
func (s *Store) wiped(used bool, reason string) error {
	if err := s.cfg.fault("wipe"); err != nil {
		return err
	}
	if err := wipe(s.dir, ""); err != nil {
		return fmt.Errorf("wipe %s: %w", s.dir, err)
	}
	if used {
		s.opened = Opened{Wiped: true, Reason: reason}
	}
	return nil
}

// reset replaces the databases by empty ones.
func (s *Store) reset(reason, keep string) error {
	if err := errors.Join(s.segs.close(), s.db.Close()); err != nil {
		return fmt.Errorf("close the database to empty it: %w", err)
	}
	s.mu.Lock()
	s.db = nil
	s.mu.Unlock()
	if err := s.cfg.fault("wipe"); err != nil {
		return err
	}
	if err := wipe(s.dir, keep); err != nil {
		return fmt.Errorf("wipe %s: %w", s.dir, err)
	}
	if reason != "" {
		s.opened = Opened{Wiped: true, Reason: reason}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = nil
	return s.start(nil)
}

// undoTorn undoes an unfinished checkpoint, if the last use did not end well.
func (s *Store) undoTorn(unclean bool) error {
	s.last = max(s.rec.number, s.db.MaxVersion())
	var torn []segmentInfo
	if unclean {
		for _, info := range s.rec.segments {
			if info.born == 0 {
				continue
			}
			d, err := s.segs.acquire(info.id(), false)
			if err != nil {
				return err
			}
			if v := d.db.MaxVersion(); v > s.rec.number {
				torn = append(torn, info)
				s.last = max(s.last, v)
			}
			s.segs.release(d)
		}
	}
	if s.last == s.rec.number {
		return nil
	}
	return s.undo(torn)
}

// Opened says what Open found.
func (s *Store) Opened() Opened { return s.opened }

// Close closes the store. After Close(true), if nothing failed, the store is trusted whatever happens to the machine.
func (s *Store) Close(clean bool) error {
	if s.closing.Swap(true) {
		return nil
	}
	s.background.Wait()
	s.view.Store(&view{rec: &record{}, err: ErrClosed})
	err := s.segs.close()
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	if err == nil && clean && s.failed == nil {
		err = s.cfg.fault("mark")
		if err == nil {
			err = (mark{Format: markFormat, State: "CLEAN", Memtable: s.cfg.memtable}).write(s.dir)
		}
	}
	err = errors.Join(err, s.lock.Close())
	s.failed = ErrClosed
	if err != nil {
		return fmt.Errorf("close store %s: %w", s.dir, err)
	}
	return nil
}

// room is nil if the file system can take so many bytes more.
func (s *Store) room(bytes int64) error {
	if s.cfg.MinFree < 0 {
		return nil
	}
	free, err := s.cfg.free(s.dir)
	if err != nil {
		return fmt.Errorf("find the free space of %s: %w", s.dir, err)
	}
	if need := bytes + s.cfg.MinFree; free < need {
		return fmt.Errorf("%w: %s needs %d bytes, %d are free; make room, or set MinFree lower than %d", ErrDiskFull, s.dir, need, free, s.cfg.MinFree)
	}
	return nil
}

// openSwept opens a database, if its tables are whole, after removing the log files that a killed process had made but not yet given a size: Badger refuses them.
func openSwept(o badger.Options) (*badger.DB, error) {
	if err := guarded(func() error { return checkTables(o) }); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		for _, pattern := range []string{"*.mem", "*.vlog"} {
			names, err := filepath.Glob(filepath.Join(o.Dir, pattern))
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				if info, err := os.Stat(name); err == nil && info.Size() == 0 {
					if err := os.Remove(name); err != nil {
						return nil, err
					}
				}
			}
		}
		db, err := openDB(o)
		if err == nil || try == 1 {
			return db, err
		}
	}
}

func readRecord(db *badger.DB) (*record, error) {
	txn := db.NewTransactionAt(^uint64(0), false)
	item, err := txn.Get(recordKey)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := appendValue(item, nil)
	if err != nil {
		return nil, err
	}
	return decodeRecord(b, item.Version())
}

// tableBytes is the size of the tables in a database's directory.
func tableBytes(dir string) int64 {
	var n int64
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && filepath.Ext(e.Name()) == ".sst" {
			n += info.Size()
		}
	}
	return n
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// discard lets compactions drop what no read at the given version sees, if the database has tables below the first level. Until then it has not: Badger merges tables of
// the first level among themselves while it merges others of them downwards, and would drop a delete although what it deletes is just on its way.
func discard(db *badger.DB, at uint64) {
	for _, l := range db.Levels() {
		if l.Level > 0 && l.NumTables > 0 {
			db.SetDiscardTs(at)
			return
		}
	}
}
