package operator

import (
	"fmt"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
)

// Versions opens a versioned store of the task for operators.
func Versions[K comparable, V any](t *engine.Task, store string) (state.Versions[K, V], error) {
	rows, ok := t.StoreNamed(store).(state.Versions[K, V])
	if !ok {
		return nil, fmt.Errorf("store %q is not one of the task's versioned stores", store)
	}
	return rows, nil
}

// VersionedTable makes updates of a row from the records of a topic, each valid from its own time on. Those older than the history are dropped. old
// says that what was valid before is wanted too.
func VersionedTable[K comparable, V any](t *engine.Task, n *engine.Node, rows state.Versions[K, V], old bool, next engine.Receive[K, Change[V]]) Take[K, V] {
	isNull, noKeys, expired := IsNull[V](), t.Counter(n, string(processor.NullKey)), t.Counter(n, string(processor.Expired))
	return func(r *engine.Rec, k K, v V, null bool) {
		if r.NullKey {
			t.Drop(noKeys, r)
			return
		}
		c := Change[V]{New: v, HasNew: !null && (isNull == nil || !isNull(v))}
		t.At(n)
		was, had, done := rows.Write(k, v, c.HasNew, r.Time)
		if done == state.Refused {
			t.Drop(expired, r)
			return
		}
		if c.Past = done == state.Past; old {
			c.Old, c.HasOld = was, had
		}
		next(r, k, c)
	}
}

// Newest is the Lookup of a versioned table as of now.
func Newest[K comparable, V any](rows state.Versions[K, V]) Lookup[K, V] {
	return func(_ *engine.Rec, k K) (V, int64, bool, bool) {
		v, from, ok := rows.Latest(k)
		return v, from, ok, true
	}
}

// AsOf is the Lookup of a versioned table as of the record's time.
func AsOf[K comparable, V any](rows state.Versions[K, V]) Lookup[K, V] {
	return func(r *engine.Rec, k K) (V, int64, bool, bool) {
		v, from, ok := rows.At(k, r.Time)
		return v, from, ok, true
	}
}

// OnlyNewest lets through what changes the present of a table, and drops what changes its past, for joins, which work with what rows are now.
func OnlyNewest[K comparable, V any](t *engine.Task, n *engine.Node, next engine.Receive[K, Change[V]]) engine.Receive[K, Change[V]] {
	late := t.Misses(n, string(processor.RowNewer), string(processor.Late))
	return func(r *engine.Rec, k K, c Change[V]) {
		if c.Past {
			t.Miss(late, r)
			return
		}
		next(r, k, c)
	}
}
