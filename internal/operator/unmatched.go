package operator

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/kolkstreams/kolk/internal/state"
)

// Unmatched is the store that both sides of a left or outer join share: the records that have found no partner yet and are sent without one when their time is over. It
// implements state.Live. Names and values are those of Kafka Streams:
//
//	name   time (8) | side (1): 1 left, 0 right | key
//	value  1 | count (4) | for each record: length (4) | side (1) | value
//
// All rows are in memory, as each of them is sent or deleted soon; the backend and the changelog have them too.
type Unmatched struct {
	name string
	env  state.Env
	open bool // what the backend has is in memory

	rows map[string]*loneRow
	// sides are the rows there are, by side, in order of time, then of key: 0 right, 1 left.
	sides [2][]*loneRow
	spare []*loneRow
	bump  []byte // memory for names and values; what was cut off is never changed
	held  int64  // bytes of such memory
	used  int64  // of them, those of rows
	most  int    // rows there were since compact

	touched []*loneRow // by the open transaction
	fresh   []*loneRow // changed since the last Flush, in order
	pending []*loneRow // changed by committed transactions since the last Freeze
	frozen  []*loneRow

	live, bytes  int64
	dirty, waits int64
	share        state.Share
	broken       *state.Broken
	nb           []byte
}

var _ state.Live = (*Unmatched)(nil)

// loneRow is the records of one time, side and key. Its slices are never changed, so that a commit and a checkpoint can hold on to them.
type loneRow struct {
	name   string
	at     int64
	value  []byte // nil: there is none
	base   []byte // the same as of the last commit, while the row is touched
	saved  []byte // what the frozen layer has
	pos    int    // in its side; -1 if it is not there
	time   int64  // of the record that changed it last
	stored bool   // the backend has it

	touched, fresh, pending, frozen bool
	logged                          bool // the open transaction has given a value of it to Flush
}

func (r *loneRow) side() int { return int(r.name[8]) }

func (r *loneRow) key() string { return r.name[9:] }

func (r *loneRow) size() int64 { return int64(len(r.name) + len(r.value)) }

func openUnmatched(d *state.Decl, env state.Env) *Unmatched {
	return &Unmatched{name: d.Name, env: env, rows: make(map[string]*loneRow)}
}

func (s *Unmatched) check() {
	if s.broken != nil {
		panic(*s.broken)
	}
}

func (s *Unmatched) fail(format string, args ...any) {
	s.broken = &state.Broken{Store: s.name, Err: fmt.Errorf(format, args...)}
	panic(*s.broken)
}

// ready brings what the backend has into memory, before anything else is done with the store.
func (s *Unmatched) ready() {
	s.check()
	if s.open {
		return
	}
	s.open = true
	err := s.env.Backend.Scan(s.env.Slot, nil, nil, false, func(name, value []byte) bool {
		if err := checkLone(name, value); err != nil {
			s.fail("key %x: %w", name, err)
		}
		r := s.begin(name)
		r.stored = true
		s.set(r, s.keep(value))
		return true
	})
	if err != nil {
		s.fail("read the records without a partner: %w", err)
	}
	s.account()
}

var errLone = errors.New("it is no row of a join's records without a partner")

// checkLone says what is wrong with a row.
func checkLone(name, value []byte) error {
	if len(name) < 9 || name[8] > 1 || name[0]&0x80 != 0 {
		return errLone
	}
	n := 0
	for _, err := range loneValues(value) {
		if err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		return errLone
	}
	return nil
}

// loneValues takes a list of values apart.
func loneValues(list []byte) func(func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) {
		if len(list) < 5 || list[0] != 1 {
			yield(nil, errLone)
			return
		}
		count, rest := binary.BigEndian.Uint32(list[1:]), list[5:]
		for range count {
			if len(rest) < 5 {
				yield(nil, errLone)
				return
			}
			n := binary.BigEndian.Uint32(rest)
			if n < 1 || uint64(n) > uint64(len(rest)-4) {
				yield(nil, errLone)
				return
			}
			if !yield(rest[5:4+n], nil) {
				return
			}
			rest = rest[4+n:]
		}
		if len(rest) > 0 {
			yield(nil, errLone)
		}
	}
}

// begin makes a row without a value.
func (s *Unmatched) begin(name []byte) *loneRow {
	var r *loneRow
	if k := len(s.spare); k > 0 {
		r = s.spare[k-1]
		s.spare = s.spare[:k-1]
	} else {
		r = new(loneRow)
	}
	*r = loneRow{name: s.keepName(name), at: int64(binary.BigEndian.Uint64(name)), pos: -1}
	s.rows[r.name] = r
	s.used += int64(len(r.name))
	return r
}

// set changes the value of a row; nil takes it away.
func (s *Unmatched) set(r *loneRow, value []byte) {
	s.used += int64(len(value) - len(r.value))
	if r.value != nil {
		s.bytes -= r.size()
		s.live--
	}
	r.value = value
	if value != nil {
		s.bytes += r.size()
		s.live++
	}
	side := &s.sides[r.side()]
	switch {
	case value != nil && r.pos < 0:
		*side = append(*side, r)
		r.pos = len(*side) - 1
		up(*side, r.pos)
	case value == nil && r.pos >= 0:
		last := len(*side) - 1
		at := r.pos
		r.pos = -1
		moved := (*side)[last]
		(*side)[last] = nil
		*side = (*side)[:last]
		if at < last {
			(*side)[at], moved.pos = moved, at
			up(*side, at)
			down(*side, moved.pos)
		}
	}
}

// The rows of a side are a heap.

func loneLess(a, b *loneRow) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return a.key() < b.key()
}

func up(h []*loneRow, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !loneLess(h[i], h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		h[i].pos, h[parent].pos = i, parent
		i = parent
	}
}

func down(h []*loneRow, i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if loneLess(h[c], h[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		h[i].pos, h[least].pos = i, least
		i = least
	}
}

const (
	rightSide = 0
	leftSide  = 1
)

// loneName is the name of a row.
func (s *Unmatched) loneName(at int64, side byte, key []byte) []byte {
	s.nb = append(append(binary.BigEndian.AppendUint64(s.nb[:0], uint64(at)), side), key...)
	return s.nb
}

// add puts a record to those of its time, side and key. now is the time of the record being processed.
func (s *Unmatched) add(at int64, side byte, key, value []byte, now int64) {
	s.ready()
	name := s.loneName(at, side, key)
	r := s.rows[string(name)]
	var was []byte
	if r != nil {
		was = r.value
	}
	count, before := uint32(0), []byte(nil)
	if was != nil {
		count, before = binary.BigEndian.Uint32(was[1:]), was[5:]
	}
	n := 5 + len(before) + 5 + len(value)
	if len(name) > state.MaxKey || n > state.MaxValue {
		panic(state.Failed{Store: s.name, Err: fmt.Errorf("%w: %d records without a partner of one key and time, %d bytes", state.ErrTooLarge, count+1, n)})
	}
	if r == nil {
		r = s.begin(name)
	}
	list := append(s.room(n), 1)
	list = binary.BigEndian.AppendUint32(list, count+1)
	list = append(list, before...)
	list = binary.BigEndian.AppendUint32(list, uint32(len(value)+1))
	list = append(append(list, side), value...)
	s.change(r, list, now)
}

// take deletes the records of a time, side and key: they have found a partner.
func (s *Unmatched) take(at int64, side byte, key []byte, now int64) {
	s.ready()
	if r := s.rows[string(s.loneName(at, side, key))]; r != nil && r.value != nil {
		s.change(r, nil, now)
	}
}

func (s *Unmatched) change(r *loneRow, value []byte, now int64) {
	if !r.touched {
		r.touched, r.base = true, r.value
		s.touched = append(s.touched, r)
	}
	if !r.fresh {
		r.fresh = true
		s.fresh = append(s.fresh, r)
	}
	r.time = now
	s.set(r, value)
	s.dirty += r.size() + loneRowSize
	if len(s.fresh)&63 == 0 {
		s.account()
	}
}

// first is the row of a side that comes first; nil if there is none.
func (s *Unmatched) first(side int) *loneRow {
	s.ready()
	if len(s.sides[side]) == 0 {
		return nil
	}
	return s.sides[side][0]
}

// sorted is all rows in order of name.
func (s *Unmatched) sorted() []*loneRow {
	s.ready()
	all := append(slices.Clone(s.sides[rightSide]), s.sides[leftSide]...)
	slices.SortFunc(all, func(a, b *loneRow) int { return cmp.Compare(a.name, b.name) })
	return all
}

// Flush is part of state.Live. A row that came and went within the transaction is left out.
func (s *Unmatched) Flush(write func(key, value []byte, at int64) error) error {
	s.check()
	for i, r := range s.fresh {
		if r.value != nil || r.base != nil || r.logged {
			if err := write(unsafe.Slice(unsafe.StringData(r.name), len(r.name)), r.value, r.time); err != nil {
				s.fresh = s.fresh[i:]
				return err
			}
			r.logged = true
		}
		r.fresh = false
	}
	clear(s.fresh)
	s.fresh = s.fresh[:0]
	return nil
}

// Committed is part of state.Live.
func (s *Unmatched) Committed() {
	s.check()
	for i, r := range s.touched {
		s.touched[i] = nil
		changed := r.value != nil || r.base != nil
		r.touched, r.logged, r.base = false, false, nil
		if changed {
			s.pend(r)
		}
		s.forget(r)
	}
	s.touched, s.dirty = s.touched[:0], 0
	s.compact()
	s.account()
}

func (s *Unmatched) pend(r *loneRow) {
	if !r.pending {
		r.pending = true
		s.pending = append(s.pending, r)
		s.waits += int64(len(r.name)) + loneRowSize
	}
}

// forget ends a row of which nothing knows any more.
func (s *Unmatched) forget(r *loneRow) {
	if r.value == nil && !r.touched && !r.pending && !r.frozen {
		delete(s.rows, r.name)
		s.used -= int64(len(r.name))
		*r = loneRow{}
		s.spare = append(s.spare, r)
	}
}

// Rollback is part of state.Live.
func (s *Unmatched) Rollback() {
	if s.broken != nil {
		return
	}
	for i, r := range s.touched {
		s.touched[i] = nil
		s.set(r, r.base)
		r.touched, r.fresh, r.logged, r.base = false, false, false, nil
		s.forget(r)
	}
	clear(s.fresh)
	s.touched, s.fresh, s.dirty = s.touched[:0], s.fresh[:0], 0
	s.account()
}

// settled is a row's value as of the last commit.
func (r *loneRow) settled() []byte {
	if r.touched {
		return r.base
	}
	return r.value
}

// Freeze is part of state.Live.
func (s *Unmatched) Freeze() []state.Batch {
	s.check()
	if len(s.pending) == 0 || len(s.frozen) > 0 {
		return nil
	}
	var rows []state.Row
	for _, r := range s.pending {
		r.pending = false
		s.waits -= int64(len(r.name)) + loneRowSize
		r.saved = r.settled()
		if r.saved == nil && !r.stored {
			s.forget(r) // it came and went between two checkpoints
			continue
		}
		r.frozen = true
		s.frozen = append(s.frozen, r)
	}
	clear(s.pending)
	s.pending = s.pending[:0]
	if len(s.frozen) == 0 {
		return nil
	}
	slices.SortFunc(s.frozen, func(a, b *loneRow) int { return cmp.Compare(a.name, b.name) })
	for _, r := range s.frozen {
		rows = append(rows, state.Row{Key: unsafe.Slice(unsafe.StringData(r.name), len(r.name)), Value: r.saved, Known: !r.stored, Was: -1})
	}
	return []state.Batch{{Slot: s.env.Slot, Rows: rows}}
}

// Applied is part of state.Live.
func (s *Unmatched) Applied() {
	s.check()
	for _, r := range s.frozen {
		r.stored, r.frozen, r.saved = r.saved != nil, false, nil
		s.forget(r)
	}
	clear(s.frozen)
	s.frozen = s.frozen[:0]
	s.compact()
	s.account()
}

// Restore is part of state.Live.
func (s *Unmatched) Restore(name, value []byte, _ int64) error {
	s.ready()
	r := s.rows[string(name)]
	if value == nil && r == nil {
		return nil // all that the backend has is in memory
	}
	if value != nil {
		if err := checkLone(name, value); err != nil {
			return fmt.Errorf("store %q: key %x: %w", s.name, name, err)
		}
		if r == nil {
			r = s.begin(name)
		}
		s.set(r, s.keep(value))
	} else {
		s.set(r, nil)
	}
	s.pend(r)
	s.account()
	return nil
}

// Load is part of state.Live.
func (s *Unmatched) Load(to state.Loader, name, value []byte, _ int64) error {
	s.check()
	if value != nil {
		if err := checkLone(name, value); err != nil {
			return fmt.Errorf("store %q: key %x: %w", s.name, name, err)
		}
	}
	return to.Put(s.env.Slot, name, value)
}

// Expire is part of state.Live: rows leave when they are sent.
func (s *Unmatched) Expire(int64, int) bool { return false }

// Stats is part of state.Live.
func (s *Unmatched) Stats() state.Stats {
	if !s.open {
		rows, size := s.env.Backend.Count(s.env.Slot)
		return state.Stats{Entries: rows, Bytes: size}
	}
	return state.Stats{Entries: s.live, Bytes: s.bytes, Dirty: s.dirty, Pending: s.waits, Held: s.waits, Memory: s.memory()}
}

// Close is part of state.Live.
func (s *Unmatched) Close() {
	s.share.Hold(s.env.Budget, 0)
	s.broken = &state.Broken{Store: s.name, Err: errors.New("the store is closed")}
}
