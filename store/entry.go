package store

// entry is what a store knows of one key in memory. Entries stay where they are while the store grows, but an entry that is clean may
// be evicted, and its place taken by another, whenever a new one is made.
type entry struct {
	name   string // the encoded key
	at     int64  // time of the last write, ms; meaningless if the entry is not present
	wasAt  int64  // time of the backend's row, if it has one
	listed int64  // bucket of the list of expiries that the entry is in; notListed if in none
	was    int32  // length of the backend's row without key; -1 if there is none, or if that is not known

	// Places in the lists of the layers, counted from 1; 0 if the entry is not in that layer.
	staged, committed, frozen int32

	gen   uint32 // counts the keys that had this place
	flags flags
}

type flags uint8

const (
	used    flags = 1 << iota // the place is taken
	present                   // there is a value
	known                     // was and wasAt are true
	changed                   // written since the last flush
	touched                   // accessed since the clock's hand passed
)

func (e *entry) has(f flags) bool { return e.flags&f != 0 }

// pending says whether the backend as it is read may differ from the entry.
func (e *entry) pending() bool {
	return e.flags&changed != 0 || e.staged|e.committed|e.frozen != 0
}

// dirty says whether the entry was written in the open transaction.
func (e *entry) dirty() bool { return e.flags&changed != 0 || e.staged != 0 }

const (
	chunkBits = 8
	chunkSize = 1 << chunkBits
	chunkMask = chunkSize - 1
)

// slab holds entries by number.
type slab struct {
	chunks [][]entry
	next   uint32   // the first number never given out
	free   []uint32 // numbers given back
	used   int
}

func (s *slab) at(id uint32) *entry { return &s.chunks[id>>chunkBits][id&chunkMask] }

// take gives out a number. grown says that it is the first of a new chunk.
func (s *slab) take() (id uint32, grown bool) {
	if n := len(s.free); n > 0 {
		id, s.free = s.free[n-1], s.free[:n-1]
	} else {
		id = s.next
		s.next++
		if id&chunkMask == 0 {
			s.chunks = append(s.chunks, make([]entry, chunkSize))
			grown = true
		}
	}
	s.used++
	e := s.at(id)
	*e = entry{gen: e.gen, flags: used, was: -1, listed: notListed}
	return id, grown
}

func (s *slab) give(id uint32) {
	e := s.at(id)
	*e = entry{gen: e.gen + 1}
	s.free = append(s.free, id)
	s.used--
}
