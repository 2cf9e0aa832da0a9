package store

import (
	"encoding/binary"
	"fmt"
)

func timeOf(row []byte) int64 { return int64(binary.BigEndian.Uint64(row)) }

// Flush gives what was written since the last one to write.
func (m *memory) Flush(write func(key, value []byte, at int64) error) error {
	m.check()
	m.epoch++
	for i, id := range m.fresh {
		key, l, at, err := m.stageOut(id)
		if err == nil {
			var value []byte
			if !l.del {
				value = l.blob[timeSize:]
			}
			err = write(key, value, at)
		}
		if err != nil {
			m.fresh = m.fresh[:copy(m.fresh, m.fresh[i:])]
			return err
		}
		e := m.slab.at(id)
		e.flags &^= changed
		if e.staged == 0 {
			m.staged = append(m.staged, l)
			e.staged = int32(len(m.staged))
		} else {
			m.staged[e.staged-1] = l
		}
	}
	m.fresh = m.fresh[:0]
	m.account()
	return nil
}

// stageOut writes an entry's key, time and value, as they are now, into the arena of the transaction.
func (m *memory) stageOut(id uint32) (key []byte, l layered, at int64, err error) {
	e := m.slab.at(id)
	l = layered{id: id, del: !e.has(present)}
	if l.del {
		return m.stage.copy(e.name), l, e.at, nil
	}
	value, err := m.cells.encoded(id)
	if err != nil {
		return nil, l, 0, fmt.Errorf("encode the value of key %x: %w", e.name, err)
	}
	if value == nil {
		// The serde has no bytes for this value, so it is a delete, which could not be seen when it was written.
		m.cells.clear(id)
		m.setPresent(e, false)
		l.del = true
		return m.stage.copy(e.name), l, e.at, nil
	}
	b := m.stage.alloc(len(e.name) + timeSize + len(value))
	n := copy(b, e.name)
	binary.BigEndian.PutUint64(b[n:], uint64(e.at))
	copy(b[n+timeSize:], value)
	return b[:n:n], layered{id: id, blob: b[n:]}, e.at, nil
}

// Committed makes what Flush gave committed.
func (m *memory) Committed() {
	m.check()
	m.epoch++
	if len(m.fresh) > 0 {
		m.fail("commit: %d entries were written after the last flush", len(m.fresh))
	}
	for _, l := range m.staged {
		e := m.slab.at(l.id)
		m.commit(e, l)
		e.staged = 0
	}
	m.staged = m.staged[:0]
	m.stage.reset()
	m.dirtyBytes = 0
	m.expired, m.expiring = m.expired+m.expiring, 0
	m.trim()
}

// commit puts a value into the committed layer. The bytes are copied, over those of the commit before where they fit.
func (m *memory) commit(e *entry, l layered) {
	m.bytes -= m.settledSize(e)
	if e.committed == 0 {
		m.layer.list = append(m.layer.list, layered{id: l.id})
		e.committed = int32(len(m.layer.list))
	}
	to := &m.layer.list[e.committed-1]
	to.del = l.del
	if !l.del {
		if cap(to.blob) < len(l.blob) {
			to.blob = m.layer.arena.alloc(len(l.blob))
		}
		to.blob = to.blob[:len(l.blob)]
		copy(to.blob, l.blob)
	}
	m.bytes += to.size(e)
}

// Rollback lets dirty entries fall back to the layer below: those that are in none are read from the backend again when they are wanted.
func (m *memory) Rollback() {
	m.check()
	m.epoch++
	for _, l := range m.staged {
		m.revert(l.id)
	}
	for _, id := range m.fresh {
		if e := m.slab.at(id); e.has(changed) {
			m.revert(id)
		}
	}
	m.staged, m.fresh = m.staged[:0], m.fresh[:0]
	m.stage.reset()
	m.dirtyBytes, m.expiring = 0, 0
	m.retrack()
	m.trim()
}

func (m *memory) revert(id uint32) {
	e := m.slab.at(id)
	e.staged = 0
	e.flags &^= changed
	var l *layered
	switch {
	case e.committed != 0:
		l = &m.layer.list[e.committed-1]
	case e.frozen != 0:
		l = &m.frozen.list[e.frozen-1]
	default:
		m.settle(e)
		m.free(id)
		return
	}
	m.load(e, l)
}

// load makes an entry what a layer has.
func (m *memory) load(e *entry, l *layered) {
	m.setPresent(e, !l.del)
	if l.del {
		m.cells.clear(l.id)
		return
	}
	e.at = timeOf(l.blob)
	if err := m.cells.set(l.id, l.blob[timeSize:]); err != nil {
		m.fail("read committed key %x: %w", e.name, err)
	}
}
