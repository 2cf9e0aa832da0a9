package operator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kolkstreams/kolk/internal/state"
)

// Flush is part of state.Live: every record, in order.
func (s *JoinRows) Flush(write func(key, value []byte, at int64) error) error {
	s.check()
	for i, x := range s.fresh {
		if x < 0 {
			l := &s.loose[^x]
			if err := write(l.name, l.value, l.at); err != nil {
				s.fresh = s.fresh[i:]
				return err
			}
			s.logged--
			continue
		}
		r := s.row(uint32(x))
		name, value := s.bytes(r)
		if err := write(name, value, r.at); err != nil {
			s.fresh = s.fresh[i:]
			return err
		}
		r.layer = stagedRow
		s.staged = append(s.staged, uint32(x))
	}
	s.fresh = s.fresh[:0]
	return nil
}

// Committed is part of state.Live.
func (s *JoinRows) Committed() {
	s.check()
	for _, id := range s.staged {
		s.pend(id)
	}
	s.staged = s.staged[:0]
	s.settle()
	s.purge()
	s.account()
}

func (s *JoinRows) pend(id uint32) {
	r := s.row(id)
	r.layer = pendingRow
	s.waits += int64(r.klen+r.vlen) + joinRowSize
	s.pending = append(s.pending, id)
}

// settle makes what is the case now what an abort goes back to.
func (s *JoinRows) settle() {
	s.settledAt, s.settledNo = s.observed, s.number
	clear(s.loose)
	s.loose, s.logged, s.dirty = s.loose[:0], 0, 0
}

// Rollback is part of state.Live.
func (s *JoinRows) Rollback() {
	if s.broken != nil {
		return
	}
	for i := len(s.fresh) - 1; i >= 0; i-- {
		if x := s.fresh[i]; x >= 0 {
			s.withdraw(uint32(x))
		}
	}
	for i := len(s.staged) - 1; i >= 0; i-- {
		s.withdraw(s.staged[i])
	}
	s.fresh, s.staged = s.fresh[:0], s.staged[:0]
	s.observed, s.number = s.settledAt, s.settledNo
	s.settle()
	s.account()
}

// purge forgets segments that have expired as a whole. What expires before it reached the backend never does.
func (s *JoinRows) purge() {
	if len(s.frozen) > 0 || !s.learned {
		return // their bytes are being written
	}
	end := s.segment(s.horizon(s.settledAt))
	var over []*joinPart
	for n, p := range s.parts {
		if n < end {
			over = append(over, p)
		}
	}
	if len(over) == 0 {
		return
	}
	kept := s.pending[:0]
	for _, id := range s.pending {
		r := s.row(id)
		if s.segment(r.at) >= end {
			kept = append(kept, id)
			continue
		}
		s.waits -= int64(r.klen+r.vlen) + joinRowSize
	}
	s.pending = kept
	for _, p := range over {
		s.expired += int64(len(p.ids))
		s.release(p)
	}
	s.partial = slices.DeleteFunc(s.partial, func(n int64) bool { return n < end })
}

// Freeze is part of state.Live.
func (s *JoinRows) Freeze() []state.Batch {
	s.check()
	if len(s.frozen) > 0 {
		return nil
	}
	s.learn()
	s.purge()
	s.batches, s.drop = nil, s.drop[:0]
	end := s.segment(s.horizon(s.settledAt))
	for _, n := range s.backend.Segments(s.env.Slot) {
		if n < end {
			s.drop = append(s.drop, s.of(n))
		}
	}
	s.frozen, s.pending = s.pending, s.frozen[:0]
	groups := make(map[int64][]uint32)
	for _, id := range s.frozen {
		r := s.row(id)
		r.layer = frozenRow
		n := s.segment(r.at)
		groups[n] = append(groups[n], id)
	}
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		ids := groups[n]
		slices.SortFunc(ids, s.byName)
		b := state.SegmentBatch{Segment: s.of(n), Rows: make([]state.Row, len(ids))}
		for i, id := range ids {
			r := s.row(id)
			name, value := s.bytes(r)
			b.Rows[i] = state.Row{Key: name, Value: value, Known: !r.restored, Was: -1}
		}
		s.batches = append(s.batches, b)
	}
	s.freezAt, s.freezNo = s.settledAt, s.settledNo
	if s.freezAt == s.savedAt && s.freezNo == s.savedNo {
		return nil
	}
	return []state.Batch{{Slot: s.env.Slot + 1, Rows: []state.Row{{Key: joinMeta, Value: meta(s.freezAt, s.freezNo)}}}}
}

func meta(at int64, number uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(at)), number)
}

// FreezeSegments is part of state.Segmenting.
func (s *JoinRows) FreezeSegments() ([]state.SegmentBatch, []state.Segment) {
	s.check()
	return s.batches, s.drop
}

// Applied is part of state.Live.
func (s *JoinRows) Applied() {
	s.check()
	for _, id := range s.frozen {
		r := s.row(id)
		r.layer, r.restored = clean, false
		s.waits -= int64(r.klen+r.vlen) + joinRowSize
	}
	s.frozen, s.batches, s.drop, s.large = s.frozen[:0], nil, s.drop[:0], s.large[:0]
	s.savedAt, s.savedNo = s.freezAt, s.freezNo
	s.purge()
	s.account()
	s.evict()
}

// evict gives memory back, oldest segments first: the backend has their rows.
func (s *JoinRows) evict() {
	for _, n := range slices.Sorted(maps.Keys(s.parts)) {
		if s.env.Budget.Over() <= 0 {
			return
		}
		p := s.parts[n]
		if slices.ContainsFunc(p.ids, func(id uint32) bool { return s.row(id).layer != clean }) {
			continue
		}
		s.release(p)
		if i, has := slices.BinarySearch(s.partial, n); !has {
			s.partial = slices.Insert(s.partial, i, n)
		}
		s.account()
	}
}

func parseJoinName(name []byte) (key []byte, at int64, number uint32, err error) {
	if len(name) < joinTail {
		return nil, 0, 0, fmt.Errorf("a key of %d bytes, at least %d are needed for its time", len(name), joinTail)
	}
	at, number = joinPlace(name)
	if at < 0 {
		return nil, 0, 0, fmt.Errorf("key %x lies before 1970", name)
	}
	return name[:len(name)-joinTail], at, number, nil
}

// Restore is part of state.Live.
func (s *JoinRows) Restore(name, value []byte, _ int64) error {
	s.check()
	s.learn()
	key, at, number, err := parseJoinName(name)
	if err != nil {
		return err
	}
	s.number, s.settledNo, s.numbered = number, number, true
	if value == nil || at < s.horizon(s.observed) {
		return nil
	}
	s.observed = max(s.observed, at)
	s.settledAt = max(s.settledAt, at)
	if was := s.at(key, at, number); was != 0 { // Java began to count anew
		r := s.row(was)
		if r.layer == pendingRow {
			s.waits -= int64(r.klen+r.vlen) + joinRowSize
			s.pending = slices.DeleteFunc(s.pending, func(id uint32) bool { return id == was })
		}
		s.withdraw(was)
	}
	id, r := s.insert(key, value, at, number, clean)
	r.restored = true
	s.pend(id)
	s.purge()
	return nil
}

// Load is part of state.Live.
func (s *JoinRows) Load(to state.Loader, name, value []byte, _ int64) error {
	s.check()
	loader, ok := to.(state.SegmentLoader)
	if !ok {
		return fmt.Errorf("the bulk loader %T has no segments", to)
	}
	_, at, number, err := parseJoinName(name)
	if err != nil {
		return err
	}
	first := !s.numbered
	s.number, s.settledNo, s.numbered = number, number, true
	// What the backend is told of numbers is ahead of them, so that it need not be told of each.
	const ahead = 1 << 10
	tell := first || number > s.reserved || s.reserved-number > ahead
	if tell {
		s.reserved = min(number+ahead, lastNumber)
	}
	young := value != nil && at >= s.horizon(s.observed)
	if young && at > s.observed {
		s.observed, s.settledAt, s.savedAt, tell = at, at, at, true
	}
	if tell {
		s.savedNo = s.reserved
		if err := to.Put(s.env.Slot+1, joinMeta, meta(s.observed, s.reserved)); err != nil {
			return err
		}
	}
	if !young {
		return nil
	}
	return loader.PutSegment(s.of(s.segment(at)), name, value)
}

// Expire is part of state.Live: segments go by themselves.
func (s *JoinRows) Expire(int64, int) bool { return false }

// Stats is part of state.Live.
func (s *JoinRows) Stats() state.Stats {
	rows, size := s.env.Backend.Count(s.env.Slot)
	return state.Stats{Entries: rows + int64(len(s.fresh)-s.logged+len(s.staged)+len(s.pending)+len(s.frozen)), Bytes: size + s.waits,
		Dirty: s.dirty, Pending: s.waits, Held: s.waits, Memory: s.memory(), Expired: s.expired}
}

func (s *JoinRows) memory() int64 {
	return s.held + int64(len(s.slab))*joinSlab*joinRowSize + int64(len(s.lists))*joinListSize + s.names
}

// account tells the budget what the store holds.
func (s *JoinRows) account() { s.share.Hold(s.env.Budget, s.memory()) }

// Close is part of state.Live.
func (s *JoinRows) Close() {
	s.share.Hold(s.env.Budget, 0)
	s.broken = &state.Broken{Store: s.name, Err: errors.New("the store is closed")}
}

// Observed is part of state.Ageing.
func (s *JoinRows) Observed() int64 {
	s.check()
	s.learn()
	return s.observed
}
