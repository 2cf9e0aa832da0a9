package seen

import (
	"encoding/binary"
	"hash/maphash"
	"unsafe"
)

// rows are rows in order of arrival, found by name. Names and values lie in chunks, and nothing but those is a pointer: the garbage collector has nothing to
// look at, and a row takes some 25 bytes beside its own.
type rows struct {
	chunks [][]byte
	list   []ref
	table  []uint64 // open addressing, linear probing: upper half of the hash | place in the list, counted from 1; 0 is a free slot
	mask   uint64   // len(table) - 1
	dead   int      // rows that a later one of the same name has replaced
	lo, hi int64    // cells
}

// ref is where a row lies.
type ref struct {
	chunk uint32
	off   uint16
	name  uint16 // bytes
	value uint8  // bytes behind the name
	flags flags
}

type flags uint8

const (
	known   flags = 1 << iota // the backend is known not to have a row of the name
	deleted                   // there is no entry of the name, whatever the backend has
	dead                      // a later row has the name
)

const (
	refSize    = int64(unsafe.Sizeof(ref{}))
	slotSize   = 8
	firstChunk = 1 << 10
	lastChunk  = 64 << 10 // a row fits, as a name has up to state.MaxKey bytes
)

var seed = maphash.MakeSeed()

// hashKey is the part of a name's hash that all cells of a key have in common.
func hashKey(key []byte) uint64 { return maphash.Bytes(seed, key) }

// hashIn is the hash of a name.
func hashIn(key uint64, cell int64) uint64 {
	h := key ^ uint64(cell)*0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return h ^ h>>32
}

func hashName(name []byte) uint64 {
	key, cell := split(name)
	return hashIn(hashKey(key), cell)
}

// split takes a name apart.
func split(name []byte) (key []byte, cell int64) {
	n := len(name) - tail
	return name[:n], int64(binary.BigEndian.Uint64(name[n:]))
}

// at is a row's name and value.
func (r *rows) at(x ref) (name, value []byte) {
	c := r.chunks[x.chunk]
	v := int(x.off) + int(x.name)
	end := v + int(x.value)
	return c[x.off:v:v], c[v:end:end]
}

// put adds a row, in place of one of the same name. What is not known of that one is not known of it either.
func (r *rows) put(hash uint64, key []byte, cell int64, value []byte, f flags) {
	if 3*(len(r.list)+1) > 2*len(r.table) {
		r.grow()
	}
	slot, was := r.find(hash, key, cell)
	if was >= 0 {
		f &= r.list[was].flags | ^known
		r.list[was].flags |= dead
		r.dead++
	}
	x := r.alloc(len(key)+tail, len(value))
	x.flags = f
	name, to := r.at(x)
	binary.BigEndian.PutUint64(name[copy(name, key):], uint64(cell))
	copy(to, value)
	if len(r.list) == 0 {
		r.lo, r.hi = cell, cell
	}
	r.lo, r.hi = min(r.lo, cell), max(r.hi, cell)
	r.list = append(r.list, x)
	r.table[slot] = hash&^0xffffffff | uint64(len(r.list))
}

// find is the slot of a name and its place in the list; -1 and where it would go if there is none.
func (r *rows) find(hash uint64, key []byte, cell int64) (slot uint64, place int) {
	if len(r.table) == 0 {
		return 0, -1
	}
	for slot = hash & r.mask; ; slot = (slot + 1) & r.mask {
		s := r.table[slot]
		if s == 0 {
			return slot, -1
		}
		if s>>32 != hash>>32 {
			continue
		}
		place = int(uint32(s)) - 1
		x := r.list[place]
		if int(x.name) != len(key)+tail {
			continue
		}
		if k, c := split(r.chunks[x.chunk][x.off:][:x.name]); c == cell && string(k) == string(key) {
			return slot, place
		}
	}
}

// get is the last row of a name.
func (r *rows) get(hash uint64, key []byte, cell int64) (x ref, ok bool) {
	if r == nil || len(r.list) == 0 || cell < r.lo || cell > r.hi {
		return ref{}, false
	}
	_, place := r.find(hash, key, cell)
	if place < 0 {
		return ref{}, false
	}
	return r.list[place], true
}

func (r *rows) grow() {
	r.table = make([]uint64, max(16, 2*len(r.table)))
	r.mask = uint64(len(r.table) - 1)
	r.fill()
}

// alloc makes room for a row.
func (r *rows) alloc(name, value int) ref {
	n := len(r.chunks) - 1
	if n < 0 || len(r.chunks[n])+name+value > cap(r.chunks[n]) {
		n++
		r.chunks = append(r.chunks, make([]byte, 0, max(name+value, min(firstChunk<<min(n, 16), lastChunk))))
	}
	c := &r.chunks[n]
	x := ref{chunk: uint32(n), off: uint16(len(*c)), name: uint16(name), value: uint8(value)}
	*c = (*c)[:len(*c)+name+value]
	clear((*c)[len(*c)-value-4 : len(*c)-value]) // the sequence number
	return x
}

// cut takes away the rows from place n on, as if they had never been.
func (r *rows) cut(n int) {
	for i := len(r.list) - 1; i >= n; i-- {
		x := r.list[i]
		if r.dead == 0 { // the last that came goes first: no other row was put behind it
			name, _ := r.at(x)
			key, cell := split(name)
			slot, _ := r.find(hashName(name), key, cell)
			r.table[slot] = 0
		}
		r.chunks[x.chunk] = r.chunks[x.chunk][:x.off]
		clear(r.chunks[x.chunk+1:])
		r.chunks = r.chunks[:x.chunk+1]
	}
	if len(r.list) == n {
		return
	}
	r.list = r.list[:n]
	if r.dead > 0 { // rows that were replaced may be the last of their name again
		clear(r.table)
		r.fill()
	}
	for i, x := range r.list {
		name, _ := r.at(x)
		_, cell := split(name)
		if i == 0 {
			r.lo, r.hi = cell, cell
		}
		r.lo, r.hi = min(r.lo, cell), max(r.hi, cell)
	}
}

// fill enters all rows into an empty table.
func (r *rows) fill() {
	r.dead = 0
	for i := range r.list {
		r.list[i].flags &^= dead
		name, _ := r.at(r.list[i])
		hash := hashName(name)
		key, cell := split(name)
		slot, was := r.find(hash, key, cell)
		if was >= 0 {
			r.list[was].flags |= dead
			r.dead++
		}
		r.table[slot] = hash&^0xffffffff | uint64(i+1)
	}
}

// live is how many names there are.
func (r *rows) live() int {
	if r == nil {
		return 0
	}
	return len(r.list) - r.dead
}

// held is the memory in bytes.
func (r *rows) held() (n int64) {
	if r == nil {
		return 0
	}
	for i, c := range r.chunks {
		if len(r.chunks) > 8 && i == 7 { // all further ones are of one size
			n += int64(len(r.chunks)-7) * lastChunk
			break
		}
		n += int64(cap(c))
	}
	return n + int64(cap(r.list))*refSize + int64(len(r.table))*slotSize
}

// each visits the rows that no later one has replaced.
func (r *rows) each(visit func(x ref, name, value []byte)) {
	for _, x := range r.list {
		if x.flags&dead == 0 {
			name, value := r.at(x)
			visit(x, name, value)
		}
	}
}
