// Package bloom says of names whether they may be among those that were added. It spares a store the disk for keys that were never there, which are
// nearly all keys of a deduplication.
package bloom

import (
	"hash/maphash"
	"math/bits"

	"github.com/kolkstreams/kolk/internal/state"
)

// Filter is a Bloom filter that grows by further ones (Almeida, Baquero, Preguiça and Hutchison, "Scalable Bloom Filters", 2007), each blocked, so that a look costs
// one line of the processor's cache (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007). It never denies a name that was added. Of the
// others it takes one in a hundred for one for each of its large parts, and one in a thousand for all of the small ones: ten million names are in six parts, of
// which one is large, fifty million in nine. When there is no more memory the parts are filled beyond that, and it errs more often, up to one look in three.
//
// The zero value has no limit. A Filter belongs to one goroutine.
type Filter struct {
	budget *state.Budget
	parts  []part
	held   int64 // bytes
}

type part struct {
	blocks []block
	names  int // that it has
	room   int // that it has at most before there is another part
}

// block is a line of the cache.
type block [8]uint64

const (
	blockSize = 64
	firstPart = 16 << 10 // bytes of the first part; each further one is four times as large
	lastPart  = 16 << 20 // up to this one
	leastPart = 1 << 20  // what is tried at least when there is no memory for a larger one
	marks     = 6        // bits that are set for a name
	bitsLarge = 10       // of a part for a name
	bitsSmall = 20       // of the parts before the last size, which are little memory together
	bitsLeast = 6        // when there is no memory for another part
)

var seed = maphash.MakeSeed()

// HashText is the hash of a name.
func HashText(name string) uint64 { return maphash.String(seed, name) }

// HashBytes is HashText of the same bytes.
func HashBytes(name []byte) uint64 { return maphash.Bytes(seed, name) }

// New makes a filter that takes its memory from what the budget has to reserve.
func New(budget *state.Budget) *Filter { return &Filter{budget: budget} }

// Held is how many bytes the filter has.
func (f *Filter) Held() int64 { return f.held }

// Add takes in a name, by its hash. It returns false if there is no memory for it: the filter is of no use then.
func (f *Filter) Add(hash uint64) bool {
	n := len(f.parts)
	if n == 0 || f.parts[n-1].names >= f.parts[n-1].room {
		if !f.extend() {
			return f.squeeze(hash)
		}
		n = len(f.parts)
	}
	f.parts[n-1].add(hash)
	return true
}

// extend adds a part, a smaller one if there is no memory for what it should be.
func (f *Filter) extend() bool {
	want := min(int64(firstPart)<<min(2*len(f.parts), 32), lastPart)
	for size := want; ; size /= 2 {
		if f.budget.Reserve(size) {
			perName := int64(bitsLarge)
			if want < lastPart {
				perName = bitsSmall
			}
			f.parts = append(f.parts, part{blocks: make([]block, size/blockSize), room: int(size * 8 / perName)})
			f.held += size
			return true
		}
		if size/2 < min(want, leastPart) {
			return false
		}
	}
}

// squeeze adds a name to the part that is least filled.
func (f *Filter) squeeze(hash uint64) bool {
	var least *part
	for i := range f.parts {
		if p := &f.parts[i]; least == nil || p.fill() < least.fill() {
			least = p
		}
	}
	if least == nil || least.fill() > blockSize*8/bitsLeast {
		return false
	}
	least.add(hash)
	return true
}

// fill is how many names there are for each block.
func (p *part) fill() float64 { return float64(p.names) / float64(len(p.blocks)) }

func (p *part) add(hash uint64) {
	b, at := p.spot(hash)
	for range marks {
		b[at>>6&7] |= 1 << (at & 63)
		at >>= 9
	}
	p.names++
}

// Has says whether a name may have been added.
func (f *Filter) Has(hash uint64) bool {
	for i := len(f.parts) - 1; i >= 0; i-- { // the last are the largest
		if marked(f.parts[i].spot(hash)) {
			return true
		}
	}
	return false
}

// spot is where a part has a hash: the block, and nine bits each for the marks in it, which do not depend on the block.
func (p *part) spot(hash uint64) (*block, uint64) {
	i, _ := bits.Mul64(hash, uint64(len(p.blocks)))
	return &p.blocks[i], hash * 0x9e3779b97f4a7c15 >> 10
}

func marked(b *block, at uint64) bool {
	for range marks {
		if b[at>>6&7]&(1<<(at&63)) == 0 {
			return false
		}
		at >>= 9
	}
	return true
}

// Close gives the memory back, and leaves an empty filter.
func (f *Filter) Close() {
	f.budget.Reserve(-f.held)
	*f = Filter{budget: f.budget}
}
