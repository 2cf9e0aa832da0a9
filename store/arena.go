package store

// arena is memory for many small byte slices that end together. Slices stay valid and where they are until reset.
type arena struct {
	chunks [][]byte
	at     int // the chunk being filled
	held   int64
}

const arenaChunk = 64 << 10

// alloc gives n bytes.
func (a *arena) alloc(n int) []byte {
	for ; a.at < len(a.chunks); a.at++ {
		c := a.chunks[a.at]
		if cap(c)-len(c) >= n {
			a.chunks[a.at] = c[:len(c)+n]
			return c[len(c) : len(c)+n : len(c)+n]
		}
	}
	c := make([]byte, n, max(n, arenaChunk))
	a.chunks = append(a.chunks, c)
	a.at = len(a.chunks) - 1
	a.held += int64(cap(c))
	return c[:n:n]
}

// copy keeps a copy of a text.
func (a *arena) copy(s string) []byte {
	b := a.alloc(len(s))
	copy(b, s)
	return b
}

// reset ends all slices. It keeps the chunks that were used for the next round, but for oversized ones.
func (a *arena) reset() {
	keep := a.chunks[:0]
	a.held = 0
	for i, c := range a.chunks {
		if i <= a.at && cap(c) == arenaChunk {
			keep = append(keep, c[:0])
			a.held += arenaChunk
		}
	}
	clear(a.chunks[len(keep):])
	a.chunks, a.at = keep, 0
}
