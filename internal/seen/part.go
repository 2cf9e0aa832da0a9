package seen

import (
	"cmp"
	"slices"

	"github.com/kolkstreams/kolk/internal/bloom"
)

// floor is the segment that a cell lies in.
func (s *Set) floor(cell int64) int64 {
	q := cell / s.length
	if cell%s.length < 0 {
		q--
	}
	return q
}

// part is the segment of a cell.
func (s *Set) part(cell int64) *part {
	n := s.floor(cell)
	if p := s.recent; p != nil && p.number == n {
		return p
	}
	p := s.parts[n]
	if p == nil {
		s.learn()
		// Nothing of it is in memory: if the backend has nothing either, nothing is all there is.
		_, stored := slices.BinarySearch(s.backend.Segments(s.env.Slot), n)
		p = &part{number: n, whole: !stored, behind: stored, left: bloom.New(s.env.Budget)}
		s.parts[n] = p
	}
	s.recent = p
	return p
}

// lacks says that a row that is not in memory is not in the backend either.
func (p *part) lacks(hash uint64) bool {
	return p.whole || p.left != nil && !p.behind && !p.left.Has(hash)
}

// leave is told of a row that the backend has and memory has not.
func (s *Set) leave(cell int64, hash uint64) {
	p := s.part(cell)
	p.whole = false
	s.note(p, hash)
}

// note adds a row to a segment's filter.
func (s *Set) note(p *part, hash uint64) {
	if p.left == nil {
		return
	}
	before := p.left.Held()
	room := p.left.Add(hash)
	if s.filters += p.left.Held() - before; !room {
		s.unfilter(p)
	}
}

// catchUp is told of a read that a filter would have spared.
func (s *Set) catchUp(p *part) {
	if p.left == nil || !p.behind {
		return
	}
	if p.misses++; p.misses%s.every > 0 {
		return
	}
	n := 0
	p.behind = false
	var bad error
	err := s.backend.ScanSegment(s.of(p.number), p.next, nil, false, func(name, _ []byte) bool {
		if _, _, bad = parse(name); bad != nil {
			return false
		}
		if n == s.fill {
			p.behind, p.next = true, append(p.next[:0], name...)
			return false
		}
		n++
		s.note(p, hashName(name))
		return p.left != nil
	})
	if err = cmp.Or(err, bad); err != nil {
		s.Fail("read segment %d: %w", p.number, err)
	}
}

// unfilter ends a segment's filter.
func (s *Set) unfilter(p *part) {
	if p.left != nil {
		s.filters -= p.left.Held()
		p.left.Close()
		p.left = nil
	}
}

// refill begins filters anew that there was no memory for, as others have gone.
func (s *Set) refill() {
	for _, p := range s.parts {
		if p.left == nil {
			p.left, p.behind, p.next = bloom.New(s.env.Budget), true, nil
		}
	}
}

// purge forgets what has expired: clean rows, and all that is known of segments.
func (s *Set) purge(first int64) {
	before := s.filters
	s.clean = slices.DeleteFunc(s.clean, func(r *rows) bool { return r.hi < first })
	end := s.floor(first)
	for n, p := range s.parts {
		if n < end {
			s.unfilter(p)
			delete(s.parts, n)
			s.recent = nil
		}
	}
	s.freed = s.freed || s.filters < before
}

// trim gives memory back if the process holds too much: what the backend has too, the oldest first.
func (s *Set) trim() {
	s.account()
	if s.env.Budget.Over() <= 0 {
		return
	}
	s.found = &rows{}
	first := s.horizon(s.settledAt)
	for s.account(); len(s.clean) > 0 && s.env.Budget.Over() > 0; s.account() {
		s.clean[0].each(func(x ref, name, _ []byte) {
			key, cell := split(name)
			if x.flags&deleted == 0 && cell >= first {
				s.leave(cell, hashIn(hashKey(key), cell))
			}
		})
		s.clean = slices.Delete(s.clean, 0, 1)
	}
}

// join makes one list of the last two clean ones as long as the one before is not twice as large: many small lists would make each look long.
func (s *Set) join() {
	largest := s.env.Budget.Limit() / 8
	first := s.horizon(s.settledAt)
	for n := len(s.clean); n > 1; n = len(s.clean) {
		a, b := s.clean[n-2], s.clean[n-1]
		if len(a.list) >= 2*len(b.list) || largest > 0 && a.held()+b.held() > largest {
			return
		}
		both := &rows{}
		for _, from := range []*rows{a, b} {
			from.each(func(x ref, name, value []byte) {
				if key, cell := split(name); cell >= first {
					both.put(hashIn(hashKey(key), cell), key, cell, value, x.flags)
				}
			})
		}
		s.clean = append(s.clean[:n-2], both)
	}
}
