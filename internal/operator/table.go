package operator

import (
	"fmt"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
)

// Lookup reads a row of a table, and the event time of its last update. done is false if a function on the way failed and the policy has dealt
// with the record.
type Lookup[K comparable, V any] func(r *engine.Rec, k K) (v V, at int64, ok, done bool)

// Rows opens a store of the task for operators.
func Rows[K comparable, V any](t *engine.Task, store string) (state.Table[K, V], error) {
	rows, ok := t.StoreNamed(store).(state.Table[K, V])
	if !ok {
		return nil, fmt.Errorf("store %q is not one of the task's tables", store)
	}
	return rows, nil
}

// Stored is the Lookup of a stored table.
func Stored[K comparable, V any](rows state.Table[K, V]) Lookup[K, V] {
	return func(_ *engine.Rec, k K) (V, int64, bool, bool) {
		v, at, ok := rows.Lookup(k)
		return v, at, ok, true
	}
}

// Told is the Lookup of a stored table as those who follow it know it: a row that has expired is there until its delete has been sent on.
func Told[K comparable, V any](rows state.Table[K, V]) Lookup[K, V] {
	return func(_ *engine.Rec, k K) (V, int64, bool, bool) {
		v, at, ok := rows.Last(k)
		return v, at, ok, true
	}
}

// Expiry sends a delete on for each row that the bound of a table's store removes. Its time is stream time.
func Expiry[K comparable, V any](t *engine.Task, n *engine.Node, store string, rows state.Table[K, V], old bool, next engine.Receive[K, Change[V]]) {
	t.OnExpired(store, func(key []byte) {
		k, err := rows.DecodeKey(key)
		if err != nil {
			t.Abort(fmt.Errorf("store %q: an expired row has a key that cannot be read: %w", store, err))
		}
		var c Change[V]
		if old {
			c.Old, _, c.HasOld = rows.Lookup(k)
		}
		// A record that finds its row expired is only the occasion, so the delete is sent as from a timer.
		r := t.Rec()
		was := *r
		*r = engine.Rec{Time: max(t.StreamTime(), 0), Input: -1}
		next(r, k, c)
		*r = was
		t.At(n)
	})
}

// Table makes updates of a row from the records of a topic or stream: the last one of each key holds, and null deletes. rows is nil if
// nothing needs the table stored; the old value is then unknown.
func Table[K comparable, V any](t *engine.Task, n *engine.Node, rows state.Table[K, V], next engine.Receive[K, Change[V]]) Take[K, V] {
	isNull, noKeys := IsNull[V](), t.Counter(n, string(processor.NullKey))
	update := updating(rows)
	return func(r *engine.Rec, k K, v V, null bool) {
		if r.NullKey {
			t.Drop(noKeys, r)
			return
		}
		c := Change[V]{New: v, HasNew: !null && (isNull == nil || !isNull(v))}
		if rows != nil {
			t.At(n)
			c.Old, c.HasOld, _ = update(k, c.New, c.HasNew, r.Time)
		}
		next(r, k, c)
	}
}

// updating returns a function that puts or deletes a row and returns the one before. done is false if the row's window has expired: nothing is stored then.
func updating[K comparable, V any](rows state.Table[K, V]) func(k K, v V, has bool, at int64) (old V, had, done bool) {
	var (
		new, old       V
		has, had, done bool
		at             int64
	)
	step := func(was V, _ int64, ok bool) (V, int64, bool) {
		old, had, done = was, ok, true
		return new, at, has
	}
	return func(k K, v V, keep bool, time int64) (V, bool, bool) {
		var none V
		new, has, at, old, had, done = v, keep, time, none, false, false
		rows.Modify(k, step)
		return old, had, done
	}
}

// TableOf is how a table made of another is kept.
type TableOf[K comparable, V any] struct {
	Rows state.Table[K, V] // nil if it is not stored
	Old  bool              // old values are known
}

// mapped is an operator that makes each row of a table from a row of another with the same key; f says whether there is one.
func mapped[K comparable, V, V2 any](f func(r *engine.Rec, k K, v V) (v2 V2, ok, done bool), t *engine.Task, n *engine.Node, to TableOf[K, V2], skipAbsent bool, next engine.Receive[K, Change[V2]]) engine.Receive[K, Change[V]] {
	update, expired := updating(to.Rows), t.Counter(n, string(processor.Expired))
	return func(r *engine.Rec, k K, c Change[V]) {
		// As in Kafka Streams, a store without versions takes the last update for the newest.
		out := Change[V2]{Past: c.Past && to.Rows == nil}
		done := true
		if c.HasNew {
			if out.New, out.HasNew, done = f(r, k, c.New); !done {
				return
			}
		}
		if skipAbsent && to.Old && to.Rows != nil && !out.HasNew {
			if _, _, had := to.Rows.Lookup(k); !had {
				return
			}
		}
		switch {
		case to.Rows != nil:
			t.At(n)
			if out.Old, out.HasOld, done = update(k, out.New, out.HasNew, r.Time); !done {
				t.Drop(expired, r)
				return
			}
		case to.Old && c.HasOld:
			if out.Old, out.HasOld, done = f(r, k, c.Old); !done {
				return
			}
		}
		if skipAbsent && to.Old && !out.HasNew && !out.HasOld {
			return // the row was not there before either
		}
		next(r, k, out)
	}
}

// FilterTable keeps the rows for which keep is true.
func FilterTable[K comparable, V any](t *engine.Task, n *engine.Node, keep func(K, V) bool, to TableOf[K, V], next engine.Receive[K, Change[V]]) engine.Receive[K, Change[V]] {
	return mapped(filtering(t, n, keep), t, n, to, true, next)
}

func filtering[K comparable, V any](t *engine.Task, n *engine.Node, keep func(K, V) bool) func(*engine.Rec, K, V) (V, bool, bool) {
	call := call2(t, n, keep)
	return func(r *engine.Rec, k K, v V) (V, bool, bool) {
		keep, done := call(r, k, v)
		if !keep {
			var none V
			return none, false, done
		}
		return v, true, done
	}
}

// MapTable changes the rows. A nil pointer is no row.
func MapTable[K comparable, V, V2 any](t *engine.Task, n *engine.Node, f func(K, V) V2, to TableOf[K, V2], next engine.Receive[K, Change[V2]]) engine.Receive[K, Change[V]] {
	return mapped(mapping(t, n, f), t, n, to, false, next)
}

func mapping[K comparable, V, V2 any](t *engine.Task, n *engine.Node, f func(K, V) V2) func(*engine.Rec, K, V) (V2, bool, bool) {
	call, isNull := call2(t, n, f), IsNull[V2]()
	return func(r *engine.Rec, k K, v V) (V2, bool, bool) {
		v2, done := call(r, k, v)
		return v2, isNull == nil || !isNull(v2), done
	}
}

// FilterLookup reads through a filter that is not stored.
func FilterLookup[K comparable, V any](t *engine.Task, n *engine.Node, keep func(K, V) bool, from Lookup[K, V]) Lookup[K, V] {
	return through(from, filtering(t, n, keep))
}

// MapLookup reads through a mapping that is not stored.
func MapLookup[K comparable, V, V2 any](t *engine.Task, n *engine.Node, f func(K, V) V2, from Lookup[K, V]) Lookup[K, V2] {
	return through(from, mapping(t, n, f))
}

func through[K comparable, V, V2 any](from Lookup[K, V], f func(*engine.Rec, K, V) (V2, bool, bool)) Lookup[K, V2] {
	return func(r *engine.Rec, k K) (v2 V2, at int64, ok, done bool) {
		v, at, ok, done := from(r, k)
		if !ok || !done {
			return v2, 0, false, done
		}
		v2, ok, done = f(r, k, v)
		return v2, at, ok, done
	}
}

// Updates is the updates of a table as events, without the deletes.
func Updates[K comparable, V any](next engine.Receive[K, V]) engine.Receive[K, Change[V]] {
	return func(r *engine.Rec, k K, c Change[V]) {
		if c.HasNew {
			next(r, k, c.New)
		}
	}
}

// ChangeEvents is the updates of a table as events made by f, which gets nil for a value that is not there.
func ChangeEvents[K comparable, V, R any](t *engine.Task, n *engine.Node, f func(k K, old, new *V) R, next engine.Receive[K, R]) engine.Receive[K, Change[V]] {
	var values slab[V]
	call := call2(t, n, func(k K, c Change[V]) R {
		var old, new *V
		if c.HasOld {
			old = values.put(c.Old)
		}
		if c.HasNew {
			new = values.put(c.New)
		}
		return f(k, old, new)
	})
	return func(r *engine.Rec, k K, c Change[V]) {
		if v, done := call(r, k, c); done {
			next(r, k, v)
		}
	}
}

// slab gives out pointers to copies, which are the user's to keep. One allocation serves many.
type slab[V any] struct{ free []V }

func (s *slab[V]) put(v V) *V {
	if len(s.free) == 0 {
		s.free = make([]V, 64)
	}
	p := &s.free[0]
	s.free = s.free[1:]
	*p = v
	return p
}
