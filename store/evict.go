package store

// few is below how many clean entries a store is not worth looking through.
const few = 8

// evict makes room for a new entry if the process holds too much: it takes away a few clean ones that were not used of late.
func (m *memory) evict() {
	if m.env.Budget.Over() > 0 {
		m.sweep(16, 2)
	}
}

// trim is evict between transactions, when more may have become clean.
func (m *memory) trim() {
	m.account()
	if over := m.env.Budget.Over(); over > 0 {
		m.sweep(int(m.slab.next)/4+few, int(over/m.entrySz)+1)
		m.account()
	}
}

// renew makes the index anew once most of what it held is gone. A Go map keeps the room of its fullest moment, and where keys come and go the
// tables that it splits are never joined: it comes to take twice what it needs. The work is less than that of the removals.
func (m *memory) renew() {
	if m.forgotten < chunkSize || m.forgotten < 2*m.slab.used {
		return
	}
	m.forgotten = 0
	m.index.renew()
}

// sweep moves the clock's hand over some entries and frees some of them. It does nothing while most are pending: it would look at many to
// find few.
func (m *memory) sweep(steps, want int) {
	if clean := m.slab.used - m.pendings; clean < few || clean < m.slab.used/4 {
		return
	}
	for ; steps > 0 && want > 0; steps-- {
		m.hand++
		if m.hand >= m.slab.next {
			m.hand = 0
		}
		e := m.slab.at(m.hand)
		switch {
		case !e.has(used) || e.pending():
		case e.has(touched):
			e.flags &^= touched
		default:
			m.free(m.hand)
			want--
		}
	}
}
