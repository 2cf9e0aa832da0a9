package store

import (
	"bytes"

	"github.com/tidwall/btree"
)

type treeItem struct {
	name string
	id   uint32
}

// loop is a range that is running. It sees the store as it was when it began: who writes an entry first saves it for every loop.
type loop struct{ saved map[string]saved }

type saved struct {
	backend bool // the backend has what the entry was
	present bool
	at      int64
	value   []byte
}

// save keeps what an entry is for the loops that are running. It is called before every change.
func (m *memory) save(id uint32, e *entry) {
	if len(m.loops) == 0 {
		return
	}
	s := saved{backend: !e.pending(), present: e.has(present), at: e.at}
	if !s.backend && s.present {
		value, err := m.cells.encoded(id)
		if err != nil {
			m.refuse("encode the value of key %x: %w", e.name, err)
		}
		// A value without bytes is a delete, as at a flush.
		s.present, s.value = value != nil, bytes.Clone(value)
	}
	for _, l := range m.loops {
		if _, ok := l.saved[e.name]; ok {
			continue
		}
		if l.saved == nil {
			l.saved = make(map[string]saved)
		}
		l.saved[e.name] = s
	}
}

// found is an entry that a range visits. Its bytes are valid during the visit.
type found struct {
	name  []byte
	at    int64
	cell  bool // the value is in the cell of id, not in value
	id    uint32
	value []byte
}

// order makes the tree of pending entries.
func (m *memory) order() {
	if m.tree != nil {
		return
	}
	m.tree = btree.NewBTreeGOptions(func(a, b treeItem) bool { return a.name < b.name }, btree.Options{NoLocks: true})
	set := func(id uint32) { m.tree.Set(treeItem{m.slab.at(id).name, id}) }
	for _, id := range m.fresh {
		set(id)
	}
	for _, list := range [][]layered{m.staged, m.layer.list, m.frozen.list} {
		for _, l := range list {
			set(l.id)
		}
	}
}

// scan visits the entries with from <= key < to in order of key, pending ones over those of the backend. A nil bound is the end of the store.
// With committed it leaves out what the open transaction wrote; visit may not write then.
func (m *memory) scan(from, to []byte, reverse, committed bool, visit func(found) bool) {
	m.check()
	if to != nil && bytes.Compare(from, to) >= 0 {
		return
	}
	m.order()
	l := &loop{}
	m.loops = append(m.loops, l)
	defer m.end(l)
	epoch, streamTime := m.epoch, m.env.StreamTime()
	over := overlay{m: m, loop: l, committed: committed, from: string(from), to: string(to), open: to == nil, reverse: reverse}
	under := backing{m: m, from: from, to: to, reverse: reverse}
	for {
		a, inMemory, there := over.head()
		b, stored := under.head()
		if inMemory && stored {
			c := bytes.Compare(a.name, b.name)
			if reverse {
				c = -c
			}
			if c == 0 {
				under.i++ // memory is newer
			}
			inMemory = c <= 0
		}
		switch {
		case inMemory:
			over.i++
			if !there {
				continue
			}
		case stored:
			under.i++
			a = b
		default:
			return
		}
		if m.hasExpired(a.at, streamTime) {
			continue
		}
		if !visit(a) {
			return
		}
		m.check()
		if m.epoch != epoch {
			m.fail("a range went on after a commit: a loop over a store must end in the call that began it")
		}
	}
}

func (m *memory) end(l *loop) {
	for i, x := range m.loops {
		if x == l {
			m.loops = append(m.loops[:i], m.loops[i+1:]...)
			return
		}
	}
}

const (
	firstPage = 16
	lastPage  = 1024
)

// overlay reads pending entries a page at a time, so that writes between the pages do not disturb it.
type overlay struct {
	m         *memory
	loop      *loop
	committed bool
	from, to  string
	open      bool // there is no to
	reverse   bool
	page      []treeItem
	size, i   int
	done      bool
}

// head is the entry at the cursor. there is false if it is a delete.
func (o *overlay) head() (f found, ok, there bool) {
	for {
		if o.i == len(o.page) {
			if o.done || !o.fill() {
				return found{}, false, false
			}
		}
		item := o.page[o.i]
		f, backend, there := o.state(item)
		if backend {
			o.i++
			continue
		}
		f.name = []byte(item.name)
		return f, true, there
	}
}

// state is what the loop sees of an entry; backend says that it is what the backend has.
func (o *overlay) state(item treeItem) (f found, backend, there bool) {
	if s, ok := o.loop.saved[item.name]; ok {
		return found{at: s.at, value: s.value}, s.backend, s.present
	}
	e := o.m.slab.at(item.id)
	if !o.committed {
		return found{at: e.at, cell: true, id: item.id}, false, e.has(present)
	}
	l := o.m.settled(e)
	switch {
	case l == nil:
		return found{}, true, false
	case l.del:
		return found{}, false, false
	}
	return found{at: timeOf(l.blob), value: l.blob[timeSize:]}, false, true
}

// settled is the newest value of an entry below the open transaction; nil if it is in the backend.
func (m *memory) settled(e *entry) *layered {
	switch {
	case e.committed != 0:
		return &m.layer.list[e.committed-1]
	case e.frozen != 0:
		return &m.frozen.list[e.frozen-1]
	}
	return nil
}

func (o *overlay) fill() bool {
	o.size = min(max(firstPage, 2*o.size), lastPage)
	o.page, o.i = o.page[:0], 0
	take := func(t treeItem) bool {
		if o.reverse {
			if !o.open && t.name >= o.to {
				return true // the bound itself
			}
			if t.name < o.from {
				return false
			}
		} else if !o.open && t.name >= o.to {
			return false
		}
		o.page = append(o.page, t)
		return len(o.page) < o.size
	}
	switch {
	case !o.reverse:
		o.m.tree.Ascend(treeItem{name: o.from}, take)
	case o.open:
		o.m.tree.Reverse(take)
	default:
		o.m.tree.Descend(treeItem{name: o.to}, take)
	}
	if len(o.page) < o.size {
		o.done = true
		return len(o.page) > 0
	}
	last := o.page[len(o.page)-1].name
	if o.reverse {
		o.to, o.open = last, false
	} else {
		o.from = last + "\x00"
	}
	return true
}

// backing reads the backend a page at a time, so that the loop's body runs outside of the backend.
type backing struct {
	m        *memory
	from, to []byte
	reverse  bool
	buf      []byte
	page     []span
	size, i  int
	done     bool
}

// span is where a row's key and value end in the buffer.
type span struct{ start, key, end int }

func (b *backing) head() (found, bool) {
	if b.i == len(b.page) {
		if b.done || !b.fill() {
			return found{}, false
		}
	}
	s := b.page[b.i]
	row := b.buf[s.key:s.end]
	return found{name: b.buf[s.start:s.key:s.key], at: timeOf(row), value: row[timeSize:]}, true
}

func (b *backing) fill() bool {
	b.size = min(max(firstPage, 2*b.size), lastPage)
	b.page, b.i, b.buf = b.page[:0], 0, b.buf[:0]
	short := -1
	err := b.m.env.Backend.Scan(b.m.env.Slot, b.from, b.to, b.reverse, func(key, value []byte) bool {
		if len(value) < timeSize {
			short = len(value)
			return false
		}
		start := len(b.buf)
		b.buf = append(append(b.buf, key...), value...)
		b.page = append(b.page, span{start, start + len(key), len(b.buf)})
		return len(b.page) < b.size && len(b.buf) < 1<<20
	})
	if err != nil {
		b.m.fail("read a range: %w", err)
	}
	if short >= 0 {
		b.m.fail("read a range: a row of %d bytes has no time", short)
	}
	if len(b.page) < b.size && len(b.buf) < 1<<20 {
		b.done = true
		return len(b.page) > 0
	}
	s := b.page[len(b.page)-1]
	last := bytes.Clone(b.buf[s.start:s.key])
	if b.reverse {
		b.to = last
	} else {
		b.from = append(last, 0)
	}
	return true
}

// after is the smallest key above all that start with prefix; nil if there is none.
func after(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			end := bytes.Clone(prefix[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}
