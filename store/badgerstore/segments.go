package badgerstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/kolkstreams/kolk/internal/state"
)

const segmentsName = "segments"

// segmentID names a segment's database. A segment that is dropped and begun anew gets another one.
type segmentID struct {
	state.Segment
	born uint64
}

func (i segmentInfo) id() segmentID { return segmentID{i.Segment, i.born} }

func (id segmentID) String() string { return fmt.Sprintf("%d_%d_%d", id.Slot, id.Number, id.born) }

// segmentDB is an open database.
type segmentDB struct {
	id       segmentID
	db       *badger.DB
	users    int
	lastUsed int64
	doomed   bool // to be removed by the last user
}

// segments are the databases of a task's segments, of which the least recently used are closed when there are too many.
type segments struct {
	dir string
	cfg Config

	mu      sync.Mutex
	open    map[segmentID]*segmentDB
	clock   int64
	discard uint64
}

func newSegments(dir string, cfg Config) *segments {
	return &segments{dir: filepath.Join(dir, segmentsName), cfg: cfg, open: map[segmentID]*segmentDB{}}
}

func (s *segments) path(id segmentID) string { return filepath.Join(s.dir, id.String()) }

// sweep removes the directories that the record does not list, and says if one that it lists is missing.
func (s *segments) sweep(listed []segmentInfo) error {
	want := map[string]bool{}
	for _, info := range listed {
		if info.born != 0 {
			want[info.id().String()] = true
		}
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if want[e.Name()] {
			delete(want, e.Name())
			continue
		}
		if err := s.cfg.fault("remove a segment"); err != nil {
			return err
		}
		if err := os.RemoveAll(filepath.Join(s.dir, e.Name())); err != nil {
			return fmt.Errorf("remove a segment that no checkpoint has: %w", err)
		}
	}
	for name := range want {
		return fmt.Errorf("%w: the segment %s is missing", ErrCorrupt, filepath.Join(s.dir, name))
	}
	return nil
}

// acquire returns an open database, which stays open until release.
func (s *segments) acquire(id segmentID, create bool) (*segmentDB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.open[id]
	if d == nil {
		if err := s.makeRoom(); err != nil {
			return nil, err
		}
		path := s.path(id)
		if create {
			if err := os.MkdirAll(path, 0o777); err != nil {
				return nil, fmt.Errorf("make a segment: %w", err)
			}
		} else if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("open a segment: %w: %w", ErrCorrupt, err)
		}
		db, err := openSwept(s.cfg.segmentOptions(path))
		if err != nil {
			return nil, damage(path, "open a segment", err)
		}
		discard(db, s.discard)
		d = &segmentDB{id: id, db: db}
		s.open[id] = d
	}
	s.clock++
	d.lastUsed = s.clock
	d.users++
	return d, nil
}

func (s *segments) release(d *segmentDB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.users--
	if d.users == 0 && d.doomed {
		s.destroy(d.id, d.db)
	}
}

// makeRoom closes databases until another may be open. Those in use stay.
func (s *segments) makeRoom() error {
	for len(s.open) >= s.cfg.OpenSegments {
		var oldest *segmentDB
		for _, d := range s.open {
			if d.users == 0 && (oldest == nil || d.lastUsed < oldest.lastUsed) {
				oldest = d
			}
		}
		if oldest == nil {
			return nil
		}
		delete(s.open, oldest.id)
		if err := oldest.db.Close(); err != nil {
			return damage(s.path(oldest.id), "close a segment", err)
		}
	}
	return nil
}

// setDiscard lets compactions drop what no read at the given version sees.
func (s *segments) setDiscard(at uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discard = at
	for _, d := range s.open {
		discard(d.db, at)
	}
}

// remove closes the database and removes its directory, at once or when its last user is done.
func (s *segments) remove(id segmentID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.open[id]
	if d == nil {
		s.destroy(id, nil)
		return
	}
	delete(s.open, id)
	d.doomed = true
	if d.users == 0 {
		s.destroy(id, d.db)
	}
}

// destroy's failures cost disk space until the next open, nothing else.
func (s *segments) destroy(id segmentID, db *badger.DB) {
	var err error
	if db != nil {
		err = db.Close()
	}
	if err = errors.Join(err, os.RemoveAll(s.path(id))); err != nil {
		s.cfg.Logger.Warn("a dropped segment could not be removed; the next start removes it", "dir", s.path(id), "error", err)
	}
}

func (s *segments) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for id, d := range s.open {
		delete(s.open, id)
		if e := d.db.Close(); e != nil {
			err = errors.Join(err, fmt.Errorf("close segment %s: %w", s.path(id), e))
		}
	}
	return err
}
