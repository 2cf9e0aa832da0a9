package operator

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kolkstreams/kolk/internal/state"
)

// JoinRows is the store of one side of a join of two streams: every record, until its partners can no longer come. It implements state.Segmenting. Rows are only ever
// added, and go with time, so the layers are lists of rows.
//
// A row's name is that of Kafka Streams: key | time (8) | number (4). The number tells records of one key and time apart. It goes up by one with each record, and on after a
// restart: it is that of the changelog's last record.
//
// Rows in memory lie in a slab, those of one key in a list in order of time and number. Their bytes are in chunks that belong to one segment of time, so that what has
// expired goes as a whole, from memory as from disk. A segment that does not fit into memory, or was not read yet, is asked for in the backend.
type JoinRows struct {
	name    string
	env     state.Env
	backend state.Segmented

	retention int64 // how long after its time a row may be asked for, ms
	length    int64 // of a segment
	observed  int64 // the largest time that was put; -1 before the first
	settledAt int64 // the same as of the last commit
	savedAt   int64 // the same as the backend has it
	number    uint32
	settledNo uint32
	savedNo   uint32
	reserved  uint32 // a bulk load has said that numbers up to here may be taken
	numbered  bool   // number is that of the changelog's end
	learned   bool

	slab     [][]joinRow
	top      uint32 // rows in the slab that were ever used, the first left out
	freeRows []uint32
	keys     map[string]uint32
	lists    []joinList
	freeList []uint32
	parts    map[int64]*joinPart
	recent   *joinPart
	partial  []int64 // segments of the backend of which memory has not all rows
	large    []int64 // those of them that did not fit into memory since the last checkpoint
	chunks   [][]byte
	freeCh   []uint32

	fresh   []int64  // rows put since the last Flush, in order; or, as ^i, what is only logged
	staged  []uint32 // given to Flush
	pending []uint32 // committed
	frozen  []uint32 // in a checkpoint
	loose   []looseRow
	logged  int // of loose, those that are fresh
	batches []state.SegmentBatch
	drop    []state.Segment
	freezAt int64
	freezNo uint32

	hits  []joinHit
	found []byte // bytes of hits that are not in memory
	nb    []byte
	names int64 // bytes of the names of lists
	held  int64 // bytes of chunks
	live  int64 // rows in memory
	dirty int64 // bytes of rows that no commit has taken
	waits int64 // bytes of pending and frozen rows

	expired int64
	share   state.Share
	broken  *state.Broken
}

var (
	_ state.Segmenting = (*JoinRows)(nil)
	_ state.Ageing     = (*JoinRows)(nil)
)

// joinRow is a row. It has no pointers, so that the collector need not look at it.
type joinRow struct {
	at         int64
	number     uint32
	prev, next uint32 // in the list of its key; 0 ends it
	list       uint32
	chunk, off uint32
	klen, vlen uint32
	layer      joinLayer
	restored   bool // it came from the changelog: the backend may have a row of its name
}

type joinLayer uint8

const (
	unused joinLayer = iota
	clean            // the backend has it
	freshRow
	stagedRow
	pendingRow
	frozenRow
)

// joinList is the rows of one key.
type joinList struct {
	name        string
	first, last uint32
}

// joinPart is a segment in memory.
type joinPart struct {
	number int64
	ids    []uint32
	chunks []uint32
	used   int // of the last chunk
}

// looseRow is a record that the changelog gets and the store does not keep: a null value, or one that is too old.
type looseRow struct {
	name, value []byte
	at          int64
}

// joinHit is a row that was found. Its value stays valid until the next find.
type joinHit struct {
	at     int64
	number uint32
	value  []byte
}

const (
	joinTail     = 12 // time and number
	joinSlab     = 1024
	joinChunk    = 64 << 10
	shortestPart = 60_000
	lastNumber   = math.MaxInt32
	joinRowSize  = 52
	joinListSize = 96
)

var joinMeta = []byte("observed")

func openJoinRows(d *state.Decl, env state.Env) *JoinRows {
	s := &JoinRows{name: d.Name, env: env, retention: d.Retention, length: max(d.Retention/2, shortestPart), observed: -1, settledAt: -1, savedAt: -1,
		keys: make(map[string]uint32), parts: make(map[int64]*joinPart)}
	s.backend, _ = env.Backend.(state.Segmented)
	return s
}

func (s *JoinRows) check() {
	if s.broken != nil {
		panic(*s.broken)
	}
}

func (s *JoinRows) fail(format string, args ...any) {
	s.broken = &state.Broken{Store: s.name, Err: fmt.Errorf(format, args...)}
	panic(*s.broken)
}

// learn reads what the backend has, at the first use.
func (s *JoinRows) learn() {
	if s.learned {
		return
	}
	if s.backend == nil {
		s.fail("the backend %T has no segments", s.env.Backend)
	}
	row, ok, err := s.backend.Get(s.env.Slot+1, joinMeta, nil)
	switch {
	case err != nil:
		s.fail("read the observed time: %w", err)
	case ok && len(row) != 12:
		s.fail("read the observed time: %d bytes", len(row))
	case ok:
		s.savedAt, s.savedNo = int64(binary.BigEndian.Uint64(row)), binary.BigEndian.Uint32(row[8:])
		s.observed, s.settledAt = max(s.observed, s.savedAt), max(s.settledAt, s.savedAt)
		if !s.numbered {
			s.number, s.settledNo = s.savedNo, s.savedNo
		}
	}
	s.partial = slices.Clone(s.backend.Segments(s.env.Slot))
	s.learned = true
}

// horizon is the first time that has not expired: one that is the retention behind has just not.
func (s *JoinRows) horizon(observed int64) int64 {
	if observed < math.MinInt64+s.retention {
		return math.MinInt64
	}
	return observed - s.retention
}

func (s *JoinRows) segment(at int64) int64 { return floorDiv(at, s.length) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func (s *JoinRows) row(id uint32) *joinRow { return &s.slab[id/joinSlab][id%joinSlab] }

// bytes is a row's name and value.
func (s *JoinRows) bytes(r *joinRow) (name, value []byte) {
	c := s.chunks[r.chunk]
	end := r.off + r.klen
	return c[r.off:end:end], c[end : end+r.vlen : end+r.vlen]
}

// part is the segment in memory that a time lies in.
func (s *JoinRows) part(at int64) *joinPart {
	n := s.segment(at)
	if p := s.recent; p != nil && p.number == n {
		return p
	}
	p := s.parts[n]
	if p == nil {
		p = &joinPart{number: n}
		s.parts[n] = p
	}
	s.recent = p
	return p
}

// alloc gives n bytes of a segment.
func (s *JoinRows) alloc(p *joinPart, n int) (chunk, off uint32) {
	if k := len(p.chunks); k > 0 {
		id := p.chunks[k-1]
		if p.used+n <= len(s.chunks[id]) {
			off = uint32(p.used)
			p.used += n
			return id, off
		}
	}
	c := make([]byte, max(n, joinChunk))
	s.held += int64(len(c))
	if k := len(s.freeCh); k > 0 {
		chunk = s.freeCh[k-1]
		s.freeCh = s.freeCh[:k-1]
		s.chunks[chunk] = c
	} else {
		chunk = uint32(len(s.chunks))
		s.chunks = append(s.chunks, c)
	}
	p.chunks = append(p.chunks, chunk)
	p.used = n
	return chunk, 0
}

// insert makes a row. Rows of one key are in order of time and number.
func (s *JoinRows) insert(key, value []byte, at int64, number uint32, layer joinLayer) (uint32, *joinRow) {
	var id uint32
	if k := len(s.freeRows); k > 0 {
		id = s.freeRows[k-1]
		s.freeRows = s.freeRows[:k-1]
	} else {
		s.top++
		if id = s.top; int(id/joinSlab) == len(s.slab) {
			s.slab = append(s.slab, make([]joinRow, joinSlab))
		}
	}
	p := s.part(at)
	klen := len(key) + joinTail
	chunk, off := s.alloc(p, klen+len(value))
	b := s.chunks[chunk][off:]
	n := copy(b, key)
	binary.BigEndian.PutUint64(b[n:], uint64(at))
	binary.BigEndian.PutUint32(b[n+8:], number)
	copy(b[klen:], value)
	p.ids = append(p.ids, id)

	list, ok := s.keys[string(key)]
	if !ok {
		list = s.begin(string(key))
	}
	l := &s.lists[list]
	after := l.last
	for after != 0 {
		if x := s.row(after); x.at < at || x.at == at && x.number < number {
			break
		}
		after = s.row(after).prev
	}
	r := s.row(id)
	*r = joinRow{at: at, number: number, prev: after, list: list, chunk: chunk, off: off, klen: uint32(klen), vlen: uint32(len(value)), layer: layer}
	if after == 0 {
		r.next, l.first = l.first, id
	} else {
		x := s.row(after)
		r.next, x.next = x.next, id
	}
	if r.next == 0 {
		l.last = id
	} else {
		s.row(r.next).prev = id
	}
	if s.live++; s.live&63 == 0 {
		s.account()
	}
	return id, r
}

func (s *JoinRows) begin(name string) (list uint32) {
	if k := len(s.freeList); k > 0 {
		list = s.freeList[k-1]
		s.freeList = s.freeList[:k-1]
	} else {
		list = uint32(len(s.lists))
		s.lists = append(s.lists, joinList{})
	}
	s.lists[list] = joinList{name: name}
	s.keys[name] = list
	s.names += int64(len(name))
	return list
}

// remove takes a row out of the list of its key. Its bytes go with its segment.
func (s *JoinRows) remove(id uint32) {
	r := s.row(id)
	l := &s.lists[r.list]
	if r.prev == 0 {
		l.first = r.next
	} else {
		s.row(r.prev).next = r.next
	}
	if r.next == 0 {
		l.last = r.prev
	} else {
		s.row(r.next).prev = r.prev
	}
	if l.first == 0 {
		s.names -= int64(len(l.name))
		delete(s.keys, l.name)
		*l = joinList{}
		s.freeList = append(s.freeList, r.list)
	}
	*r = joinRow{}
	s.freeRows = append(s.freeRows, id)
	s.live--
}

// withdraw is remove for a row whose segment stays.
func (s *JoinRows) withdraw(id uint32) {
	p := s.part(s.row(id).at)
	for i := len(p.ids) - 1; i >= 0; i-- {
		if p.ids[i] == id {
			p.ids = slices.Delete(p.ids, i, i+1)
			break
		}
	}
	s.remove(id)
}

// release forgets a segment in memory.
func (s *JoinRows) release(p *joinPart) {
	for _, id := range p.ids {
		s.remove(id)
	}
	for _, c := range p.chunks {
		s.held -= int64(len(s.chunks[c]))
		s.chunks[c] = nil
		s.freeCh = append(s.freeCh, c)
	}
	delete(s.parts, p.number)
	s.recent = nil
}

// advance is the number of the next record.
func (s *JoinRows) advance() uint32 {
	s.number = (s.number + 1) & lastNumber
	return s.number
}

// put keeps a record for its partners. kept is false if it is too old for that: the changelog gets it all the same, as in Kafka Streams. gone says that
// its whole segment has expired, which is when Kafka Streams counts it as dropped.
func (s *JoinRows) put(key, value []byte, at int64) (kept, gone bool) {
	s.check()
	s.learn()
	number := s.advance()
	if first := s.horizon(s.observed); at < first {
		s.log(key, value, at, number)
		return false, s.segment(at) < s.segment(first)
	}
	s.observed = max(s.observed, at)
	id, r := s.insert(key, value, at, number, freshRow)
	s.fresh = append(s.fresh, int64(id))
	s.dirty += int64(r.klen+r.vlen) + joinRowSize
	return true, false
}

// skip is for a record without a value: the changelog gets a null under a number of its own.
func (s *JoinRows) skip(key []byte, at int64) {
	s.check()
	s.learn()
	s.log(key, nil, at, s.advance())
}

func (s *JoinRows) log(key, value []byte, at int64, number uint32) {
	x := looseRow{at: at, name: make([]byte, 0, len(key)+joinTail)}
	x.name = append(x.name, key...)
	x.name = binary.BigEndian.AppendUint64(x.name, uint64(at))
	x.name = binary.BigEndian.AppendUint32(x.name, number)
	if value != nil {
		x.value = append([]byte{}, value...)
	}
	s.fresh = append(s.fresh, ^int64(len(s.loose)))
	s.loose, s.logged = append(s.loose, x), s.logged+1
	s.dirty += int64(len(x.name)+len(x.value)) + joinRowSize
}

// find is the records of a key with times from lo to hi, in order of time, then of arrival.
func (s *JoinRows) find(key []byte, lo, hi int64) []joinHit {
	s.check()
	s.learn()
	lo = max(lo, s.horizon(s.observed), 0)
	if lo > hi {
		return nil
	}
	if len(s.partial) > 0 {
		return s.search(key, lo, hi)
	}
	return s.remembered(key, lo, hi)
}

// remembered is find for what is in memory.
func (s *JoinRows) remembered(key []byte, lo, hi int64) []joinHit {
	hits := s.hits[:0]
	if list, ok := s.keys[string(key)]; ok {
		// Partners are mostly young, so it begins at the end.
		id, first := s.lists[list].last, uint32(0)
		for id != 0 {
			r := s.row(id)
			if r.at < lo {
				break
			}
			if r.at <= hi {
				first = id
			}
			id = r.prev
		}
		for id = first; id != 0; {
			r := s.row(id)
			if r.at > hi {
				break
			}
			_, value := s.bytes(r)
			hits = append(hits, joinHit{r.at, r.number, value})
			id = r.next
		}
	}
	s.hits = hits
	return hits
}

// search is find where some segments are in the backend alone.
func (s *JoinRows) search(key []byte, lo, hi int64) []joinHit {
	var ask []int64
	for _, n := range slices.Clone(s.partial) {
		if n >= s.segment(lo) && n <= s.segment(hi) && !s.bring(n) {
			ask = append(ask, n)
		}
	}
	hits := s.remembered(key, lo, hi)
	if len(ask) == 0 {
		return hits
	}
	from := binary.BigEndian.AppendUint64(append(s.nb[:0], key...), uint64(lo))
	to := binary.BigEndian.AppendUint64(bytes.Clone(key), uint64(hi))
	to = append(to, 0xff, 0xff, 0xff, 0xff, 0)
	s.nb, s.found = from, s.found[:0]
	known := len(hits)
	for _, n := range ask {
		err := s.backend.ScanSegment(s.of(n), from, to, false, func(name, value []byte) bool {
			if len(name) != len(key)+joinTail || !bytes.HasPrefix(name, key) { // a longer key may lie in between
				return true
			}
			at, number := joinPlace(name)
			if !slices.ContainsFunc(hits[:known], func(h joinHit) bool { return h.at == at && h.number == number }) {
				hits = append(hits, joinHit{at, number, bytes.Clone(value)})
			}
			return true
		})
		if err != nil {
			s.fail("read segment %d: %w", n, err)
		}
	}
	slices.SortFunc(hits, func(a, b joinHit) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.number, b.number)) })
	s.hits = hits
	return hits
}

func joinPlace(name []byte) (at int64, number uint32) {
	n := len(name) - joinTail
	return int64(binary.BigEndian.Uint64(name[n:])), binary.BigEndian.Uint32(name[n+8:])
}

func (s *JoinRows) of(n int64) state.Segment { return state.Segment{Slot: s.env.Slot, Number: n} }

// bring reads a segment into memory, if there is room.
func (s *JoinRows) bring(n int64) bool {
	if slices.Contains(s.large, n) {
		return false
	}
	var buf []byte
	var ends [][2]int
	room := s.env.Budget.Limit() == 0
	fits := true
	err := s.backend.ScanSegment(s.of(n), nil, nil, false, func(name, value []byte) bool {
		buf = append(append(buf, name...), value...)
		ends = append(ends, [2]int{len(buf) - len(value), len(buf)})
		fits = room || s.env.Budget.Over()+int64(len(buf))+int64(len(ends))*(joinRowSize+joinListSize) <= 0
		return fits
	})
	if err != nil {
		s.fail("read segment %d: %w", n, err)
	}
	if !fits {
		s.large = append(s.large, n)
		return false
	}
	start := 0
	for _, e := range ends {
		name, value := buf[start:e[0]], buf[e[0]:e[1]]
		start = e[1]
		if len(name) < joinTail {
			s.fail("read key %x: it has no time", name)
		}
		at, number := joinPlace(name)
		if key := name[:len(name)-joinTail]; s.at(key, at, number) == 0 {
			s.insert(key, value, at, number, clean)
		}
	}
	s.partial = slices.DeleteFunc(s.partial, func(x int64) bool { return x == n })
	s.account()
	return true
}

// at is the row of a name in memory; 0 if there is none.
func (s *JoinRows) at(key []byte, at int64, number uint32) uint32 {
	list, ok := s.keys[string(key)]
	if !ok {
		return 0
	}
	for id := s.lists[list].last; id != 0; id = s.row(id).prev {
		if r := s.row(id); r.at == at && r.number == number {
			return id
		} else if r.at < at {
			break
		}
	}
	return 0
}

// byName orders rows for a checkpoint.
func (s *JoinRows) byName(a, b uint32) int {
	x, y := s.row(a), s.row(b)
	if x.list == y.list {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.number, y.number))
	}
	p, q := s.lists[x.list].name, s.lists[y.list].name
	if !strings.HasPrefix(p, q) && !strings.HasPrefix(q, p) {
		return strings.Compare(p, q)
	}
	xn, _ := s.bytes(x)
	yn, _ := s.bytes(y)
	return bytes.Compare(xn, yn)
}
