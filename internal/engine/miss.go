package engine

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Misses counts the records for which one join finds nothing, for one cause. It may be read by other goroutines.
type Misses struct {
	Node  *Node
	Cause string
	n     atomic.Int64
	drop  *Counter // nil if such records go on
}

// Count is the number of such records.
func (m *Misses) Count() int64 { return m.n.Load() }

type missKey struct {
	node        *Node
	cause, drop string
}

// Misses is the counter of a join's misses for a cause. Joins ask for it once, when they are made. drop is the reason for which such records
// are dropped; empty if they go on.
func (t *Task) Misses(n *Node, cause, drop string) *Misses {
	key := missKey{n, cause, drop}
	m := t.misses[key]
	if m == nil {
		m = &Misses{Node: n, Cause: cause}
		if drop != "" {
			m.drop = t.Counter(n, drop)
		}
		t.misses[key] = m
	}
	return m
}

// Miss counts a record, and drops it if it goes no further: for what it then does see Drop.
func (t *Task) Miss(m *Misses, r *Rec) {
	m.n.Add(1)
	if t.env.Missed != nil {
		t.env.Missed(t.event(m.Node, m.Cause, r))
	}
	if m.drop != nil {
		t.Drop(m.drop, r)
	}
}

// AllMisses are those of all joins of the task, by name of the node and cause. What is dropped for several reasons comes together.
func (t *Task) AllMisses() (out []MissCount) {
	for _, m := range t.misses {
		n := m.Count()
		if n == 0 {
			continue
		}
		same := func(c MissCount) bool { return c.Node == m.Node.Name && c.Cause == m.Cause }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].Count += n
			continue
		}
		out = append(out, MissCount{m.Node.Name, m.Cause, n})
	}
	slices.SortFunc(out, func(a, b MissCount) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Cause, b.Cause))
	})
	return out
}

// MissCount is how many records a join missed for a cause.
type MissCount struct {
	Node, Cause string
	Count       int64
}
