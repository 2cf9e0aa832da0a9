package soak

import (
	"runtime"
	"testing"

	"github.com/dgraph-io/ristretto/v2/z"
)

// What Badger allocates for a table is found, and gone once it is let go.
func TestBuffers(t *testing.T) {
	settled := func() int64 {
		runtime.GC()
		runtime.GC()
		return buffers()
	}
	before := settled()
	const size = 16 << 20
	a := z.NewAllocator(size, "test")
	if grown := settled() - before; grown < size {
		t.Errorf("%d bytes were seen, of at least %d", grown, size)
	}
	a.Release()
	if left := settled() - before; left >= size {
		t.Errorf("%d bytes are left", left)
	}
}
