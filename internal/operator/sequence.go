package operator

import (
	"fmt"
	"math"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// Sequence finds records of one key that follow each other as a pattern says. The rules are in package topology, at Pattern. name is that of the store,
// which SequenceStore declared, and of the node's clock.
func Sequence[K comparable, V, R any](t *engine.Task, n *engine.Node, name string, p *Sought[V], key serde.Serde[K], value serde.Serde[V], f func(K, Match[V]) R, next engine.Receive[K, R]) (engine.Receive[K, V], error) {
	rows, ok := t.StoreNamed(name).(store.KeyValue[sequenceRow[K], sequenceState])
	if !ok {
		return nil, fmt.Errorf("store %q is not that of a sequence", name)
	}
	s := &sequence[K, V, R]{task: t, node: n, Sought: p, rows: rows, clock: t.Clock(name), in: newIntake[K, V](t, n), late: t.Counter(n, string(processor.Late)), overflow: t.Counter(n, string(processor.Overflow)),
		f: f, next: next, last: len(p.Steps) - 1}
	s.agenda = newAgenda(rows, sequenceRows[K]{key}, 512)
	s.serde, s.width = value, len(p.Steps)
	s.null, _ = value.(serde.Nullable[V])
	s.broken = func(err error) { t.Abort(fmt.Errorf("store %q: key %v: %w", name, s.key, err)) }
	s.step = guarded(t, n, s.offer)
	s.conclude = guarded(t, n, func() { s.results = append(s.results, s.f(s.key, s.match(s.concluded))) })
	s.strict = make([]bool, len(p.Steps))
	for i, step := range p.Steps {
		s.strict[i] = step.Strict && step.Repeats
		for j := i + 1; j <= s.last; j++ {
			s.strict[i] = s.strict[i] || p.Steps[j].Strict
			if !p.Steps[j].Optional {
				break
			}
		}
	}
	t.Pace(engine.Pace{Node: n, Clock: s.clock, Due: func() int64 { return span.Add(s.agenda.first(), 1) }, Run: s.settle})
	return s.receive, nil
}

// sequence is the Sequence of one task.
type sequence[K comparable, V, R any] struct {
	*Sought[V]
	partials[V] // those of key
	task        *engine.Task
	node        *engine.Node
	rows        store.KeyValue[sequenceRow[K], sequenceState]
	clock       *int64
	in          *intake[V]
	late        *engine.Counter
	overflow    *engine.Counter
	f           func(K, Match[V]) R
	next        engine.Receive[K, R]
	step        func(*engine.Rec) bool // offer, guarded
	conclude    func(*engine.Rec) bool // makes the result of the partial match concluded, guarded
	last        int                    // the last step
	strict      []bool                 // by step: it matters whether another record came since

	agenda *agenda[K]

	key       K
	value     V
	at        int64
	found     bool // the store has the key
	concluded int
	givenUp   int64 // the first time of a partial match given up for another; -1 if there is none
	results   []R
	buf       []byte
}

func (s *sequence[K, V, R]) receive(r *engine.Rec, k K, v V) {
	if s.in.refuses(r, v) {
		return
	}
	if s.deadline(r.Time) < *s.clock {
		s.task.Drop(s.late, r)
		return
	}
	if r.Time > *s.clock {
		*s.clock = r.Time
		s.settle(r)
	}
	s.key, s.value, s.at, s.givenUp = k, v, r.Time, -1
	ok := s.step(r)
	var none V
	s.value = none
	if !ok {
		s.drop()
		return
	}
	if s.givenUp >= 0 {
		was := *r
		*r = engine.Rec{Time: s.givenUp, Input: -1}
		s.task.Drop(s.overflow, r)
		*r = was
	}
	s.send(r, k)
}

// drop forgets results that are not sent.
func (s *sequence[K, V, R]) drop() {
	clear(s.results)
	s.results = s.results[:0]
}

// send hands on what was found.
func (s *sequence[K, V, R]) send(r *engine.Rec, k K) {
	for _, x := range s.results {
		s.next(r, k, x)
	}
	s.drop()
}

// deadline is the last time that a match which began at a time may take in.
func (s *sequence[K, V, R]) deadline(first int64) int64 {
	if first > math.MaxInt64-s.Within {
		return math.MaxInt64
	}
	return first + s.Within
}

// load reads the partial matches of s.key.
func (s *sequence[K, V, R]) load() {
	var b sequenceState
	if b, s.found = s.rows.Get(sequenceRow[K]{key: s.key}); !s.found {
		s.reset()
		return
	}
	if err := s.decode(b); err != nil {
		s.broken(err)
	}
}

// offer shows the record to the partial matches of its key, oldest first, and then lets it begin one.
func (s *sequence[K, V, R]) offer() {
	s.load()
	changed, ended, place := false, false, int32(-1)
	take := func(i, step int) {
		if place < 0 {
			place = s.add(s.value)
			s.partials.next++
		}
		p := &s.parts[i]
		if step != p.step {
			p.step, p.count = step, 0
		}
		p.count = min(p.count+1, s.Steps[step].Times)
		p.limit, p.gap, p.end, p.last = len(s.Steps)+1, false, s.partials.next-1, s.at
		s.refs[i*s.width+step] = place
		changed = true
		if step < s.last || p.count < s.Steps[step].Times || s.Not.Is != nil {
			return
		}
		p.dead = true
		s.results = append(s.results, s.f(s.key, s.match(i)))
		if ended = !s.Overlap; ended {
			for j := range s.parts {
				s.parts[j].dead = true
			}
		}
	}
	for i := 0; i < len(s.parts) && !ended; i++ {
		if step := s.fitting(i); step >= 0 {
			take(i, step)
		} else if s.missed(i) {
			changed = true
		}
	}
	if first := &s.Steps[0]; !ended && s.fits(&first.Test, -1) {
		s.room()
		s.parts = append(s.parts, partial{begin: s.partials.next, first: s.at})
		for range s.width {
			s.refs = append(s.refs, -1)
		}
		if place >= 0 {
			s.parts[len(s.parts)-1].begin = s.partials.next - 1
		}
		take(len(s.parts)-1, 0)
	}
	if changed {
		s.store(s.at, false)
	}
}

// fitting is the step at which a partial match takes the record; -1 if there is none.
func (s *sequence[K, V, R]) fitting(i int) int {
	p := s.parts[i]
	now := &s.Steps[p.step]
	full := p.count >= now.Times
	if full {
		for j := p.step + 1; j <= s.last && j < p.limit; j++ {
			if step := &s.Steps[j]; !(step.Strict && p.gap) && s.fits(&step.Test, i) {
				return j
			}
			if !s.Steps[j].Optional {
				break
			}
		}
	}
	if !(now.Strict && p.gap) && (!full || now.Repeats) && s.fits(&now.Test, i) {
		return p.step
	}
	return -1
}

// missed is called for a record that a partial match does not take. It says whether the match is another now.
func (s *sequence[K, V, R]) missed(i int) (changed bool) {
	p := &s.parts[i]
	if p.count < s.Steps[p.step].Times {
		if s.Steps[p.step].Strict {
			p.dead = true
		}
		return p.dead
	}
	if s.strict[p.step] && !p.gap {
		p.gap, changed = true, true
	}
	open := false
	for j := p.step + 1; j <= s.last+1 && j < p.limit; j++ {
		not := &s.Not
		if j <= s.last {
			not = &s.Steps[j].Not
		}
		if not.Is != nil && s.fits(not, i) {
			p.limit, changed = j, true
			break
		}
		if j > s.last {
			open = true
			break
		}
		open = open || !s.Steps[j].Strict
		if !s.Steps[j].Optional {
			break
		}
	}
	if !open {
		p.dead = true
	}
	return changed || p.dead
}

// fits says whether the record passes a test beside what a partial match has; part -1 is one that has nothing.
func (s *sequence[K, V, R]) fits(t *Test[V], part int) bool {
	if !t.Is(s.value) {
		return false
	}
	if len(t.Where) == 0 {
		return true
	}
	var sofar Match[V]
	if part >= 0 {
		p := &s.parts[part]
		sofar = Match[V]{steps: s.Steps, live: &s.partials, part: part, first: p.first, last: p.last}
	}
	for _, fits := range t.Where {
		if !fits(sofar, s.value) {
			return false
		}
	}
	return true
}

// match is a partial match as one that is complete, which stays as it is.
func (s *sequence[K, V, R]) match(part int) Match[V] {
	p := &s.parts[part]
	m := Match[V]{steps: s.Steps, values: make([]V, s.width), taken: make([]bool, s.width), first: p.first, last: p.last}
	for i := range s.width {
		if s.ref(part, i) >= 0 {
			m.values[i], m.taken[i] = s.partials.at(part, i), true
		}
	}
	return m
}

// room gives the oldest partial match up if there are as many as there may be.
func (s *sequence[K, V, R]) room() {
	alive, oldest := 0, -1
	for i := range s.parts {
		if !s.parts[i].dead {
			if alive++; oldest < 0 {
				oldest = i
			}
		}
	}
	if alive >= s.MaxPartial {
		s.parts[oldest].dead = true
		s.givenUp = s.parts[oldest].first
	}
}

// store writes what has become of s.key. With anew its dueRow is gone.
func (s *sequence[K, V, R]) store(at int64, anew bool) {
	due, alive := int64(math.MaxInt64), false
	for i := range s.parts {
		if p := &s.parts[i]; !p.dead {
			due, alive = min(due, s.deadline(p.first)), true
		}
	}
	was := s.listed
	if !alive {
		if s.found {
			s.rows.Delete(sequenceRow[K]{key: s.key})
			if !anew {
				s.rows.Delete(sequenceRow[K]{dueRow, was, s.key})
			}
		}
		return
	}
	// A dueRow may be too early: it is looked at when its time comes, and moved then.
	list := !s.found || anew || due < was
	if list {
		s.listed = due
	}
	b, err := s.encode(s.buf[:0])
	if err != nil {
		s.task.Throw(err)
	}
	s.buf = b
	when := time.UnixMilli(at)
	if list {
		row := sequenceRow[K]{dueRow, due, s.key}
		s.rows.PutAt(row, nil, when)
		if err := s.agenda.insert(row); err != nil {
			s.task.Throw(err)
		}
	}
	// The dueRow is written first, and the old one goes last: if the other row is refused, a dueRow too many is left, which does no harm.
	s.rows.PutAt(sequenceRow[K]{key: s.key}, b, when)
	if list && s.found && !anew {
		s.rows.Delete(sequenceRow[K]{dueRow, was, s.key})
	}
}

// settle ends the partial matches whose time is over, in order of time, then of encoded key, then of their beginning.
func (s *sequence[K, V, R]) settle(r *engine.Rec) {
	for {
		row, ok := s.agenda.next(*s.clock)
		if !ok {
			return
		}
		s.settleKey(r, row)
	}
}

// settleKey ends the partial matches of a key whose dueRow has come.
func (s *sequence[K, V, R]) settleKey(r *engine.Rec, row sequenceRow[K]) {
	was := *r
	*r = engine.Rec{Time: row.due, Input: -1}
	defer func() { *r = was }()
	s.task.At(s.node)
	s.key = row.key
	if s.load(); !s.found || s.listed != row.due {
		if _, ok := s.rows.Get(row); ok {
			s.rows.Delete(row)
		}
		return
	}
	s.rows.Delete(row)
	upTo := *s.clock - 1
	if s.Not.Is != nil {
		upTo = row.due // matches of other keys may come before the later ones of this one
	}
	for i := range s.parts {
		p := &s.parts[i]
		if p.dead || s.deadline(p.first) > upTo {
			continue
		}
		p.dead = true
		if s.Not.Is == nil || p.step < s.last || p.count < s.Steps[s.last].Times {
			continue
		}
		s.concluded = i
		s.conclude(r)
		for j := range s.parts {
			if !s.Overlap && s.parts[j].begin <= p.end {
				s.parts[j].dead = true
			}
		}
	}
	s.store(row.due, true)
	s.send(r, row.key)
}
