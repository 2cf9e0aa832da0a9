package operator

import (
	"fmt"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
)

// Global is the Lookup of a global table: as of the beginning of the record that is being processed.
func Global[K comparable, V any](t *engine.Task, store string, key serde.Serde[K], value serde.Serde[V]) (Lookup[K, V], error) {
	reader := t.Global(store)
	if reader == nil {
		return nil, fmt.Errorf("global table %q is not open", store)
	}
	var (
		k   K
		v   V
		at  int64
		ok  bool
		err error
		buf []byte
	)
	encode := func() ([]byte, error) {
		b, err := key.Encode(buf[:0], k)
		if err != nil {
			return nil, fmt.Errorf("global table %q: encode key %v: %w", store, k, err)
		}
		buf = b
		return b, nil
	}
	above := func(b []byte, when int64) {
		at, ok = when, b != nil
		if ok {
			v, err = value.Decode(b)
		}
	}
	base := func(live state.Live) { v, at, ok = live.(state.Table[K, V]).Lookup(k) }
	return func(_ *engine.Rec, key K) (V, int64, bool, bool) {
		var none V
		k, v, ok, err = key, none, false, nil
		if e := reader.Read(encode, above, base); e != nil {
			t.Throw(e)
		}
		if err != nil {
			t.Throw(fmt.Errorf("global table %q: decode the value: %w", store, err))
		}
		return v, at, ok, true
	}, nil
}

// globalKey is what a function finds of the key to look up.
type globalKey[K comparable] struct {
	key K
	ok  bool
}

func keyCall[K comparable, V any, K2 comparable](t *engine.Task, n *engine.Node, of func(K, V) (K2, bool)) func(*engine.Rec, K, V) (globalKey[K2], bool) {
	return call2(t, n, func(k K, v V) globalKey[K2] {
		key, ok := of(k, v)
		return globalKey[K2]{key, ok}
	})
}

// JoinGlobal pairs each record with the row of a key that of makes of it, and drops records without a key or a row. The record's own key may be
// null.
func JoinGlobal[K comparable, V any, K2 comparable, V2, R any](t *engine.Task, n *engine.Node, lookup Lookup[K2, V2], of func(K, V) (K2, bool), f func(V, V2) R, next engine.Receive[K, R]) engine.Receive[K, V] {
	isNull, key, call := IsNull[V](), keyCall(t, n, of), call2(t, n, f)
	nulls, missing := t.Counter(n, string(processor.NullValue)), newAbsent[K2](t, n, nil, true)
	return func(r *engine.Rec, k K, v V) {
		if isNull != nil && isNull(v) {
			t.Drop(nulls, r)
			return
		}
		found, done := key(r, k, v)
		switch {
		case !done:
			return
		case !found.ok:
			missing.key(r)
			return
		}
		t.At(n)
		row, _, ok, _ := lookup(r, found.key)
		if !ok {
			missing.row(r, found.key)
			return
		}
		if v, done := call(r, v, row); done {
			next(r, k, v)
		}
	}
}

// LeftJoinGlobal pairs each record with the row of a key that of makes of it, or nil.
func LeftJoinGlobal[K comparable, V any, K2 comparable, V2, R any](t *engine.Task, n *engine.Node, lookup Lookup[K2, V2], of func(K, V) (K2, bool), f func(V, *V2) R, next engine.Receive[K, R]) engine.Receive[K, V] {
	isNull, key, call := IsNull[V](), keyCall(t, n, of), call2(t, n, f)
	nulls, missing := t.Counter(n, string(processor.NullValue)), newAbsent[K2](t, n, nil, false)
	var rows slab[V2]
	return func(r *engine.Rec, k K, v V) {
		if isNull != nil && isNull(v) {
			t.Drop(nulls, r)
			return
		}
		found, done := key(r, k, v)
		if !done {
			return
		}
		var row *V2
		if !found.ok {
			missing.key(r)
		} else {
			t.At(n)
			if x, _, ok, _ := lookup(r, found.key); ok {
				row = rows.put(x)
			} else {
				missing.row(r, found.key)
			}
		}
		if v, done := call(r, v, row); done {
			next(r, k, v)
		}
	}
}
