package seen

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/kolkstreams/kolk/internal/state"
)

// Flush is part of state.Live: the rows in order of arrival.
func (s *Set) Flush(write func(key, value []byte, at int64) error) error {
	s.check()
	for ; s.flushed < len(s.live.list); s.flushed++ {
		name, row := s.live.at(s.live.list[s.flushed])
		if err := write(name, row[timeSize:], timeOf(row)); err != nil {
			return err
		}
	}
	return nil
}

// Committed is part of state.Live.
func (s *Set) Committed() {
	s.check()
	if n := len(s.live.list) - s.flushed; n > 0 {
		s.Fail("commit: %d entries were added after the last flush", n)
	}
	for _, x := range s.live.list[s.committed:] {
		s.waits += size(x)
	}
	s.committed, s.dirty = s.flushed, 0
	s.settledAt = s.observed
	s.trim()
}

// size is what a row counts in bytes.
func size(x ref) int64 {
	if x.flags&deleted != 0 {
		return 0
	}
	return int64(x.name) + int64(x.value) - timeSize
}

// Rollback is part of state.Live.
func (s *Set) Rollback() {
	s.check()
	s.live.cut(s.committed)
	s.flushed, s.dirty = s.committed, 0
	s.observed = s.settledAt
	s.trim()
}

// sortKey stands for a row while those of a checkpoint are sorted. Most keys differ in their first sixteen bytes.
type sortKey struct {
	head, next uint64
	at         uint32 // place in the list
}

// Freeze is part of state.Live. The rows go with FreezeSegments.
func (s *Set) Freeze() []state.Batch {
	s.check()
	if s.frozen != nil {
		return nil
	}
	s.learn()
	first := s.horizon(s.settledAt)
	s.purge(first)
	s.batches, s.drop, s.added = nil, s.drop[:0], 0
	for _, n := range s.backend.Segments(s.env.Slot) {
		if n < s.floor(first) {
			s.drop = append(s.drop, s.of(n))
		}
	}
	s.counted, _ = s.env.Backend.Count(s.env.Slot)
	if s.committed > 0 {
		s.thaw()
		s.batch(first)
	}
	s.freezeAt = s.settledAt
	s.account()
	if s.freezeAt <= s.savedAt {
		return nil
	}
	return []state.Batch{{Slot: s.env.Slot + 1, Rows: []state.Row{{Key: observedKey, Value: binary.BigEndian.AppendUint64(nil, uint64(s.freezeAt))}}}}
}

// thaw makes the committed rows the frozen layer. Those of the open transaction begin the next.
func (s *Set) thaw() {
	s.frozen, s.live = s.live, &rows{}
	for _, x := range s.frozen.list[s.committed:] {
		name, row := s.frozen.at(x)
		key, cell := split(name)
		s.live.put(hashIn(hashKey(key), cell), key, cell, row, x.flags&^dead)
	}
	s.frozen.cut(s.committed)
	s.flushed -= s.committed
	s.committed = 0
	s.freezes, s.waits = s.waits, 0
}

// batch lists the frozen rows by segment, in order. What expires before it reached the backend never does.
func (s *Set) batch(first int64) {
	places := make(map[int64][]sortKey)
	s.sorting = slices.Grow(s.sorting[:0], len(s.frozen.list))
	var last int64
	mixed := false
	for i, x := range s.frozen.list {
		if x.flags&dead != 0 {
			continue
		}
		name, _ := s.frozen.at(x)
		_, cell := split(name)
		if cell < first {
			s.lost++
			continue
		}
		n := s.floor(cell)
		if mixed = mixed || len(s.sorting) > 0 && n != last; mixed {
			places[n] = append(places[n], keyOf(name, i))
			continue
		}
		s.sorting, last = append(s.sorting, keyOf(name, i)), n // mostly all are in one
	}
	places[last] = append(s.sorting, places[last]...)
	for _, n := range slices.Sorted(maps.Keys(places)) {
		if rows := s.sorted(places[n]); len(rows) > 0 {
			s.batches = append(s.batches, state.SegmentBatch{Segment: s.of(n), Rows: rows})
		}
	}
	if len(s.batches) == 0 { // all have expired
		s.frozen, s.freezes = nil, 0
		s.expired, s.lost = s.expired+s.lost, 0
	}
}

func keyOf(name []byte, place int) sortKey {
	var head [16]byte
	copy(head[:], name)
	return sortKey{binary.BigEndian.Uint64(head[:]), binary.BigEndian.Uint64(head[8:]), uint32(place)}
}

func (s *Set) sorted(places []sortKey) []state.Row {
	f := s.frozen
	slices.SortFunc(places, func(a, b sortKey) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		if a.next != b.next {
			return cmp.Compare(a.next, b.next)
		}
		an, _ := f.at(f.list[a.at])
		bn, _ := f.at(f.list[b.at])
		return bytes.Compare(an, bn)
	})
	rows := make([]state.Row, 0, len(places))
	for _, k := range places {
		x := f.list[k.at]
		name, row := f.at(x)
		r := state.Row{Key: name, Value: row, Known: x.flags&known != 0, Was: -1}
		if x.flags&deleted != 0 {
			r.Value = nil
		} else {
			s.added++
		}
		rows = append(rows, r)
	}
	s.listed += len(rows)
	return rows
}

// FreezeSegments is part of state.Segmenting.
func (s *Set) FreezeSegments() ([]state.SegmentBatch, []state.Segment) {
	s.check()
	return s.batches, s.drop
}

// Applied is part of state.Live.
func (s *Set) Applied() {
	s.check()
	now, _ := s.env.Backend.Count(s.env.Slot)
	if len(s.drop) > 0 {
		s.expired += max(0, s.counted+s.added-now)
	}
	s.expired, s.lost = s.expired+s.lost, 0
	s.savedAt = max(s.savedAt, s.freezeAt)
	s.batches, s.drop, s.freezes, s.listed = nil, s.drop[:0], 0, 0
	if cap(s.sorting) > 1<<14 {
		s.sorting = nil
	}
	if s.frozen != nil {
		s.clean, s.frozen = append(s.clean, s.frozen), nil
	}
	s.purge(s.horizon(s.settledAt))
	if s.freed {
		s.refill()
		s.freed = false
	}
	s.trim()
	s.join()
	s.account()
}

// parse takes a name from outside apart.
func parse(name []byte) (key []byte, cell int64, err error) {
	if len(name) < tail {
		return nil, 0, fmt.Errorf("a key of %d bytes, at least %d are needed for its place in time", len(name), tail)
	}
	if len(name) > state.MaxKey {
		return nil, 0, fmt.Errorf("a key of %d bytes, at most %d are possible", len(name), state.MaxKey)
	}
	key, cell = split(name)
	if cell < 0 {
		return nil, 0, fmt.Errorf("key %x lies before 1970", name)
	}
	if n := len(name); name[n-4]|name[n-3]|name[n-2]|name[n-1] != 0 {
		return nil, 0, fmt.Errorf("key %x has a sequence number, as in a store that keeps duplicates", name)
	}
	return key, cell, nil
}

// row makes a row of a changelog record.
func (s *Set) row(name, value []byte, at int64) ([]byte, error) {
	if len(value) > MaxValue {
		return nil, fmt.Errorf("key %x has a value of %d bytes, at most %d are possible", name, len(value), MaxValue)
	}
	row := append(binary.BigEndian.AppendUint64(s.scratch[:0], uint64(at)), value...)
	s.scratch = row[:0]
	return row, nil
}

// Restore is part of state.Live. There are no uncommitted rows then.
func (s *Set) Restore(name, value []byte, at int64) error {
	s.check()
	key, cell, err := parse(name)
	if err != nil {
		return err
	}
	if n := len(s.live.list) - s.committed; n > 0 {
		s.Fail("restore: %d entries are not committed", n)
	}
	if s.gone(cell) {
		return nil
	}
	row, err := s.row(name, value, at)
	if err != nil {
		return err
	}
	f := flags(0)
	if value == nil {
		f, row = deleted, nil
	}
	s.observed = max(s.observed, cell)
	s.settledAt = max(s.settledAt, cell)
	s.part(cell)
	hash := hashIn(hashKey(key), cell)
	if was, ok := s.live.get(hash, key, cell); ok {
		s.waits -= size(was)
	}
	s.live.put(hash, key, cell, row, f)
	s.committed = len(s.live.list)
	s.flushed = s.committed
	s.waits += size(s.live.list[s.committed-1])
	if s.committed&255 == 0 {
		s.trim()
	}
	return nil
}

// Load is part of state.Live.
func (s *Set) Load(to state.Loader, name, value []byte, at int64) error {
	s.check()
	loader, ok := to.(state.SegmentLoader)
	if !ok {
		return fmt.Errorf("the bulk loader %T has no segments", to)
	}
	key, cell, err := parse(name)
	if err != nil || s.gone(cell) {
		return err
	}
	row, err := s.row(name, value, at)
	if err != nil {
		return err
	}
	if cell > s.observed {
		if first := s.horizon(cell); s.floor(first) > s.floor(s.horizon(s.observed)) {
			s.purge(first)
		}
		s.observed, s.settledAt, s.savedAt = cell, cell, cell
		if err := to.Put(s.env.Slot+1, observedKey, binary.BigEndian.AppendUint64(nil, uint64(cell))); err != nil {
			return err
		}
	}
	s.leave(cell, hashIn(hashKey(key), cell))
	if value == nil {
		row = nil
	}
	return loader.PutSegment(s.of(s.floor(cell)), name, row)
}
