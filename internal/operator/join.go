package operator

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
)

// JoinTable pairs each record with the row of its key and drops records without one. why may be nil.
func JoinTable[K comparable, V, V2, R any](t *engine.Task, n *engine.Node, lookup Lookup[K, V2], why Why[K], f func(V, V2) R, next engine.Receive[K, R]) engine.Receive[K, V] {
	in, missing, call := newIntake[K, V](t, n), newAbsent(t, n, why, true), call2(t, n, f)
	return func(r *engine.Rec, k K, v V) {
		if r.NullKey {
			missing.key(r)
			return
		}
		if in.refuses(r, v) {
			return
		}
		t.At(n)
		row, _, ok, done := lookup(r, k)
		switch {
		case !done:
			return
		case !ok:
			missing.row(r, k)
			return
		}
		if v, done := call(r, v, row); done {
			next(r, k, v)
		}
	}
}

// LeftJoinTable pairs each record with the row of its key, or nil. A record without a key has no row.
func LeftJoinTable[K comparable, V, V2, R any](t *engine.Task, n *engine.Node, lookup Lookup[K, V2], why Why[K], f func(V, *V2) R, next engine.Receive[K, R]) engine.Receive[K, V] {
	isNull, nulls, missing, call := IsNull[V](), t.Counter(n, string(processor.NullValue)), newAbsent(t, n, why, false), call2(t, n, f)
	var rows slab[V2]
	return func(r *engine.Rec, k K, v V) {
		if isNull != nil && isNull(v) {
			t.Drop(nulls, r)
			return
		}
		var row *V2
		if r.NullKey {
			missing.key(r)
		} else {
			t.At(n)
			x, _, ok, done := lookup(r, k)
			if !done {
				return
			}
			if ok {
				row = rows.put(x)
			} else {
				missing.row(r, k)
			}
		}
		if v, done := call(r, v, row); done {
			next(r, k, v)
		}
	}
}
