// Package seen is the store of a deduplication: which ids were seen, and when. Entries are only ever added, are small and many, and go with time. So it is much less than a window
// store, of which it has the rows, on disk and on the changelog.
package seen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/kolkstreams/kolk/internal/bloom"
	"github.com/kolkstreams/kolk/internal/state"
)

// Set is the store of one task. Its entries have a key and a cell, which is a time that stands for a span of it, and hold a time and a short value. It implements state.Segmenting.
//
// A row's name is that of a window store: key | cell (8) | 0 (4). Its value is time (8) | value. Times are in ms.
//
// Rows are in layers: live ones, that no checkpoint has taken; frozen ones, that one is writing; clean ones, that the backend has too, in lists that are given up as a
// whole when memory is short. What has left memory is in a filter for each segment of time, so that the backend is seldom asked for what it has not.
type Set struct {
	name    string
	env     state.Env
	backend state.Segmented

	retention int64 // a cell is gone once it lies so far behind the largest that was added
	length    int64 // of a segment
	observed  int64 // the largest cell that was added; -1 before the first
	settledAt int64 // the same as of the last commit
	savedAt   int64 // the same as the backend has it
	freezeAt  int64 // the same as of the last Freeze
	learned   bool  // the backend was asked for it

	live      *rows
	committed int // rows of live that are committed
	flushed   int // rows of live that Flush gave
	frozen    *rows
	clean     []*rows // the oldest first
	found     *rows   // of the backend, that were asked for of late

	parts   map[int64]*part
	recent  *part
	filters int64 // bytes of all filters
	freed   bool  // filters have gone since the last checkpoint

	key     []byte // what Seek was given
	hash    uint64 // of it
	scratch []byte
	every   int // fillEvery, fillRows
	fill    int

	batches []state.SegmentBatch
	drop    []state.Segment
	counted int64 // rows of the backend at the last Freeze
	added   int64 // rows that it adds
	expired int64 // entries that have expired
	lost    int64 // of them those that the backend did not get
	dirty   int64 // bytes of memory of what is not committed
	waits   int64 // bytes of names and values of what is committed and not in the backend
	freezes int64 // bytes of the same that are frozen
	sorting []sortKey
	listed  int // rows in batches
	share   state.Share
	broken  *state.Broken
}

var (
	_ state.Segmenting = (*Set)(nil)
	_ state.Ageing     = (*Set)(nil)
)

// part is what is known of a segment.
type part struct {
	number int64
	whole  bool          // memory has all of its rows
	left   *bloom.Filter // of rows that left memory; nil if there is no memory for it
	behind bool          // left has not all of them yet: those from next on are only in the backend
	next   []byte
	misses int // reads that found nothing while it is behind
}

const (
	tail     = 12 // of a name, behind the key
	timeSize = 8

	// MaxValue is how many bytes a value may have.
	MaxValue = 64

	shortest = 60_000 // segment
	// Rows of the backend that were asked for stay in memory until they take so many bytes.
	mostFound = 1 << 20
	// Of a segment that was there at the start the filter is made bit by bit, as it is wanted: after so many reads that found nothing it takes in
	// so many rows, which costs some five times the reads. After a start with fifty million ids it has all of them 800,000 records later.
	fillEvery, fillRows = 512, 1 << 15

	sortSize = int64(unsafe.Sizeof(sortKey{}))
	listSize = int64(unsafe.Sizeof(state.Row{}))
	// rowCost is what a row takes in memory beside its own bytes, about: in the list and the table, and while a checkpoint writes it.
	rowCost = refSize + 2*slotSize + sortSize + listSize
)

// observedKey is the key in the store's second slot under which the observed time is.
var observedKey = []byte("observed")

// Open makes the store of a task from a declaration: its name, and for how long entries are kept.
func Open(d *state.Decl, env state.Env) *Set {
	retention := d.Retention + d.Beyond
	s := &Set{name: d.Name, env: env, retention: retention, length: max(retention/2, shortest),
		observed: -1, settledAt: -1, savedAt: -1, live: &rows{}, found: &rows{}, parts: make(map[int64]*part), every: fillEvery, fill: fillRows}
	s.backend, _ = env.Backend.(state.Segmented)
	return s
}

// check ends a call on a store that has failed.
func (s *Set) check() {
	if s.broken != nil {
		panic(*s.broken)
	}
}

// Fail makes the store unusable, as it holds what it should not.
func (s *Set) Fail(format string, args ...any) {
	s.broken = &state.Broken{Store: s.name, Err: fmt.Errorf(format, args...)}
	panic(*s.broken)
}

// Refuse ends a call that cannot be done, and leaves the store as it is.
func (s *Set) Refuse(format string, args ...any) {
	panic(state.Failed{Store: s.name, Err: fmt.Errorf(format, args...)})
}

// learn reads the observed time at the first use, as opening does no I/O.
func (s *Set) learn() {
	if s.learned {
		return
	}
	if s.backend == nil {
		s.Fail("the backend %T has no segments", s.env.Backend)
	}
	row, ok, err := s.backend.Get(s.env.Slot+1, observedKey, nil)
	switch {
	case err != nil:
		s.Fail("read the observed time: %w", err)
	case ok && len(row) != 8:
		s.Fail("read the observed time: %d bytes", len(row))
	case ok:
		s.savedAt = int64(binary.BigEndian.Uint64(row))
	}
	s.observed, s.settledAt = max(s.observed, s.savedAt), max(s.settledAt, s.savedAt)
	s.learned = true
}

// horizon is the first cell that has not expired.
func (s *Set) horizon(observed int64) int64 {
	if observed < math.MinInt64+s.retention {
		return math.MinInt64
	}
	return observed - s.retention + 1
}

// gone says whether a cell has expired.
func (s *Set) gone(cell int64) bool {
	s.learn()
	return cell < s.horizon(s.observed)
}

// Seek takes the key that Find and Add are about.
func (s *Set) Seek(key []byte) {
	if len(key)+tail > state.MaxKey {
		s.Refuse("%w: a key of %d bytes, at most %d are possible", state.ErrTooLarge, len(key), state.MaxKey-tail)
	}
	s.key = append(s.key[:0], key...)
	s.hash = hashKey(s.key)
}

// Find is the entry of the key in a cell. The value is valid until the next call.
func (s *Set) Find(cell int64) (at int64, value []byte, ok bool) {
	s.check()
	if s.gone(cell) {
		return 0, nil, false
	}
	row, ok := s.look(hashIn(s.hash, cell), cell)
	if !ok {
		return 0, nil, false
	}
	return timeOf(row), row[timeSize:], true
}

func timeOf(row []byte) int64 { return int64(binary.BigEndian.Uint64(row)) }

// look finds a row, in memory or in the backend.
func (s *Set) look(hash uint64, cell int64) (row []byte, ok bool) {
	if x, has := s.live.get(hash, s.key, cell); has {
		return s.entry(s.live, x)
	}
	if x, has := s.frozen.get(hash, s.key, cell); has {
		return s.entry(s.frozen, x)
	}
	for i := len(s.clean) - 1; i >= 0; i-- {
		if x, has := s.clean[i].get(hash, s.key, cell); has {
			return s.entry(s.clean[i], x)
		}
	}
	p := s.part(cell)
	if p.lacks(hash) {
		return nil, false
	}
	if x, has := s.found.get(hash, s.key, cell); has {
		return s.entry(s.found, x)
	}
	return s.read(hash, cell, p)
}

func (s *Set) entry(r *rows, x ref) ([]byte, bool) {
	if x.flags&deleted != 0 {
		return nil, false
	}
	_, row := r.at(x)
	return row, true
}

// read asks the backend for a row.
func (s *Set) read(hash uint64, cell int64, p *part) ([]byte, bool) {
	name := appendName(s.scratch[:0], s.key, cell)
	row, ok, err := s.backend.GetSegment(s.of(p.number), name, name)
	s.scratch = row[:0]
	switch {
	case err != nil:
		s.Fail("read key %x: %w", name, err)
	case !ok:
		s.catchUp(p)
		return nil, false
	}
	row = row[len(name):]
	if n := len(row); n < timeSize || n > timeSize+MaxValue {
		s.Fail("read key %x: a row of %d bytes, %d to %d are possible", name, n, timeSize, timeSize+MaxValue)
	}
	if s.found.held() >= mostFound {
		s.found = &rows{}
	}
	s.found.put(hash, s.key, cell, row, 0)
	if len(s.found.list)&255 == 0 {
		s.account()
	}
	return row, true
}

func appendName(dst, key []byte, cell int64) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, key...), uint64(cell))
	return append(dst, 0, 0, 0, 0)
}

// Add makes an entry of the key in a cell, of which Find has just said that there is none. One that has expired is not kept.
func (s *Set) Add(cell, at int64, value []byte) {
	s.check()
	switch {
	case cell < 0:
		s.Refuse("windows do not start before 1970: a time of %d ms", cell)
	case len(value) > MaxValue:
		s.Refuse("%w: a value of %d bytes, at most %d are possible", state.ErrTooLarge, len(value), MaxValue)
	case s.gone(cell):
		return
	}
	s.part(cell)
	row := append(binary.BigEndian.AppendUint64(s.scratch[:0], uint64(at)), value...)
	s.scratch = row[:0]
	s.live.put(hashIn(s.hash, cell), s.key, cell, row, known)
	s.dirty += int64(len(s.key)+tail+len(row)) + rowCost
	s.observed = max(s.observed, cell)
	if len(s.live.list)&255 == 0 {
		s.account()
	}
}

func (s *Set) of(number int64) state.Segment {
	return state.Segment{Slot: s.env.Slot, Number: number}
}

// Observed is the largest cell that was added.
func (s *Set) Observed() int64 {
	s.check()
	s.learn()
	return s.observed
}

// Expire is part of state.Live: entries go with their segments.
func (s *Set) Expire(int64, int) bool { return false }

// Stats are as of the last write.
func (s *Set) Stats() state.Stats {
	stored, bytes := s.env.Backend.Count(s.env.Slot)
	waiting := s.committed + s.frozen.live()
	pending := s.waits + s.freezes + int64(waiting)*(rowCost+timeSize)
	return state.Stats{
		Entries: stored + int64(s.live.live()+s.frozen.live()),
		Bytes:   bytes - stored*timeSize + s.waits + s.freezes,
		Dirty:   s.dirty,
		Pending: pending,
		Held:    pending,
		Memory:  s.memory() + s.filters,
		Expired: s.expired,
	}
}

// memory is what the budget is told.
func (s *Set) memory() int64 {
	n := s.live.held() + s.frozen.held() + s.found.held()
	for _, c := range s.clean {
		n += c.held()
	}
	return n + int64(cap(s.sorting))*sortSize + int64(s.listed)*listSize
}

func (s *Set) account() { s.share.Hold(s.env.Budget, s.memory()) }

// Close gives the memory back. The store may not be used any more.
func (s *Set) Close() {
	for _, p := range s.parts {
		s.unfilter(p)
	}
	s.share.Hold(s.env.Budget, 0)
	s.broken = &state.Broken{Store: s.name, Err: errors.New("the store is closed")}
}
