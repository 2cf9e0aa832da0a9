package store

import (
	"bytes"
	"testing"
)

func TestArena(t *testing.T) {
	var a arena
	var kept [][]byte
	for i := range 5000 {
		b := a.alloc(i % 97)
		for j := range b {
			b[j] = byte(i)
		}
		kept = append(kept, b)
		if i == 1000 {
			kept = append(kept, bytes.Repeat([]byte{9}, 0), a.copy(string(bytes.Repeat([]byte{7}, arenaChunk+1))))
		}
	}
	for i, b := range kept[:1000] {
		if !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, i%97)) {
			t.Fatalf("slice %d was changed", i)
		}
		if cap(b) != len(b) {
			t.Fatalf("slice %d has room for %d, so an append would reach the next one", i, cap(b))
		}
	}
	chunks := len(a.chunks)
	a.reset()
	if len(a.chunks) != chunks-1 || a.held != int64(chunks-1)*arenaChunk {
		t.Errorf("%d of %d chunks are left, %d bytes; all but the oversized one should be", len(a.chunks), chunks, a.held)
	}
	a.alloc(1)
	a.reset()
	if len(a.chunks) != 1 {
		t.Errorf("%d chunks are left after a round that used one", len(a.chunks))
	}
}
