package store

import (
	"maps"
	"unsafe"
)

// index finds entries in memory: by the key as it is where that compares by value, else by its encoded form. P is a store's key, with a place in time where
// the store has such.
type index[P comparable] struct {
	byValue map[P]uint32
	byName  map[string]uint32
	keys    [][]P // of the entries in byValue
	last    P     // what was last looked for in byValue and not found
}

// init returns the bytes of a key in the index.
func (x *index[P]) init(byValue bool) int64 {
	if !byValue {
		x.byName = make(map[string]uint32)
		return int64(unsafe.Sizeof(""))
	}
	x.byValue = make(map[P]uint32)
	return int64(unsafe.Sizeof(x.last))
}

// insert adds an entry under its name, or under the key that was last looked for.
func (x *index[P]) insert(id uint32, name string) {
	if x.byValue == nil {
		x.byName[name] = id
		return
	}
	x.byValue[x.last] = id
	x.keys[id>>chunkBits][id&chunkMask] = x.last
}

// erase ends an entry.
func (x *index[P]) erase(id uint32, name string) {
	if x.byValue == nil {
		delete(x.byName, name)
		return
	}
	p := &x.keys[id>>chunkBits][id&chunkMask]
	delete(x.byValue, *p)
	var zero P
	*p = zero
}

// grow makes room for another chunk of numbers.
func (x *index[P]) grow() {
	if x.byValue != nil {
		x.keys = append(x.keys, make([]P, chunkSize))
	}
}

// renew makes the map anew, as small as what it holds.
func (x *index[P]) renew() {
	if x.byValue != nil {
		x.byValue = anew(x.byValue)
	} else {
		x.byName = anew(x.byName)
	}
}

func anew[K comparable](m map[K]uint32) map[K]uint32 {
	n := make(map[K]uint32, len(m))
	maps.Copy(n, m)
	return n
}
