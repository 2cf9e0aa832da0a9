package operator

import (
	"errors"
	"math"
	"reflect"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
)

// OneMore is a count after a further record. A count that has no room for it fails the record: none is ever a smaller one.
func OneMore(n int64) int64 {
	if n == math.MaxInt64 {
		panic(errCountFull)
	}
	return n + 1
}

var errCountFull = errors.New("the count is the largest there is, 9223372036854775807")

// Count counts the records of each key.
func Count[K comparable, V any](t *engine.Task, n *engine.Node, rows state.Table[K, int64], next engine.Receive[K, Change[int64]]) engine.Receive[K, V] {
	in := newIntake[K, V](t, n)
	var (
		c      Change[int64]
		at, ts int64
	)
	step := func(old, oldAt int64, ok bool) (int64, int64, bool) {
		c = Change[int64]{Old: old, New: OneMore(old), HasOld: ok, HasNew: true}
		if at = ts; ok {
			at = max(ts, oldAt)
		}
		return c.New, at, true
	}
	return func(r *engine.Rec, k K, v V) {
		if in.refuses(r, v) {
			return
		}
		ts = r.Time
		t.At(n)
		rows.Modify(k, step)
		r.Time = at
		next(r, k, c)
		r.Time = ts
	}
}

// Fold is how values are added to an aggregate.
type Fold[K comparable, V, A any] struct {
	Start func() A  // the aggregate before the first value; nil is the zero A
	First func(V) A // the aggregate after the first value, instead of Start and Add; may be nil
	Add   func(K, V, A) A
}

// Aggregate folds the values of each key. old says that the old aggregate is wanted too.
func Aggregate[K comparable, V, A any](t *engine.Task, n *engine.Node, rows state.Table[K, A], fold Fold[K, V, A], old bool, next engine.Receive[K, Change[A]]) engine.Receive[K, V] {
	in, isNull := newIntake[K, V](t, n), IsNull[A]()
	var (
		key    K
		value  V
		c      Change[A]
		at, ts int64
	)
	// What an aggregate holds by pointer may be changed in place by Add, so the old one is then read on its own.
	apart := old && !immutable(reflect.TypeFor[A]())
	step := func(was A, wasAt int64, ok bool) (A, int64, bool) {
		at = ts
		if ok {
			at = max(ts, wasAt)
		}
		if old && !apart {
			c.Old, c.HasOld = was, ok
		}
		switch {
		case !ok && fold.First != nil:
			c.New = fold.First(value)
		case !ok && fold.Start != nil:
			c.New = fold.Add(key, value, fold.Start())
		default:
			c.New = fold.Add(key, value, was) // the zero A if there was none
		}
		c.HasNew = isNull == nil || !isNull(c.New)
		return c.New, at, c.HasNew
	}
	run := guarded(t, n, func() { rows.Modify(key, step) })
	return func(r *engine.Rec, k K, v V) {
		if in.refuses(r, v) {
			return
		}
		key, value, ts, c = k, v, r.Time, Change[A]{}
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

// intake keeps from an operator with state what it cannot take.
type intake[V any] struct {
	task              *engine.Task
	isNull            func(V) bool
	noKeys, nullValue *engine.Counter
}

func newIntake[K comparable, V any](t *engine.Task, n *engine.Node) *intake[V] {
	return &intake[V]{task: t, isNull: IsNull[V](), noKeys: t.Counter(n, string(processor.NullKey)), nullValue: t.Counter(n, string(processor.NullValue))}
}

// refuses says whether the record has no key or a null value, and has dropped it then.
func (in *intake[V]) refuses(r *engine.Rec, v V) bool {
	switch {
	case r.NullKey:
		in.task.Drop(in.noKeys, r)
	case in.isNull != nil && in.isNull(v):
		in.task.Drop(in.nullValue, r)
	default:
		return false
	}
	return true
}

// immutable says whether a value of the type cannot be changed through a copy of it.
func immutable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return false
	case reflect.Array:
		return immutable(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if !immutable(f.Type) {
				return false
			}
		}
	}
	return true
}
