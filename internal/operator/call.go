package operator

import (
	"reflect"

	"github.com/kolkstreams/kolk/internal/engine"
)

// call1 makes calls of a user's function of one argument. done is false if it failed and the policy has dealt with the record.
func call1[A, R any](t *engine.Task, n *engine.Node, f func(A) R) func(*engine.Rec, A) (result R, done bool) {
	if !t.Guarded(n) {
		return func(_ *engine.Rec, a A) (R, bool) {
			t.At(n)
			return f(a), true
		}
	}
	var in A
	var out R
	run := func() { out = f(in) }
	return func(r *engine.Rec, a A) (R, bool) {
		in = a
		done := t.Guard(n, r, run)
		return out, done
	}
}

// call2 is call1 for two arguments.
func call2[A, B, R any](t *engine.Task, n *engine.Node, f func(A, B) R) func(*engine.Rec, A, B) (result R, done bool) {
	if !t.Guarded(n) {
		return func(_ *engine.Rec, a A, b B) (R, bool) {
			t.At(n)
			return f(a, b), true
		}
	}
	var first A
	var second B
	var out R
	run := func() { out = f(first, second) }
	return func(r *engine.Rec, a A, b B) (R, bool) {
		first, second = a, b
		done := t.Guard(n, r, run)
		return out, done
	}
}

// guarded is run, inside a guard where the policy of the node wants it.
func guarded(t *engine.Task, n *engine.Node, run func()) func(*engine.Rec) (done bool) {
	if !t.Guarded(n) {
		return func(*engine.Rec) bool {
			t.At(n)
			run()
			return true
		}
	}
	return func(r *engine.Rec) bool { return t.Guard(n, r, run) }
}

// IsNull says whether a value stands for null; nil if no value of the type does. Nil pointers do.
func IsNull[V any]() func(V) bool {
	if reflect.TypeFor[V]().Kind() != reflect.Pointer {
		return nil
	}
	return func(v V) bool {
		var null V
		return any(v) == any(null)
	}
}
