package store

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/tidwall/btree"

	"github.com/kolkstreams/kolk/internal/state"
)

// keyIndex finds entries by key. It is the part of a store's memory that knows the type of keys.
type keyIndex interface {
	// locate finds the entry of an encoded key.
	locate(name []byte) (id uint32, ok bool, err error)
	// add indexes a new entry under the key that was last looked for and not found.
	add(id uint32, name string)
	// forget ends an entry.
	forget(id uint32)
	// grow makes room for another chunk of numbers.
	grow()
	// renew makes the index anew, as small as what it holds.
	renew()
}

// stored is where the backend has a store's rows.
type stored interface {
	// get appends a row to dst.
	get(name, dst []byte) (row []byte, ok bool, err error)
}

// unsegmented is the rows of a store that has no segments.
type unsegmented struct {
	backend state.Backend
	slot    uint16
}

func (u unsegmented) get(name, dst []byte) ([]byte, bool, error) {
	return u.backend.Get(u.slot, name, dst)
}

// memory is a store's layers over its backend, whatever the types of keys and values are.
//
// The current value of an entry is in its cell. Committed and frozen values are bytes in arenas, from which a cell is made again when a
// transaction is aborted. A clean entry is what the backend has.
type memory struct {
	name    string
	env     state.Env
	index   keyIndex
	stored  stored
	cells   cells
	slab    slab
	entrySz int64 // bytes of an entry's fixed parts

	fresh  []uint32 // entries written since the last flush, in order of first write
	staged []layered
	layer  layer // committed
	frozen layer
	stage  arena // bytes of staged

	tree  *btree.BTreeG[treeItem] // pending entries in order of key; nil until the first range
	loops []*loop                 // ranges that are running
	epoch uint64                  // counts what ends every range

	ttl  int64
	ages ages

	pendings   int   // entries in any layer over the backend
	unknown    int   // entries whose presence in the backend is not known
	rows       int64 // entries there are, less those in the backend
	bytes      int64 // the same in bytes, as of the last commit
	names      int64 // bytes of all names
	dirtyBytes int64
	share      state.Share
	hand       uint32
	forgotten  int   // entries, since the index was made
	expired    int64 // by committed transactions
	expiring   int64 // by the open one
	shown      string
	shows      bool // shown is an entry that has expired and is shown all the same

	broken  *state.Broken
	kb, vb  []byte // scratch for keys and values
	batches []state.Batch
	sorting []sortKey
}

// layered is an entry's value in a layer.
type layered struct {
	id   uint32
	del  bool
	blob []byte // time (8) | value; only the time for a staged delete, nothing for others
}

type layer struct {
	list  []layered
	arena arena
}

// timeSize is how many bytes of a row come before the value: the entry's time, big-endian.
const timeSize = 8

func (m *memory) init(name string, env state.Env, index keyIndex, c cells, ttl, keySize, cellSize int64) {
	m.name, m.env, m.index, m.cells, m.ttl = name, env, index, c, ttl
	m.stored = unsegmented{env.Backend, env.Slot}
	// A map holds the key, a number and a byte, and is up to half empty.
	m.entrySz = int64(unsafe.Sizeof(entry{})) + cellSize + 2*(keySize+5) + keySize
	m.ages.init(ttl)
}

// check ends a call on a store that has failed.
func (m *memory) check() {
	if m.broken != nil {
		panic(*m.broken)
	}
}

// fail makes the store unusable: what is in memory may not be what it should be.
func (m *memory) fail(format string, args ...any) {
	m.broken = &state.Broken{Store: m.name, Err: fmt.Errorf(format, args...)}
	panic(*m.broken)
}

// refuse ends a call that cannot be done, and leaves the store as it is.
func (m *memory) refuse(format string, args ...any) {
	panic(state.Failed{Store: m.name, Err: fmt.Errorf(format, args...)})
}

// find is the entry of an encoded key.
func (m *memory) find(name []byte) uint32 {
	id, ok, err := m.index.locate(name)
	if err != nil {
		m.fail("read key %x: %w", name, err)
	}
	if !ok {
		id = m.create(name, true)
	}
	return id
}

// create makes the entry of a key that was looked for and not found. With read it is as the backend has it, otherwise it is absent, and
// what the backend has is not known.
func (m *memory) create(name []byte, read bool) uint32 {
	if !read {
		return m.enter(name, nil, false, false)
	}
	row, ok := m.row(name)
	return m.enter(name, row, ok, true)
}

// enter is create with what the backend has: a row, or none if ok is false. With read false that is not known.
func (m *memory) enter(name, row []byte, ok, read bool) uint32 {
	m.evict()
	id, grown := m.slab.take()
	if grown {
		m.cells.grow()
		m.index.grow()
	}
	e := m.slab.at(id)
	e.name = string(name)
	m.names += int64(len(name))
	m.index.add(id, e.name)
	switch {
	case !read:
		m.unknown++
	case ok:
		e.flags |= known | present
		e.was, e.wasAt = int32(len(row)), timeOf(row)
		e.at = e.wasAt
		if err := m.cells.set(id, row[timeSize:]); err != nil {
			m.fail("read key %x: %w", name, err)
		}
	default:
		e.flags |= known
	}
	if m.slab.used&63 == 0 {
		m.account()
	}
	return id
}

// row reads from the backend into scratch.
func (m *memory) row(name []byte) ([]byte, bool) {
	row, ok, err := m.stored.get(name, m.vb[:0])
	if err != nil {
		m.fail("read key %x: %w", name, err)
	}
	m.vb = row[:0]
	if ok && len(row) < timeSize {
		m.fail("read key %x: a row of %d bytes has no time", name, len(row))
	}
	return row, ok
}

// learn looks up whether the backend has an entry that was written without being read.
func (m *memory) learn(e *entry) {
	if e.has(known) {
		return
	}
	m.kb = append(m.kb[:0], e.name...)
	row, ok := m.row(m.kb)
	m.teach(e, row, ok)
}

// teach is learn with what was found.
func (m *memory) teach(e *entry, row []byte, ok bool) {
	e.flags |= known
	m.unknown--
	if ok {
		m.rows--
		m.bytes -= m.settledSize(e)
		e.was, e.wasAt = int32(len(row)), timeOf(row)
		m.bytes += m.settledSize(e) - size(e, int64(e.was))
	}
}

// learnAll makes the count exact.
func (m *memory) learnAll() {
	if m.unknown == 0 {
		return
	}
	for _, id := range m.fresh {
		m.learn(m.slab.at(id))
	}
	for _, list := range [][]layered{m.staged, m.layer.list, m.frozen.list} {
		for _, l := range list {
			m.learn(m.slab.at(l.id))
		}
	}
}

// size is what an entry counts in bytes if its row is of the given length.
func size(e *entry, row int64) int64 {
	if row < 0 {
		return 0
	}
	return int64(len(e.name)) + row - timeSize
}

// settledSize is the size of the entry as of the last commit.
func (m *memory) settledSize(e *entry) int64 {
	switch {
	case e.committed != 0:
		return m.layer.list[e.committed-1].size(e)
	case e.frozen != 0:
		return m.frozen.list[e.frozen-1].size(e)
	}
	return size(e, int64(e.was))
}

func (l *layered) size(e *entry) int64 {
	if l.del {
		return 0
	}
	return size(e, int64(len(l.blob)))
}

// free forgets an entry: it is found in the backend again.
func (m *memory) free(id uint32) {
	e := m.slab.at(id)
	if e.has(present) {
		m.rows--
	}
	if e.was >= 0 {
		m.rows++
	}
	if !e.has(known) {
		m.unknown--
	}
	m.names -= int64(len(e.name))
	m.index.forget(id)
	m.forgotten++
	m.cells.clear(id)
	m.slab.give(id)
}

// wrote makes the entry dirty, after its cell was set or cleared.
func (m *memory) wrote(id uint32, e *entry, at int64, there bool) {
	if !e.dirty() {
		m.dirtyBytes += int64(len(e.name)) + m.entrySz
	}
	if !e.has(changed) {
		m.pend(id, e)
		e.flags |= changed
		m.fresh = append(m.fresh, id)
	}
	e.at = at
	m.setPresent(e, there)
	m.track(id, e)
}

// remove makes the entry a dirty delete.
func (m *memory) remove(id uint32, e *entry, at int64) {
	m.save(id, e)
	m.cells.clear(id)
	m.wrote(id, e, at, false)
}

func (m *memory) setPresent(e *entry, there bool) {
	switch {
	case there && !e.has(present):
		e.flags |= present
		m.rows++
	case !there && e.has(present):
		e.flags &^= present
		m.rows--
	}
}

// pend is called before the first mark that makes an entry pending.
func (m *memory) pend(id uint32, e *entry) {
	if e.pending() {
		return
	}
	m.pendings++
	if m.tree != nil {
		m.tree.Set(treeItem{e.name, id})
	}
}

// settle is called when an entry has lost a mark.
func (m *memory) settle(e *entry) {
	if e.pending() {
		return
	}
	m.pendings--
	e.listed = notListed
	if m.tree != nil {
		m.tree.Delete(treeItem{name: e.name})
	}
}

// memoryHeld is the store's memory in bytes, as far as it can be known.
func (m *memory) memoryHeld() int64 {
	n := int64(m.slab.used)*m.entrySz + m.names + m.cells.held() + m.stage.held + m.pendingBytes()
	if m.tree != nil {
		n += int64(m.pendings) * int64(2*unsafe.Sizeof(treeItem{}))
	}
	return n
}

func (m *memory) pendingBytes() int64 {
	return m.layer.arena.held + m.frozen.arena.held + int64(len(m.layer.list)+len(m.frozen.list))*pendingSize
}

// heldBytes takes names of pending entries to be as long as others.
func (m *memory) heldBytes() int64 {
	if m.pendings == 0 {
		return m.pendingBytes()
	}
	return m.pendingBytes() + int64(m.pendings)*(m.entrySz+m.names/int64(m.slab.used))
}

// pendingSize is what an entry's place in the committed or the frozen layer takes, and its place when that is sorted and written.
const pendingSize = int64(unsafe.Sizeof(layered{}) + unsafe.Sizeof(sortKey{}) + unsafe.Sizeof(state.Row{})/2)

// account tells the budget.
func (m *memory) account() { m.share.Hold(m.env.Budget, m.memoryHeld()) }

// Close gives the memory back. The store may not be used any more.
func (m *memory) Close() {
	m.share.Hold(m.env.Budget, 0)
	m.broken = &state.Broken{Store: m.name, Err: errors.New("the store is closed")}
}

// Stats are as of the last write.
func (m *memory) Stats() state.Stats {
	rows, bytes := m.env.Backend.Count(m.env.Slot)
	return state.Stats{
		Entries: rows + m.rows,
		Bytes:   bytes - rows*timeSize + m.bytes,
		Dirty:   m.dirtyBytes,
		Pending: m.pendingBytes(),
		Held:    m.heldBytes(),
		Memory:  m.memoryHeld(),
		Expired: m.expired + m.expiring,
	}
}

// count is the exact number of entries.
func (m *memory) count() int64 {
	m.check()
	m.learnAll()
	rows, _ := m.env.Backend.Count(m.env.Slot)
	return rows + m.rows
}
