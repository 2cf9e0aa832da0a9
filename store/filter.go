package store

import (
	"hash/maphash"
	"math/bits"

	"github.com/kolkstreams/kolk/internal/state"
)

// filter says of names whether they may be among those that were added: a Bloom filter that grows by further ones (Almeida, Baquero, Preguiça and
// Hutchison, "Scalable Bloom Filters", 2007), each blocked, so that a look costs one line of the processor's cache (Putze, Sanders and Singler, "Cache-,
// Hash- and Space-Efficient Bloom Filters", 2007). It never denies a name that was added. It takes about one in a hundred of the others for one, for each part
// that it has: ten million names are in six of them.
//
// It spares a store the backend for keys that were never there, which are nearly all keys of a deduplication.
type filter struct {
	budget *state.Budget
	parts  [][]filterBlock
	room   int   // names that the last part still takes
	held   int64 // bytes
}

// filterBlock is a line of the cache.
type filterBlock [8]uint64

const (
	filterBlockSize = 64
	firstFilter     = 16 << 10 // bytes of the first part; each further one is four times as large
	lastFilter      = 4 << 20  // up to this one
	filterBits      = 10       // for a name, of which it sets
	filterMarks     = 6
)

var filterSeed = maphash.MakeSeed()

func hashText(name string) uint64  { return maphash.String(filterSeed, name) }
func hashBytes(name []byte) uint64 { return maphash.Bytes(filterSeed, name) } // the same for the same bytes

// add takes in a name, by its hash. It returns false if there is no memory for it: the filter is of no use then.
func (f *filter) add(hash uint64) bool {
	if f.has(hash) {
		return true
	}
	if f.room == 0 {
		size := min(int64(firstFilter)<<min(2*len(f.parts), 32), lastFilter)
		if !f.budget.Reserve(size) {
			return false
		}
		f.parts = append(f.parts, make([]filterBlock, size/filterBlockSize))
		f.room, f.held = int(size)*8/filterBits, f.held+size
	}
	b, marks := spot(f.parts[len(f.parts)-1], hash)
	for range filterMarks {
		b[marks>>6&7] |= 1 << (marks & 63)
		marks >>= 9
	}
	f.room--
	return true
}

// has says whether a name may have been added.
func (f *filter) has(hash uint64) bool {
	for i := len(f.parts) - 1; i >= 0; i-- { // the last are the largest
		if marked(spot(f.parts[i], hash)) {
			return true
		}
	}
	return false
}

// spot is where a part has a hash: the block, and nine bits each for the marks in it, which do not depend on the block.
func spot(part []filterBlock, hash uint64) (*filterBlock, uint64) {
	i, _ := bits.Mul64(hash, uint64(len(part)))
	return &part[i], hash * 0x9e3779b97f4a7c15 >> 10
}

func marked(b *filterBlock, marks uint64) bool {
	for range filterMarks {
		if b[marks>>6&7]&(1<<(marks&63)) == 0 {
			return false
		}
		marks >>= 9
	}
	return true
}

// close gives the memory back.
func (f *filter) close() {
	f.budget.Reserve(-f.held)
	*f = filter{budget: f.budget}
}
