package operator

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
)

// Side is a row of one side of a join, if it has one.
type Side[V any] struct {
	Value V
	Has   bool
}

// Pair is how rows are joined. A row without a partner is kept as KeepLeft and KeepRight say.
type Pair[L, Rt, R any] struct {
	KeepLeft, KeepRight bool
	// Make makes the function for one task.
	Make func() func(Side[L], Side[Rt]) R
}

// Inner joins rows that both sides have.
func Inner[L, Rt, R any](f func(L, Rt) R) Pair[L, Rt, R] {
	return Pair[L, Rt, R]{Make: func() func(Side[L], Side[Rt]) R {
		return func(l Side[L], r Side[Rt]) R { return f(l.Value, r.Value) }
	}}
}

// Left also keeps the rows of the left side.
func Left[L, Rt, R any](f func(L, *Rt) R) Pair[L, Rt, R] {
	return Pair[L, Rt, R]{KeepLeft: true, Make: func() func(Side[L], Side[Rt]) R {
		var rights slab[Rt]
		return func(l Side[L], r Side[Rt]) R { return f(l.Value, rights.side(r)) }
	}}
}

// Outer keeps the rows of both sides.
func Outer[L, Rt, R any](f func(*L, *Rt) R) Pair[L, Rt, R] {
	return Pair[L, Rt, R]{KeepLeft: true, KeepRight: true, Make: func() func(Side[L], Side[Rt]) R {
		var lefts slab[L]
		var rights slab[Rt]
		return func(l Side[L], r Side[Rt]) R { return f(lefts.side(l), rights.side(r)) }
	}}
}

// side is a pointer to a copy of a row; nil if there is none.
func (s *slab[V]) side(row Side[V]) *V {
	if !row.Has {
		return nil
	}
	return s.put(row.Value)
}

// JoinLeft takes the updates of the left table of a join. old says that old values are wanted, and known of the left table. For rows of the
// left table that are kept without a partner they are known in any case.
func JoinLeft[K comparable, L, Rt, R any](t *engine.Task, n *engine.Node, pair Pair[L, Rt, R], right Lookup[K, Rt], old bool, next engine.Receive[K, Change[R]]) engine.Receive[K, Change[L]] {
	return joined(t, n, pair.Make(), right, pair.KeepLeft, pair.KeepRight, old, next)
}

// JoinRight takes the updates of the right table.
func JoinRight[K comparable, L, Rt, R any](t *engine.Task, n *engine.Node, pair Pair[L, Rt, R], left Lookup[K, L], old bool, next engine.Receive[K, Change[R]]) engine.Receive[K, Change[Rt]] {
	f := pair.Make()
	return joined(t, n, func(r Side[Rt], l Side[L]) R { return f(l, r) }, left, pair.KeepRight, pair.KeepLeft, old, next)
}

// joined takes the updates of one side, whose own rows are kept without a partner if keep says so, and the other's if keepOther does.
func joined[K comparable, V, V2, R any](t *engine.Task, n *engine.Node, f func(Side[V], Side[V2]) R, other Lookup[K, V2], keep, keepOther, old bool, next engine.Receive[K, Change[R]]) engine.Receive[K, Change[V]] {
	call, isNull, noRow := call2(t, n, f), IsNull[R](), t.Misses(n, string(processor.NoRow), "")
	row := func(r *engine.Rec, own Side[V], partner Side[V2]) (v R, has, done bool) {
		switch {
		case own.Has && partner.Has, own.Has && keep, partner.Has && keepOther:
			v, done = call(r, own, partner)
			return v, isNull == nil || !isNull(v), done
		}
		return v, false, true
	}
	return OnlyNewest(t, n, func(r *engine.Rec, k K, c Change[V]) {
		var partner Side[V2]
		t.At(n)
		v, at, ok, done := other(r, k)
		if !done {
			return
		}
		if partner.Value, partner.Has = v, ok; !ok && c.HasNew {
			t.Miss(noRow, r)
		}
		// Without a partner there was no row and will be none, unless this side is kept.
		if !ok && (!keep || !c.HasOld && !c.HasNew) {
			return
		}
		var out Change[R]
		if out.New, out.HasNew, done = row(r, Side[V]{c.New, c.HasNew}, partner); !done {
			return
		}
		if old {
			if out.Old, out.HasOld, done = row(r, Side[V]{c.Old, c.HasOld}, partner); !done {
				return
			}
		}
		ts := r.Time
		if ok {
			r.Time = max(ts, at)
		}
		next(r, k, out)
		r.Time = ts
	})
}

// Keep stores the rows that pass; the old value is then the one that was stored. An update of a window that has expired in the store is dropped. Without a store Keep only
// passes them on.
func Keep[K comparable, V any](t *engine.Task, n *engine.Node, to TableOf[K, V], next engine.Receive[K, Change[V]]) engine.Receive[K, Change[V]] {
	if to.Rows == nil {
		return next
	}
	update, expired := updating(to.Rows), t.Counter(n, string(processor.Expired))
	return func(r *engine.Rec, k K, c Change[V]) {
		t.At(n)
		var done bool
		if c.Old, c.HasOld, done = update(k, c.New, c.HasNew, r.Time); !done {
			t.Drop(expired, r)
			return
		}
		next(r, k, c)
	}
}

// JoinLookup reads the rows of a join that is not stored.
func JoinLookup[K comparable, L, Rt, R any](t *engine.Task, n *engine.Node, pair Pair[L, Rt, R], left Lookup[K, L], right Lookup[K, Rt]) Lookup[K, R] {
	call, isNull := call2(t, n, pair.Make()), IsNull[R]()
	return func(r *engine.Rec, k K) (v R, at int64, ok, done bool) {
		var l Side[L]
		var rt Side[Rt]
		var leftAt, rightAt int64
		if l.Value, leftAt, l.Has, done = left(r, k); !done {
			return v, 0, false, false
		}
		if rt.Value, rightAt, rt.Has, done = right(r, k); !done {
			return v, 0, false, false
		}
		switch {
		case l.Has && rt.Has:
			at = max(leftAt, rightAt)
		case l.Has && pair.KeepLeft:
			at = leftAt
		case rt.Has && pair.KeepRight:
			at = rightAt
		default:
			return v, 0, false, true
		}
		v, done = call(r, l, rt)
		return v, at, isNull == nil || !isNull(v), done
	}
}
