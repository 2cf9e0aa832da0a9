package operator

import (
	"github.com/kolkstreams/kolk/internal/engine"
)

// Held keeps the last update of each row until the next commit.
type Held[K comparable, V any] struct {
	task  *engine.Task
	index map[K]int
	rows  []heldRow[K, V]
	old   bool
	next  engine.Receive[K, Change[V]]
}

type heldRow[K comparable, V any] struct {
	key    K
	change Change[V]
	time   int64
}

// NewHeld makes a Held. old says that old values are known.
func NewHeld[K comparable, V any](t *engine.Task, old bool, next engine.Receive[K, Change[V]]) *Held[K, V] {
	return &Held[K, V]{task: t, index: make(map[K]int), old: old, next: next}
}

// Receive takes an update. What a row was before its first one stays its old value.
func (h *Held[K, V]) Receive(r *engine.Rec, k K, c Change[V]) {
	if c.Past {
		return // it does not change what the row is
	}
	i, ok := h.index[k]
	if !ok {
		h.index[k] = len(h.rows)
		h.rows = append(h.rows, heldRow[K, V]{k, c, r.Time})
		return
	}
	row := &h.rows[i]
	row.change.New, row.change.HasNew, row.time = c.New, c.HasNew, r.Time
}

// Flush sends on what is held, in order of first change. Rows that are gone again before anybody saw them are left out, if that is known.
// The headers of the records that led to them are not kept.
func (h *Held[K, V]) Flush() {
	r := h.task.Rec()
	was := *r
	for i := range h.rows {
		row := &h.rows[i]
		if h.old && !row.change.HasOld && !row.change.HasNew {
			continue
		}
		r.Time, r.NullKey, r.Headers = row.time, false, nil
		h.next(r, row.key, row.change)
		*r = was
	}
	clear(h.index)
	clear(h.rows)
	h.rows = h.rows[:0]
}
