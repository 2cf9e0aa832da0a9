package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"

	"github.com/kolkstreams/kolk/internal/state"
)

// sortKey stands for an entry while the committed layer is sorted. Most keys differ in their first eight bytes.
type sortKey struct {
	prefix uint64
	at     uint32 // place in the layer's list
}

// Freeze moves the committed entries into the frozen layer.
func (m *memory) Freeze() []state.Batch {
	m.check()
	m.epoch++
	if len(m.frozen.list) > 0 || len(m.layer.list) == 0 && len(m.ages.stale) == 0 {
		return nil
	}
	rows := make([]state.Row, 0, len(m.layer.list))
	m.freeze(func(r state.Row) { rows = append(rows, r) })
	m.batches = m.batches[:0]
	if len(rows) > 0 {
		m.batches = append(m.batches, state.Batch{Slot: m.env.Slot, Rows: rows})
	}
	if moves := m.indexRows(); len(moves) > 0 {
		m.batches = append(m.batches, state.Batch{Slot: m.env.Slot + 1, Rows: moves})
	}
	m.account()
	if len(m.batches) == 0 {
		return nil
	}
	return m.batches
}

// freeze moves the committed entries into the frozen layer, which is empty, and gives their rows to add in ascending order.
func (m *memory) freeze(add func(state.Row)) {
	m.sortLayer()
	m.layer, m.frozen = m.frozen, m.layer
	for i := range m.frozen.list {
		l := &m.frozen.list[i]
		e := m.slab.at(l.id)
		e.committed, e.frozen = 0, int32(i+1)
		if m.ttl > 0 {
			m.learn(e) // to find its place in the index
		}
		r := state.Row{Known: e.has(known), Was: -1}
		if e.was >= 0 {
			r.Was = int64(len(e.name)) + int64(e.was)
		}
		if l.del && r.Known && r.Was < 0 {
			continue // never was in the backend
		}
		r.Key = bytesOf(e.name)
		if !l.del {
			r.Value = l.blob
		}
		add(r)
	}
}

// bytesOf is the bytes of a name, without a copy: nobody may change them.
func bytesOf(name string) []byte { return unsafe.Slice(unsafe.StringData(name), len(name)) }

func (m *memory) sortLayer() {
	list := m.layer.list
	m.sorting = slices.Grow(m.sorting[:0], len(list))
	for i, l := range list {
		var head [8]byte
		copy(head[:], m.slab.at(l.id).name)
		m.sorting = append(m.sorting, sortKey{binary.BigEndian.Uint64(head[:]), uint32(i)})
	}
	name := func(k sortKey) string { return m.slab.at(list[k.at].id).name }
	slices.SortFunc(m.sorting, func(a, b sortKey) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		c := strings.Compare(name(a), name(b))
		if c == 0 && a.at != b.at {
			m.fail("two keys are both encoded as %x; the key's serde must give each key bytes of its own", name(a))
		}
		return c
	})
	// The frozen layer's list is empty, but for its memory.
	sorted := slices.Grow(m.frozen.list[:0], len(list))
	for _, k := range m.sorting {
		sorted = append(sorted, list[k.at])
	}
	clear(list)
	m.layer.list, m.frozen.list = sorted, list[:0]
}

// Applied drops the frozen layer: the backend shows it.
func (m *memory) Applied() {
	m.check()
	m.epoch++
	for _, l := range m.frozen.list {
		e := m.slab.at(l.id)
		if e.was >= 0 {
			m.rows++
		}
		m.bytes += size(e, int64(e.was))
		e.was = -1
		if !l.del {
			e.was, e.wasAt = int32(len(l.blob)), timeOf(l.blob)
			m.rows--
		}
		m.bytes -= size(e, int64(e.was))
		if !e.has(known) {
			e.flags |= known
			m.unknown--
		}
		e.frozen = 0
		m.settle(e)
	}
	clear(m.frozen.list)
	m.frozen.list = m.frozen.list[:0]
	m.frozen.arena.reset()
	m.prune()
	m.trim()
	m.renew()
}

// Restore takes one committed changelog record.
func (m *memory) Restore(key, value []byte, at int64) error {
	m.check()
	id, ok, err := m.index.locate(key)
	if err != nil {
		return err
	}
	if !ok {
		id = m.create(key, false)
	}
	e := m.slab.at(id)
	m.pend(id, e)
	l := layered{id: id, del: value == nil}
	if !l.del {
		l.blob = row(m.vb[:0], value, at)
		m.vb = l.blob[:0]
	}
	m.commit(e, l)
	if !e.dirty() { // if it is, the open transaction is over it
		m.load(e, &l)
		m.track(id, e)
	}
	return nil
}

// Load hands a committed changelog record to the bulk loader.
func (m *memory) Load(to state.Loader, key, value []byte, at int64) error {
	m.check()
	if value == nil {
		return to.Put(m.env.Slot, key, nil)
	}
	m.vb = row(m.vb[:0], value, at)
	if err := to.Put(m.env.Slot, key, m.vb); err != nil || m.ttl == 0 {
		return err
	}
	m.kb = indexKey(m.kb[:0], m.bucket(at), key)
	return to.Put(m.env.Slot+1, m.kb, []byte{})
}

// row appends an entry as the backend has it.
func row(dst, value []byte, at int64) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(at)), value...)
}

// indexRows are the changes of the index by time that go with the frozen layer. Rows that are put are looked up at the apply: a bulk load,
// which cannot read, leaves rows of overwritten values in the index, and one of them may be there.
func (m *memory) indexRows() []state.Row {
	if m.ttl == 0 {
		return nil
	}
	var rows []state.Row
	key := func(bucket int64, name string) []byte {
		m.kb = indexKey(m.kb[:0], bucket, []byte(name))
		k := m.frozen.arena.alloc(len(m.kb))
		copy(k, m.kb)
		return k
	}
	for _, l := range m.frozen.list {
		e := m.slab.at(l.id)
		had, has := e.was >= 0, !l.del
		var was, is int64
		if had {
			was = m.bucket(e.wasAt)
		}
		if has {
			is = m.bucket(timeOf(l.blob))
		}
		if had && has && was == is {
			continue
		}
		if had {
			k := key(was, e.name)
			rows = append(rows, state.Row{Key: k, Known: true, Was: int64(len(k))})
		}
		if has {
			rows = append(rows, state.Row{Key: key(is, e.name), Value: []byte{}})
		}
	}
	for _, s := range m.ages.stale {
		if m.indexed(s) {
			continue // it was put again meanwhile
		}
		rows = append(rows, state.Row{Key: key(s.bucket, s.name)})
	}
	m.ages.stale = m.ages.stale[:0]
	slices.SortStableFunc(rows, func(a, b state.Row) int { return bytes.Compare(a.Key, b.Key) })
	// Of two changes of one row the first is that of an entry.
	return slices.CompactFunc(rows, func(a, b state.Row) bool { return bytes.Equal(a.Key, b.Key) })
}

// indexed says whether the backend's row of a key belongs into a bucket.
func (m *memory) indexed(s aged) bool {
	m.kb = append(m.kb[:0], s.name...)
	row, ok := m.row(m.kb)
	return ok && m.bucket(timeOf(row)) == s.bucket
}
