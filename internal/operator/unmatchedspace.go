package operator

import (
	"slices"
	"unsafe"
)

// The memory of the records without a partner. Names and values lie in blocks, each with many of them, and one that is still in use keeps its whole block. Where most records find
// a partner soon and some wait for long, hardly any block would ever be given back: so what is in use is copied to new blocks when it is less than half of them.

const (
	// loneRowSize is about what a row takes beside its bytes: itself, its cell of the map, its place in the order and in the lists of what is to be written.
	loneRowSize = 192
	loneBlock   = 16 << 10
	// loneSlack is how many bytes, and loneIdle how many rows, may be held for nothing.
	loneSlack = 1 << 20
	loneIdle  = 4096
)

// room is memory for n bytes.
func (s *Unmatched) room(n int) []byte {
	if cap(s.bump)-len(s.bump) < n {
		s.bump = make([]byte, 0, max(n, loneBlock))
		s.held += int64(cap(s.bump))
	}
	start := len(s.bump)
	s.bump = s.bump[:start+n]
	return s.bump[start : start : start+n]
}

// keep copies bytes into memory of the store's own.
func (s *Unmatched) keep(b []byte) []byte { return append(s.room(len(b)), b...) }

func (s *Unmatched) keepName(b []byte) string {
	own := s.keep(b)
	return unsafe.String(unsafe.SliceData(own), len(own))
}

// memory is what the store holds: blocks that nobody uses any more too, until compact.
func (s *Unmatched) memory() int64 {
	return s.held + loneRowSize*int64(len(s.rows)+len(s.spare))
}

func (s *Unmatched) account() { s.share.Hold(s.env.Budget, s.memory()) }

// compact gives back what is held for nothing, if it is much. It is called between records. What a commit or a checkpoint has been given stays as it is: bytes are never changed.
func (s *Unmatched) compact() {
	s.most = max(s.most, len(s.rows)+len(s.spare))
	if s.held <= 2*s.used+loneSlack && s.most <= 4*len(s.rows)+loneIdle {
		return
	}
	s.bump, s.held, s.used = nil, 0, 0
	rows := make(map[string]*loneRow, len(s.rows))
	for _, r := range s.rows {
		r.name = s.keepName([]byte(r.name))
		s.used += int64(len(r.name) + len(r.value))
		if r.value != nil {
			r.value = s.keep(r.value)
		}
		rows[r.name] = r
	}
	s.rows, s.spare, s.most = rows, nil, len(rows)
	for i := range s.sides {
		s.sides[i] = slices.Clip(slices.Clone(s.sides[i]))
	}
}
