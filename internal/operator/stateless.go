package operator

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
)

// Filter keeps the records for which keep is true.
func Filter[K comparable, V any](t *engine.Task, n *engine.Node, keep func(K, V) bool, next engine.Receive[K, V]) engine.Receive[K, V] {
	call := call2(t, n, keep)
	return func(r *engine.Rec, k K, v V) {
		if keep, done := call(r, k, v); keep && done {
			next(r, k, v)
		}
	}
}

// FilterValues is Filter by value.
func FilterValues[K comparable, V any](t *engine.Task, n *engine.Node, keep func(V) bool, next engine.Receive[K, V]) engine.Receive[K, V] {
	call := call1(t, n, keep)
	return func(r *engine.Rec, k K, v V) {
		if keep, done := call(r, v); keep && done {
			next(r, k, v)
		}
	}
}

// FilterRecord is Filter by the whole record.
func FilterRecord[K comparable, V any](t *engine.Task, n *engine.Node, keep func(processor.Record[K, V]) bool, next engine.Receive[K, V]) engine.Receive[K, V] {
	call := call1(t, n, keep)
	return func(r *engine.Rec, k K, v V) {
		if keep, done := call(r, record(r, k, v)); keep && done {
			next(r, k, v)
		}
	}
}

// MapValues changes the value.
func MapValues[K comparable, V, V2 any](t *engine.Task, n *engine.Node, f func(V) V2, next engine.Receive[K, V2]) engine.Receive[K, V] {
	call := call1(t, n, f)
	return func(r *engine.Rec, k K, v V) {
		if v2, done := call(r, v); done {
			next(r, k, v2)
		}
	}
}

// MapWithKey changes the value by key and value.
func MapWithKey[K comparable, V, V2 any](t *engine.Task, n *engine.Node, f func(K, V) V2, next engine.Receive[K, V2]) engine.Receive[K, V] {
	call := call2(t, n, f)
	return func(r *engine.Rec, k K, v V) {
		if v2, done := call(r, k, v); done {
			next(r, k, v2)
		}
	}
}

// TryMapValues changes the value by a function that can fail.
func TryMapValues[K comparable, V, V2 any](t *engine.Task, n *engine.Node, f func(V) (V2, error), next engine.Receive[K, V2]) engine.Receive[K, V] {
	type result struct {
		v   V2
		err error
	}
	call := call1(t, n, func(v V) result {
		v2, err := f(v)
		return result{v2, err}
	})
	return func(r *engine.Rec, k K, v V) {
		switch x, done := call(r, v); {
		case !done:
		case x.err != nil:
			t.Fail("process", n, r, x.err)
		default:
			next(r, k, x.v)
		}
	}
}

// Map changes key and value.
func Map[K comparable, V any, K2 comparable, V2 any](t *engine.Task, n *engine.Node, f func(K, V) (K2, V2), next engine.Receive[K2, V2]) engine.Receive[K, V] {
	type pair struct {
		k K2
		v V2
	}
	call := call2(t, n, func(k K, v V) pair {
		k2, v2 := f(k, v)
		return pair{k2, v2}
	})
	return func(r *engine.Rec, k K, v V) {
		if p, done := call(r, k, v); done {
			null := r.NullKey
			r.NullKey = false
			next(r, p.k, p.v)
			r.NullKey = null
		}
	}
}

// SelectKey changes the key.
func SelectKey[K comparable, V any, K2 comparable](t *engine.Task, n *engine.Node, key func(K, V) K2, next engine.Receive[K2, V]) engine.Receive[K, V] {
	call := call2(t, n, key)
	return func(r *engine.Rec, k K, v V) {
		if k2, done := call(r, k, v); done {
			null := r.NullKey
			r.NullKey = false
			next(r, k2, v)
			r.NullKey = null
		}
	}
}

// MapRecord changes the whole record.
func MapRecord[K comparable, V any, K2 comparable, V2 any](t *engine.Task, n *engine.Node, f func(processor.Record[K, V]) processor.Record[K2, V2], next engine.Receive[K2, V2]) engine.Receive[K, V] {
	call := call1(t, n, f)
	return func(r *engine.Rec, k K, v V) {
		x, done := call(r, record(r, k, v))
		if !done {
			return
		}
		at := x.Time.UnixMilli()
		if at < 0 {
			t.Fail("process", n, r, noTime(x.Time))
			return
		}
		was := *r
		r.Time, r.NullKey, r.Headers = at, x.NullKey, engine.HeadersOf(&x.Headers)
		next(r, x.Key, x.Value)
		*r = was
	}
}

var errNoKey = errors.New("the function returned a FixedKeyRecord without a key: make it from the one it was given, with WithValue")

// MapRecordValues changes all of a record but its key.
func MapRecordValues[K comparable, V, V2 any](t *engine.Task, n *engine.Node, f func(processor.FixedKeyRecord[K, V]) processor.FixedKeyRecord[K, V2], next engine.Receive[K, V2]) engine.Receive[K, V] {
	call := call1(t, n, f)
	return func(r *engine.Rec, k K, v V) {
		x, done := call(r, fixedKeyRecord(r, k, v))
		if !done {
			return
		}
		at := x.Time.UnixMilli()
		switch {
		case !engine.HasKey(&x):
			t.Fail("process", n, r, errNoKey)
			return
		case at < 0:
			t.Fail("process", n, r, noTime(x.Time))
			return
		}
		was := *r
		r.Time, r.Headers = at, engine.HeadersOf(&x.Headers)
		next(r, k, x.Value)
		*r = was
	}
}

// FlatMap makes any number of records of each.
func FlatMap[K comparable, V any, K2 comparable, V2 any](t *engine.Task, n *engine.Node, f func(K, V) iter.Seq2[K2, V2], next engine.Receive[K2, V2]) engine.Receive[K, V] {
	var (
		rec   *engine.Rec
		key   K
		value V
	)
	yield := func(k2 K2, v2 V2) bool {
		next(rec, k2, v2)
		t.At(n) // the sequence goes on
		return true
	}
	run := guarded(t, n, func() {
		if seq := f(key, value); seq != nil {
			seq(yield)
		}
	})
	return func(r *engine.Rec, k K, v V) {
		null := r.NullKey
		r.NullKey = false
		rec, key, value = r, k, v
		run(r)
		r.NullKey = null
	}
}

// FlatMapValues makes any number of records of each, with its key.
func FlatMapValues[K comparable, V, V2 any](t *engine.Task, n *engine.Node, f func(V) iter.Seq[V2], next engine.Receive[K, V2]) engine.Receive[K, V] {
	var (
		rec   *engine.Rec
		key   K
		value V
	)
	yield := func(v2 V2) bool {
		next(rec, key, v2)
		t.At(n)
		return true
	}
	run := guarded(t, n, func() {
		if seq := f(value); seq != nil {
			seq(yield)
		}
	})
	return func(r *engine.Rec, k K, v V) {
		rec, key, value = r, k, v
		run(r)
	}
}

// Peek calls f and passes the record on.
func Peek[K comparable, V any](t *engine.Task, n *engine.Node, f func(K, V), next engine.Receive[K, V]) engine.Receive[K, V] {
	call := call2(t, n, func(k K, v V) struct{} { f(k, v); return struct{}{} })
	return func(r *engine.Rec, k K, v V) {
		if _, done := call(r, k, v); done {
			next(r, k, v)
		}
	}
}

// Branch is one way out of a Split.
type Branch[K comparable, V any] struct {
	Node *engine.Node
	Take func(K, V) bool // nil takes everything
	Next engine.Receive[K, V]
}

// Split gives each record to the first branch that takes it.
func Split[K comparable, V any](t *engine.Task, n *engine.Node, branches []Branch[K, V]) engine.Receive[K, V] {
	type way struct {
		take func(*engine.Rec, K, V) (bool, bool)
		next engine.Receive[K, V]
	}
	var ways []way
	var rest engine.Receive[K, V]
	for _, b := range branches {
		if b.Take == nil {
			rest = b.Next
		} else {
			ways = append(ways, way{call2(t, b.Node, b.Take), b.Next})
		}
	}
	if rest == nil {
		unmatched := t.Counter(n, string(processor.Unmatched))
		rest = func(r *engine.Rec, _ K, _ V) { t.Drop(unmatched, r) }
	}
	return func(r *engine.Rec, k K, v V) {
		for i := range ways {
			switch take, done := ways[i].take(r, k, v); {
			case !done:
				return
			case take:
				ways[i].next(r, k, v)
				return
			}
		}
		rest(r, k, v)
	}
}

// DropNullKeys keeps records without a key from going on.
func DropNullKeys[K comparable, V any](t *engine.Task, n *engine.Node, next engine.Receive[K, V]) engine.Receive[K, V] {
	nulls := t.Counter(n, string(processor.NullKey))
	return func(r *engine.Rec, k K, v V) {
		if r.NullKey {
			t.Drop(nulls, r)
			return
		}
		next(r, k, v)
	}
}

func record[K comparable, V any](r *engine.Rec, k K, v V) processor.Record[K, V] {
	x := processor.Record[K, V]{Key: k, Value: v, Time: instant(r.Time), NullKey: r.NullKey}
	if r.Headers != nil {
		engine.SetHeaders(&x.Headers, r.Headers)
	}
	return x
}

func fixedKeyRecord[K comparable, V any](r *engine.Rec, k K, v V) processor.FixedKeyRecord[K, V] {
	x := processor.FixedKeyRecord[K, V]{Value: v, Time: instant(r.Time)}
	engine.Fix(&x, k, r.NullKey)
	if r.Headers != nil {
		engine.SetHeaders(&x.Headers, r.Headers)
	}
	return x
}

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func noTime(t time.Time) error {
	return fmt.Errorf("the record was given the time %v: times before 1970 cannot be written; keep that of the record that came in", t.UTC())
}
