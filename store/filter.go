package store

import (
	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/kolkstreams/kolk/internal/state"
)

// filter says of names whether they may be among those that were added: a Bloom filter that grows by further ones (Almeida, Baquero, Preguiça and
// Hutchison, "Scalable Bloom Filters", 2007). It never denies a name that was added. It takes about one in a hundred of the others for
// one, for each part that it has: 50 million names are in 12 of them.
//
// It spares a store the backend for keys that were never there, which are nearly all keys of a deduplication.
type filter struct {
	budget *state.Budget
	parts  []*z.Bloom
	room   int   // names that the last part still takes
	held   int64 // bytes
}

// Sizes are powers of two, or the library rounds them up.
const (
	firstFilter   = 16 << 10 // bytes of the first part; each further one is four times as large
	lastFilter    = 8 << 20  // up to this one
	filterBits    = 10       // for a name
	filterLookups = 6
)

// add takes a name in. It returns false if there is no memory for it: the filter is of no use then.
func (f *filter) add(name string) bool {
	hash := z.MemHashString(name)
	if f.has(hash) {
		return true
	}
	if f.room == 0 {
		size := min(int64(firstFilter)<<min(2*len(f.parts), 32), lastFilter)
		if !f.budget.Reserve(size) {
			return false
		}
		f.parts = append(f.parts, z.NewBloomFilter(float64(size*8), filterLookups))
		f.room, f.held = int(size)*8/filterBits, f.held+size
	}
	f.parts[len(f.parts)-1].Add(hash)
	f.room--
	return true
}

// may says whether a name may have been added.
func (f *filter) may(name []byte) bool { return f.has(z.MemHash(name)) }

func (f *filter) has(hash uint64) bool {
	for i := len(f.parts) - 1; i >= 0; i-- { // the last are the largest
		if f.parts[i].Has(hash) {
			return true
		}
	}
	return false
}

// close gives the memory back.
func (f *filter) close() {
	f.budget.Reserve(-f.held)
	*f = filter{budget: f.budget}
}
