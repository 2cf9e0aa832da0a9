package operator

import (
	"errors"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/window"
)

// WindowRowsAsTable are the rows of a window store by key and window, for the operators of tables. An update of a window that is expired changes nothing.
func WindowRowsAsTable[K comparable, V any](rows state.Windows[K, V]) state.Table[window.Key[K], V] {
	return windowRows[K, V]{rows}
}

type windowRows[K comparable, V any] struct{ rows state.Windows[K, V] }

func (w windowRows[K, V]) Lookup(k window.Key[K]) (V, int64, bool) {
	return w.rows.Lookup(k.Key, k.Start().UnixMilli())
}

func (w windowRows[K, V]) Last(k window.Key[K]) (V, int64, bool) { return w.Lookup(k) }

func (w windowRows[K, V]) Modify(k window.Key[K], f func(old V, at int64, ok bool) (V, int64, bool)) {
	w.rows.Modify(k.Key, k.Start().UnixMilli(), f)
}

// errNoTTL is for what nobody asks of windows: they have a retention, not a time to live.
var errNoTTL = errors.New("windows do not expire one by one")

func (windowRows[K, V]) DecodeKey([]byte) (k window.Key[K], err error) { return k, errNoTTL }

// SessionRowsAsTable is WindowRowsAsTable for sessions. The time of a session's row is its end.
func SessionRowsAsTable[K comparable, V any](rows state.Sessions[K, V]) state.Table[window.Key[K], V] {
	return sessionRows[K, V]{rows}
}

type sessionRows[K comparable, V any] struct{ rows state.Sessions[K, V] }

func (s sessionRows[K, V]) Lookup(k window.Key[K]) (V, int64, bool) {
	end := k.End().UnixMilli()
	v, ok := s.rows.Lookup(k.Key, k.Start().UnixMilli(), end)
	return v, end, ok
}

func (s sessionRows[K, V]) Last(k window.Key[K]) (V, int64, bool) { return s.Lookup(k) }

func (s sessionRows[K, V]) Modify(k window.Key[K], f func(old V, at int64, ok bool) (V, int64, bool)) {
	start, end := k.Start().UnixMilli(), k.End().UnixMilli()
	old, ok := s.rows.Lookup(k.Key, start, end)
	if v, _, keep := f(old, end, ok); keep {
		s.rows.Put(k.Key, start, end, v)
	} else {
		s.rows.Remove(k.Key, start, end)
	}
}

func (sessionRows[K, V]) DecodeKey([]byte) (k window.Key[K], err error) { return k, errNoTTL }

// MapFinal changes results of closed windows. A nil pointer is no result.
func MapFinal[K comparable, V, V2 any](t *engine.Task, n *engine.Node, f func(K, V) V2, next engine.Receive[K, V2]) engine.Receive[K, V] {
	isNull := IsNull[V2]()
	if isNull == nil {
		return MapWithKey(t, n, f, next)
	}
	return MapWithKey(t, n, f, func(r *engine.Rec, k K, v V2) {
		if !isNull(v) {
			next(r, k, v)
		}
	})
}

// WaitingLookup reads rows through a suppression: one that waits is as it was before.
func WaitingLookup[K comparable, V any](t *engine.Task, s Suppression[K, V], from Lookup[K, V]) Lookup[K, V] {
	rows := t.StoreNamed(s.Store).(*Waiting)
	var kb []byte
	return func(r *engine.Rec, k K) (v V, at int64, ok, done bool) {
		key, err := s.Key.Encode(kb[:0], k)
		if err == nil && key != nil {
			kb = key
			if w, waits := rows.find(key); waits {
				if w.prior == nil {
					return v, 0, false, true
				}
				if v, err = s.Value.Decode(w.prior); err != nil {
					rows.fail("decode the value of key %x: %w", key, err)
				}
				return v, -1, true, true // its time is not known
			}
		}
		return from(r, k)
	}
}
