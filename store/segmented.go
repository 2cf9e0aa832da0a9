package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/kolkstreams/kolk/internal/bloom"
	"github.com/kolkstreams/kolk/internal/state"
)

// segmented is how the entries of a store lie in time: which have expired, and in which segment of the backend the others are.
//
// A segment has half of the retention, as in Kafka Streams, so that at most a third of what is on disk has expired, and a minute at least. Segments
// expire as a whole and are dropped by the next checkpoint. What expires before it reached the backend never does.
type segmented struct {
	m         *memory
	backend   state.Segmented
	tail      int
	retention int64
	length    int64 // of a segment
	observed  int64 // the largest time that was written; -1 before the first
	settledAt int64 // the same as of the last commit
	savedAt   int64 // the same as the backend has it
	learned   bool  // the backend was asked for it
	parts     map[int64]*segment
	recent    *segment // the one that was last asked for
	filters   int64    // bytes of all filters
	rows      []state.SegmentBatch
	drop      []state.Segment
	freezing  int64 // observed time in the frozen layer
	counted   int64 // rows of the backend when the frozen layer was made
	lost      int64 // entries that expired in memory
}

// segment is what is known of a segment.
type segment struct {
	number int64
	whole  bool          // memory has all of its rows
	left   *bloom.Filter // of rows that left memory; nil if not all of them are known
	losses int           // rows that left memory
	ids    []uint32
	live   int
}

const shortest = 60_000

// observedKey is the key in the store's second slot under which the observed time is.
var observedKey = []byte("observed")

func (g *segmented) init(m *memory, retention int64, tail int) {
	g.m, g.tail, g.retention = m, tail, retention
	g.length = max(retention/2, shortest)
	g.observed, g.settledAt, g.savedAt = -1, -1, -1
	g.parts = make(map[int64]*segment)
	g.backend, _ = m.env.Backend.(state.Segmented)
}

// learnTime reads the observed time at the first use, as opening does no I/O.
func (g *segmented) learnTime() {
	if g.learned {
		return
	}
	if g.backend == nil {
		g.m.fail("the backend %T has no segments", g.m.env.Backend)
	}
	row, ok, err := g.backend.Get(g.m.env.Slot+1, observedKey, nil)
	switch {
	case err != nil:
		g.m.fail("read the observed time: %w", err)
	case ok && len(row) != 8:
		g.m.fail("read the observed time: %d bytes", len(row))
	case ok:
		g.savedAt = int64(binary.BigEndian.Uint64(row))
	}
	g.observed, g.settledAt = max(g.observed, g.savedAt), max(g.settledAt, g.savedAt)
	g.learned = true
}

// horizon is the first time that has not expired.
func (g *segmented) horizon(observed int64) int64 {
	if observed < math.MinInt64+g.retention {
		return math.MinInt64
	}
	return observed - g.retention + 1
}

// before says whether a time has expired.
func (g *segmented) before(at int64) bool {
	if !g.learned {
		g.learnTime()
	}
	return at < g.horizon(g.observed)
}

func (g *segmented) observe(at int64) { g.observed = max(g.observed, at) }

func (g *segmented) of(number int64) state.Segment {
	return state.Segment{Slot: g.m.env.Slot, Number: number}
}

// segment is the one of a time.
func (g *segmented) segment(at int64) *segment {
	n := floor(at, g.length)
	if p := g.recent; p != nil && p.number == n {
		return p
	}
	p := g.parts[n]
	if p == nil {
		g.learnTime()
		// Nothing of it is in memory: if the backend has nothing either, nothing is all there is.
		_, stored := slices.BinarySearch(g.backend.Segments(g.m.env.Slot), n)
		p = &segment{number: n, whole: !stored}
		if p.whole {
			p.left = bloom.New(g.m.env.Budget)
		}
		g.parts[n] = p
	}
	g.recent = p
	return p
}

// lacks says that the backend is known not to have the row of a name that memory has not.
func (p *segment) lacks(name []byte) bool {
	return p.whole || p.left != nil && !p.left.Has(bloom.HashBytes(name))
}

// close gives the memory of filters back.
func (g *segmented) close() {
	for _, p := range g.parts {
		g.unfilter(p)
	}
}

// unfilter ends a segment's filter.
func (g *segmented) unfilter(p *segment) {
	if p.left != nil {
		g.filters -= p.left.Held()
		p.left.Close()
		p.left = nil
	}
}

func (p *segment) add(id uint32) {
	p.ids = append(p.ids, id)
	p.live++
}

func (g *segmented) lose(p *segment, e *entry) {
	p.live--
	if e.was < 0 {
		return
	}
	p.whole = false
	p.losses++
	g.leave(p, bloom.HashText(e.name))
}

// leave is told of a row that the backend has and memory has not.
func (g *segmented) leave(p *segment, hash uint64) {
	if p.left == nil || p.left.Has(hash) { // most of those that leave again
		return
	}
	before := p.left.Held()
	room := p.left.Add(hash)
	if g.filters += p.left.Held() - before; !room {
		g.unfilter(p)
	}
}

// tidy takes the numbers of entries that are gone out of the list.
func (g *segmented) tidy(p *segment) {
	if len(p.ids) < 2*p.live+64 {
		return
	}
	slices.Sort(p.ids)
	p.ids = slices.Compact(p.ids)
	p.ids = slices.DeleteFunc(p.ids, func(id uint32) bool { return !g.in(id, p) })
}

// in says whether the entry that has a number now is in a segment.
func (g *segmented) in(id uint32, p *segment) bool {
	e := g.m.slab.at(id)
	return e.has(used) && floor(placeOf(e.name, g.tail).at, g.length) == p.number
}

// get reads a row, unless it is known that there is none.
func (g *segmented) get(name, dst []byte) ([]byte, bool, error) {
	p := g.segment(placeOf(name, g.tail).at)
	if p.lacks(name) {
		return dst, false, nil
	}
	return g.backend.GetSegment(g.of(p.number), name, dst)
}

// under reads what the backend has of an entry, whatever is in memory, into scratch.
func (g *segmented) under(name []byte) ([]byte, bool) {
	n := floor(placeOf(name, g.tail).at, g.length)
	row, ok, err := g.backend.GetSegment(g.of(n), name, g.m.vb[:0])
	if err != nil {
		g.m.fail("read key %x: %w", name, err)
	}
	g.m.vb = row[:0]
	return row, ok
}

func (g *segmented) committed() { g.settledAt = g.observed }

func (g *segmented) rollback() { g.observed = g.settledAt }

// freeze takes expired entries out of the committed layer and out of memory, and says which segments to drop.
func (g *segmented) freezeParts() (batches []state.Batch) {
	g.learnTime()
	g.rows, g.drop = g.rows[:0], g.drop[:0]
	m := g.m
	first := g.horizon(g.settledAt)
	g.discard(first)
	g.purge(first)
	if len(m.layer.list) > 0 {
		index := make(map[int64]int)
		m.freeze(func(r state.Row) {
			n := floor(placeOf(r.Key, g.tail).at, g.length)
			i, ok := index[n]
			if !ok {
				i = len(g.rows)
				index[n] = i
				g.rows = append(g.rows, state.SegmentBatch{Segment: g.of(n)})
				if i == 0 { // mostly the one of nearly all
					g.rows[i].Rows = make([]state.Row, 0, len(m.frozen.list))
				}
			}
			g.rows[i].Rows = append(g.rows[i].Rows, r)
		})
	}
	g.freezing = g.settledAt
	if g.freezing > g.savedAt {
		batches = []state.Batch{{Slot: m.env.Slot + 1, Rows: []state.Row{{Key: observedKey, Value: binary.BigEndian.AppendUint64(nil, uint64(g.freezing))}}}}
	}
	g.counted, _ = m.env.Backend.Count(m.env.Slot)
	return batches
}

// discard takes the entries that expired before they reached the backend out of the committed layer.
func (g *segmented) discard(first int64) {
	m := g.m
	keep := m.layer.list[:0]
	for _, l := range m.layer.list {
		e := m.slab.at(l.id)
		if placeOf(e.name, g.tail).at >= first {
			keep = append(keep, l)
			continue
		}
		m.bytes += size(e, int64(e.was)) - l.size(e)
		e.committed = 0
		if e.dirty() {
			continue // the next checkpoint takes it
		}
		if e.has(present) && e.was < 0 {
			g.lost++
		}
		m.settle(e)
		m.free(l.id)
	}
	clear(m.layer.list[len(keep):])
	m.layer.list = keep
	if len(keep) == 0 {
		m.layer.arena.reset()
	}
}

// purge forgets the entries of segments that have expired as a whole. Those of which nothing is left in memory are dropped.
func (g *segmented) purge(first int64) {
	end := floor(first, g.length) // the first segment that has not expired
	for n, p := range g.parts {
		if n >= end {
			g.tidy(p)
			continue
		}
		g.unfilter(p)
		for _, id := range p.ids {
			if g.in(id, p) && !g.m.slab.at(id).pending() {
				g.m.free(id)
			}
		}
		g.tidy(p)
		if p.live == 0 {
			delete(g.parts, n)
			g.recent = nil
		}
	}
	for _, n := range g.backend.Segments(g.m.env.Slot) {
		if n >= end {
			break
		}
		if g.parts[n] == nil {
			g.drop = append(g.drop, g.of(n))
		}
	}
}

// applied is called after Applied of memory, which has changed its count of rows by delta.
func (g *segmented) applied(delta int64) {
	now, _ := g.m.env.Backend.Count(g.m.env.Slot)
	if len(g.drop) > 0 {
		g.m.expired += max(0, g.counted+delta-now)
	}
	g.m.expired, g.lost = g.m.expired+g.lost, 0
	g.savedAt = max(g.savedAt, g.freezing)
	clear(g.rows)
	g.rows, g.drop = g.rows[:0], g.drop[:0]
}

// load hands a row to the bulk loader.
func (g *segmented) load(to state.Loader, name, value []byte, at int64) error {
	s, ok := to.(state.SegmentLoader)
	if !ok {
		return fmt.Errorf("the bulk loader %T has no segments", to)
	}
	t := placeOf(name, g.tail).at
	if t < g.horizon(g.observed) {
		return nil
	}
	if t > g.observed {
		g.observed, g.settledAt, g.savedAt = t, t, t
		if err := to.Put(g.m.env.Slot+1, observedKey, binary.BigEndian.AppendUint64(nil, uint64(t))); err != nil {
			return err
		}
	}
	m := g.m
	p := g.segment(t)
	p.whole = false
	g.leave(p, bloom.HashBytes(name))
	if value == nil {
		return s.PutSegment(g.of(p.number), name, nil)
	}
	m.vb = row(m.vb[:0], value, at)
	return s.PutSegment(g.of(p.number), name, m.vb)
}
