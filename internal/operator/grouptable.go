package operator

import (
	"reflect"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
)

// GroupTable gives each row of a table another key and value, as changes of the group: the old row is taken out, the new one put in. Both
// travel in one record if the group stays the same.
func GroupTable[K comparable, V any, K2 comparable, V2 any](t *engine.Task, n *engine.Node, f func(K, V) (K2, V2), next engine.Receive[K2, Change[V2]]) engine.Receive[K, Change[V]] {
	type pair struct {
		k K2
		v V2
	}
	call := call2(t, n, func(k K, v V) pair {
		k2, v2 := f(k, v)
		return pair{k2, v2}
	})
	isNull := IsNull[V2]()
	side := func(r *engine.Rec, k K, v V, has bool) (p pair, ok, done bool) {
		if !has {
			return p, false, true
		}
		p, done = call(r, k, v)
		return p, isNull == nil || !isNull(p.v), done
	}
	return func(r *engine.Rec, k K, c Change[V]) {
		if c.Past {
			return // the row's newest value is in the aggregate
		}
		new, hasNew, done := side(r, k, c.New, c.HasNew)
		if !done {
			return
		}
		old, hasOld, done := side(r, k, c.Old, c.HasOld)
		if !done {
			return
		}
		if hasOld && hasNew && old.k == new.k {
			next(r, new.k, Change[V2]{Old: old.v, New: new.v, HasOld: true, HasNew: true})
			return
		}
		if hasOld {
			next(r, old.k, Change[V2]{Old: old.v, HasOld: true})
		}
		if hasNew {
			next(r, new.k, Change[V2]{New: new.v, HasNew: true})
		}
	}
}

// TableFold is how rows are put into an aggregate of a grouped table and taken out.
type TableFold[K comparable, V, A any] struct {
	First  func(V) A // the aggregate of the first row; nil adds it to the zero A
	Add    func(K, V, A) A
	Remove func(K, V, A) A
}

// AggregateTable aggregates a grouped table. old says that the old aggregate is wanted too.
func AggregateTable[K comparable, V, A any](t *engine.Task, n *engine.Node, rows state.Table[K, A], fold TableFold[K, V, A], old bool, next engine.Receive[K, Change[A]]) engine.Receive[K, Change[V]] {
	noKeys, isNull := t.Counter(n, string(processor.NullKey)), IsNull[A]()
	var (
		key    K
		change Change[V]
		c      Change[A]
		at, ts int64
	)
	apart := old && !immutable(reflect.TypeFor[A]())
	step := func(was A, wasAt int64, ok bool) (A, int64, bool) {
		if old && !apart {
			c.Old, c.HasOld = was, ok
		}
		// As in Kafka Streams, a row is taken out only of an aggregate that exists, and one that Remove made null begins anew.
		a, has := was, ok
		if at = ts; ok && (change.HasOld || change.HasNew) {
			at = max(ts, wasAt)
		}
		if change.HasOld && has {
			a = fold.Remove(key, change.Old, a)
			has = isNull == nil || !isNull(a)
		}
		if change.HasNew {
			switch {
			case has:
				a = fold.Add(key, change.New, a)
			case fold.First != nil:
				a = fold.First(change.New)
			default:
				var zero A
				a = fold.Add(key, change.New, zero)
			}
			has = isNull == nil || !isNull(a)
		}
		c.New, c.HasNew = a, has
		return a, at, has
	}
	run := guarded(t, n, func() { rows.Modify(key, step) })
	return func(r *engine.Rec, k K, in Change[V]) {
		if r.NullKey {
			t.Drop(noKeys, r)
			return
		}
		key, change, ts, c = k, in, r.Time, Change[A]{}
		if apart {
			c.Old, _, c.HasOld = rows.Lookup(k)
		}
		if !run(r) {
			return
		}
		r.Time = at
		next(r, k, c)
		r.Time = ts
	}
}
