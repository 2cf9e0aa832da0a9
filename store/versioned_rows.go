package store

import (
	"unsafe"

	"github.com/kolkstreams/kolk/internal/state"
)

// rows is a memory of encoded keys and values, in one slot.
type rows struct {
	memory
	ids  map[string]uint32
	vals raw
}

var _ keyIndex = (*rows)(nil)

func (r *rows) init(name string, env state.Env, slot uint16) {
	env.Slot = slot
	r.ids = make(map[string]uint32)
	r.memory.init(name, env, r, &r.vals, 0, int64(unsafe.Sizeof("")), int64(unsafe.Sizeof([]byte{})))
}

func (r *rows) locate(name []byte) (uint32, bool, error) {
	id, ok := r.ids[string(name)]
	return id, ok, nil
}

func (r *rows) add(id uint32, name string) { r.ids[name] = id }
func (r *rows) forget(id uint32)           { delete(r.ids, r.slab.at(id).name) }
func (r *rows) grow()                      {}
func (r *rows) renew()                     { r.ids = anew(r.ids) }

// get is a row's value and time. The value is valid until the next write.
func (r *rows) get(name []byte) (value []byte, at int64, ok bool) {
	id, inMemory := r.ids[string(name)]
	if !inMemory {
		id = r.create(name, true)
	}
	e := r.slab.at(id)
	e.flags |= touched
	if !e.has(present) {
		return nil, 0, false
	}
	return *r.vals.at(id), e.at, true
}

// set writes a row, which need not be in memory. value may be what get returned of another row.
func (r *rows) set(name, value []byte, at int64) {
	id, e := r.blind(name)
	r.save(id, e)
	was := 0
	if e.dirty() {
		was = len(*r.vals.at(id))
	}
	_ = r.vals.set(id, value) // which never fails
	r.wrote(id, e, at, true)
	r.dirtyBytes += int64(len(value) - was)
}

// del removes a row, which need not be there.
func (r *rows) del(name []byte, at int64) {
	id, e := r.blind(name)
	r.remove(id, e, at)
}

func (r *rows) blind(name []byte) (uint32, *entry) {
	id, ok := r.ids[string(name)]
	if !ok {
		id = r.create(name, false)
	}
	return id, r.slab.at(id)
}

// value is what a range has found.
func (r *rows) value(f found) []byte {
	if f.cell {
		return *r.vals.at(f.id)
	}
	return f.value
}

// settledRow is get as of the last commit. It leaves everything as it is; the value is valid until the next call.
func (r *rows) settledRow(name []byte) (value []byte, at int64, ok bool) {
	var l *layered
	if id, inMemory := r.ids[string(name)]; inMemory {
		l = r.settled(r.slab.at(id))
	}
	var blob []byte
	switch {
	case l == nil:
		if blob, ok = r.row(name); !ok {
			return nil, 0, false
		}
	case l.del:
		return nil, 0, false
	default:
		blob = l.blob
	}
	return blob[timeSize:], timeOf(blob), true
}
