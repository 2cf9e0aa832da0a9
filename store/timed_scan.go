package store

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/tidwall/btree"

	"github.com/kolkstreams/kolk/internal/bloom"
)

// query is which entries to visit.
type query[K comparable] struct {
	key       K
	one       bool  // of that key only, in order of place; else of all keys, in order of place, then of encoded key
	lo, hi    int64 // place.at, both included
	until     int64 // place.from at most
	backward  bool  // only with one
	committed bool  // as of the last commit; visit may not write then
}

// item is an entry that a query has found: in memory, or a row of the backend.
type item struct {
	name    string // in memory
	id, gen uint32
	stored  bool
	row     span // of stored ones, in the buffer
}

// order makes the tree that a query needs.
func (s *timed[K, V]) order(one bool) *btree.BTreeG[treeItem] {
	tree := &s.byTime
	less := func(a, b treeItem) bool { return timeLess(a.name, b.name, s.tail) }
	if one {
		tree = &s.byKey
		less = func(a, b treeItem) bool { return a.name < b.name }
	}
	if *tree != nil {
		return *tree
	}
	*tree = btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
	for id := range s.slab.next {
		if e := s.slab.at(id); e.has(used) {
			(*tree).Set(treeItem{e.name, id})
		}
	}
	s.entrySz += 2 * int64(unsafe.Sizeof(treeItem{}))
	return *tree
}

func timeLess(a, b string, tail int) bool {
	p, q := placeOf(a, tail), placeOf(b, tail)
	if p.at != q.at {
		return p.at < q.at
	}
	if p.from != q.from {
		return p.from < q.from
	}
	return a[:len(a)-tail] < b[:len(b)-tail]
}

// each visits the entries of a query, as they are when it is called, until visit returns false. visit may write.
func (s *timed[K, V]) each(q query[K], visit func(p placed[K], value V, at int64) bool) {
	s.check()
	s.learnTime()
	observed := s.observed
	if q.committed {
		observed = s.settledAt
	}
	q.lo = max(q.lo, s.horizon(observed), 0)
	if q.lo > q.hi {
		return
	}
	w := walk[K, V]{s: s, q: q, loop: &loop{}, epoch: s.epoch, visit: visit, items: s.items[:0]}
	s.items = nil
	s.loops = append(s.loops, w.loop)
	defer w.end()
	if q.one {
		w.key()
	} else {
		w.all()
	}
}

// walk is a query that is running.
type walk[K comparable, V any] struct {
	s     *timed[K, V]
	q     query[K]
	loop  *loop
	epoch uint64
	visit func(p placed[K], value V, at int64) bool
	items []item
	buf   []byte
}

func (w *walk[K, V]) end() {
	w.s.memory.end(w.loop)
	clear(w.items)
	if cap(w.items) <= lastPage {
		w.s.items = w.items[:0]
	}
}

// key visits the entries of one key.
func (w *walk[K, V]) key() {
	s, q := w.s, &w.q
	name := s.encodeName(placed[K]{key: q.key})
	prefix := string(name[:len(name)-s.tail])
	first := string(appendPlace([]byte(prefix), place{at: q.lo}, s.tail))
	last := string(appendPlace([]byte(prefix), place{at: q.hi, from: math.MaxInt64}, s.tail))
	// Names of longer keys may lie in between.
	mine := func(name string) bool {
		return len(name) == len(first) && name[:len(prefix)] == prefix && placeOf(name, s.tail).from <= q.until
	}
	s.order(true).Ascend(treeItem{name: first}, func(t treeItem) bool {
		if t.name > last {
			return false
		}
		if mine(t.name) {
			w.add(t)
		}
		return true
	})
	found := len(w.items)
	for _, n := range s.numbers(q.lo, q.hi) {
		if p := s.parts[n]; p == nil || !p.whole {
			w.stored(n, []byte(first), append([]byte(last), 0), func(name []byte) bool { return mine(string(name)) })
		}
	}
	if len(w.items) > found {
		w.sort(func(a, b []byte) int { return bytes.Compare(a, b) })
	}
	if q.backward {
		slices.Reverse(w.items)
	}
	w.show()
}

// all visits the entries of all keys, segment by segment.
func (w *walk[K, V]) all() {
	s, q := w.s, &w.q
	tree := s.order(false)
	for _, n := range s.numbers(q.lo, q.hi) {
		p := s.parts[n]
		if !q.committed && (p == nil || !p.whole) {
			s.bring(n)
			p = s.parts[n]
		}
		w.items, w.buf = w.items[:0], w.buf[:0]
		lo, hi := s.within(n, q.lo, q.hi)
		tree.Ascend(treeItem{name: string(appendPlace(nil, place{at: lo}, s.tail))}, func(t treeItem) bool {
			at := placeOf(t.name, s.tail)
			if at.at > hi {
				return false
			}
			if at.from <= q.until {
				w.add(t)
			}
			return true
		})
		if p == nil || !p.whole {
			found := len(w.items)
			w.stored(n, nil, nil, func(name []byte) bool {
				at := placeOf(name, s.tail)
				return at.at >= lo && at.at <= hi && at.from <= q.until
			})
			if len(w.items) > found {
				w.sort(func(a, b []byte) int {
					p, q := placeOf(a, s.tail), placeOf(b, s.tail)
					return cmp.Or(cmp.Compare(p.at, q.at), cmp.Compare(p.from, q.from), bytes.Compare(a[:len(a)-s.tail], b[:len(b)-s.tail]))
				})
			}
		}
		if !w.show() {
			return
		}
	}
}

// first is the first place in time, from a time on, at which there is an entry. It is what a query would visit first, without collecting the rest.
func (s *timed[K, V]) first(from int64) (at int64, ok bool) {
	s.check()
	s.learnTime()
	from = max(from, s.horizon(s.observed), 0)
	tree := s.order(false)
	for _, n := range s.numbers(from, math.MaxInt64) {
		if !s.segment(max(from, n*s.length)).whole {
			s.bring(n)
		}
		lo, hi := s.within(n, from, math.MaxInt64)
		if !s.parts[n].whole {
			s.each(query[K]{lo: lo, hi: hi, until: math.MaxInt64}, func(p placed[K], _ V, _ int64) bool {
				at, ok = p.at, true
				return false
			})
		} else {
			tree.Ascend(treeItem{name: string(appendPlace(nil, place{at: lo}, s.tail))}, func(t treeItem) bool {
				if at = placeOf(t.name, s.tail).at; at > hi {
					return false
				}
				ok = s.slab.at(t.id).has(present)
				return !ok
			})
		}
		if ok {
			return at, true
		}
	}
	return 0, false
}

// within is the part of a range of time that a segment has.
func (s *timed[K, V]) within(n, lo, hi int64) (int64, int64) {
	if end := n*s.length + s.length - 1; end > 0 {
		hi = min(hi, end)
	}
	return max(lo, n*s.length), hi
}

// numbers are the segments of a range of time, in memory or in the backend.
func (s *timed[K, V]) numbers(lo, hi int64) (all []int64) {
	first, last := floor(lo, s.length), floor(hi, s.length)
	for n, p := range s.parts {
		if n >= first && n <= last && p.live > 0 {
			all = append(all, n)
		}
	}
	for _, n := range s.backend.Segments(s.env.Slot) {
		if n >= first && n <= last {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (w *walk[K, V]) add(t treeItem) {
	w.items = append(w.items, item{name: t.name, id: t.id, gen: w.s.slab.at(t.id).gen})
}

// stored adds the rows of a segment that are not in memory.
func (w *walk[K, V]) stored(n int64, from, to []byte, wants func(name []byte) bool) {
	s := w.s
	err := s.backend.ScanSegment(s.of(n), from, to, false, func(name, value []byte) bool {
		if !wants(name) {
			return true
		}
		if _, ok, err := s.locate(name); err != nil {
			s.fail("read key %x: %w", name, err)
		} else if ok {
			return true
		}
		start := len(w.buf)
		w.buf = append(append(w.buf, name...), value...)
		w.items = append(w.items, item{stored: true, row: span{start, start + len(name), len(w.buf)}})
		return true
	})
	if err != nil {
		s.fail("read segment %d: %w", n, err)
	}
}

func (w *walk[K, V]) sort(compare func(a, b []byte) int) {
	name := func(it item) []byte {
		if it.stored {
			return w.buf[it.row.start:it.row.key]
		}
		return unsafe.Slice(unsafe.StringData(it.name), len(it.name))
	}
	slices.SortFunc(w.items, func(a, b item) int { return compare(name(a), name(b)) })
}

// bring reads a segment into memory, as long as there is room, so that it need not be read again.
func (s *timed[K, V]) bring(n int64) {
	p := s.segment(n * s.length)
	losses := p.losses
	complete := true
	var buf []byte
	var rows []span
	err := s.backend.ScanSegment(s.of(n), nil, nil, false, func(name, value []byte) bool {
		start := len(buf)
		buf = append(append(buf, name...), value...)
		rows = append(rows, span{start, start + len(name), len(buf)})
		complete = s.env.Budget.Over()+int64(len(buf))+int64(len(rows))*s.entrySz <= 0 || s.env.Budget.Limit() == 0
		return complete
	})
	if err != nil {
		s.fail("read segment %d: %w", n, err)
	}
	if !complete {
		return
	}
	for _, r := range rows {
		name, row := buf[r.start:r.key], buf[r.key:r.end]
		if len(row) < timeSize {
			s.fail("read key %x: a row of %d bytes has no time", name, len(row))
		}
		id, ok, err := s.locate(name)
		if err != nil {
			s.fail("read key %x: %w", name, err)
		}
		if !ok {
			s.enter(name, row, true, true)
		} else if e := s.slab.at(id); !e.has(known) {
			s.teach(e, row, true)
		}
	}
	if p.losses == losses {
		p.whole = true
		s.unfilter(p)
		p.left = bloom.New(s.env.Budget)
	}
}

// show visits what was found.
func (w *walk[K, V]) show() bool {
	s := w.s
	for i := range w.items {
		p, value, at, ok := w.read(&w.items[i])
		if !ok {
			continue
		}
		if !w.visit(p, value, at) {
			return false
		}
		s.check()
		if s.epoch != w.epoch {
			s.fail("a range went on after a commit: a loop over a store must end in the call that began it")
		}
	}
	return true
}

// read is what the query sees of an item.
func (w *walk[K, V]) read(it *item) (p placed[K], value V, at int64, ok bool) {
	s := w.s
	if it.stored {
		name, row := w.buf[it.row.start:it.row.key], w.buf[it.row.key:it.row.end]
		return s.readRow(name, row)
	}
	e := s.slab.at(it.id)
	same := e.gen == it.gen
	if v, ok := w.loop.saved[it.name]; ok {
		switch {
		case v.backend:
			return s.readStored(it.name)
		case !v.present:
			return p, value, 0, false
		}
		return s.decodeName(it.name), s.decode(it.name, v.value), v.at, true
	}
	if !same { // it was evicted
		return s.readStored(it.name)
	}
	if w.q.committed {
		l := s.settled(e)
		switch {
		case l == nil:
			return s.readStored(it.name)
		case l.del:
			return p, value, 0, false
		}
		return s.decodeName(it.name), s.decode(it.name, l.blob[timeSize:]), timeOf(l.blob), true
	}
	if !e.has(present) {
		return p, value, 0, false
	}
	if s.byValue != nil {
		p = s.keys[it.id>>chunkBits][it.id&chunkMask]
	} else {
		p = s.decodeName(it.name)
	}
	return p, s.value(it.id), e.at, true
}

// readStored reads an entry as the backend has it.
func (s *timed[K, V]) readStored(name string) (p placed[K], value V, at int64, ok bool) {
	s.kb = append(s.kb[:0], name...)
	row, ok := s.under(s.kb)
	if !ok {
		return p, value, 0, false
	}
	return s.readRow(s.kb, row)
}

func (s *timed[K, V]) readRow(name, row []byte) (p placed[K], value V, at int64, ok bool) {
	if len(row) < timeSize {
		s.fail("read key %x: a row of %d bytes has no time", name, len(row))
	}
	text := string(name)
	return s.decodeName(text), s.decode(text, row[timeSize:]), timeOf(row), true
}

func (s *timed[K, V]) decodeName(name string) placed[K] {
	key, err := s.keySerde.Decode([]byte(name[:len(name)-s.tail]))
	if err != nil {
		s.fail("decode key %x: %w", name, err)
	}
	return placed[K]{key, placeOf(name, s.tail)}
}

// committedAt reads an entry as of the last commit, and leaves everything as it is.
func (s *timed[K, V]) committedAt(p placed[K]) (value V, at int64, ok bool) {
	s.check()
	s.learnTime()
	if p.at < s.horizon(s.settledAt) || p.at < 0 || p.from < 0 {
		return value, 0, false
	}
	id, inMemory := s.seek(p)
	name := string(s.encodeName(p))
	if inMemory {
		if l := s.settled(s.slab.at(id)); l != nil {
			if l.del {
				return value, 0, false
			}
			return s.decode(name, l.blob[timeSize:]), timeOf(l.blob), true
		}
	}
	_, value, at, ok = s.readStored(name)
	return value, at, ok
}

// between keeps the entries whose encoded key is in a range, both ends included.
func (s *timed[K, V]) between(first, last K) func(K) bool {
	encode := func(key K) string {
		b := s.encodeName(placed[K]{key: key})
		return string(b[:len(b)-s.tail])
	}
	from, to := encode(first), encode(last)
	return func(key K) bool {
		k := encode(key)
		return strings.Compare(from, k) <= 0 && strings.Compare(k, to) <= 0
	}
}
