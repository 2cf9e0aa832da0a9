package operator

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
)

// Why says why a lookup as of a record's time has found no row.
type Why[K comparable] func(r *engine.Rec, k K) processor.Reason

// AsOfWhy is the Why of a versioned table.
func AsOfWhy[K comparable, V any](rows state.Versions[K, V]) Why[K] {
	return func(r *engine.Rec, k K) processor.Reason {
		switch _, from, ok := rows.Latest(k); {
		case !ok || from <= r.Time:
			return processor.NoRow
		case r.Time < rows.Oldest():
			return processor.Expired // there may have been a row, but that is forgotten
		}
		return processor.RowNewer
	}
}

// absent counts what a join with a table does not find, by cause.
type absent[K comparable] struct {
	task                           *engine.Task
	why                            Why[K] // nil: there is no row
	noKey, noRow, newer, forgotten *engine.Misses
}

// newAbsent makes an absent. drops says that the join drops records without a row.
func newAbsent[K comparable](t *engine.Task, n *engine.Node, why Why[K], drops bool) *absent[K] {
	count := func(cause processor.Reason) *engine.Misses {
		if drops {
			return t.Misses(n, string(cause), string(cause))
		}
		return t.Misses(n, string(cause), "")
	}
	return &absent[K]{t, why, count(processor.NullKey), count(processor.NoRow), count(processor.RowNewer), count(processor.Expired)}
}

// key counts a record without a key to look up.
func (a *absent[K]) key(r *engine.Rec) { a.task.Miss(a.noKey, r) }

// row counts a record for whose key no row was found.
func (a *absent[K]) row(r *engine.Rec, k K) {
	m := a.noRow
	if a.why != nil {
		switch a.why(r, k) {
		case processor.RowNewer:
			m = a.newer
		case processor.Expired:
			m = a.forgotten
		}
	}
	a.task.Miss(m, r)
}
