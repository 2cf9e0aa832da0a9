package topology

import (
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

func (nameOption) asOf() {}
func (dropOption) asOf() {}

type waitOption struct {
	name  string
	d     time.Duration
	place string
}

func (waitOption) asOf() {}

// WaitFor holds records back, under name, until a record comes that is d later, so that table updates that arrive late are seen; then they are joined
// in order of time. d must not exceed the table's history. Lateness is judged by the largest time that the join has seen; a record that is
// later than d when it comes is joined at once. Nothing is sent on while no record comes, unless kolk.Config.CloseIdle lets time go on.
func WaitFor(name string, d time.Duration) AsOfOption { return waitOption{name, d, caller()} }

// JoinAsOf looks up each record's key in a table as it was at the record's time: the order in which table and stream are read does not matter, as long as the
// table is not behind. Records without a row are dropped, which is counted under "no_row", or "row_newer" if the row is younger than the record, or "expired"
// if it is younger and the record older than the history; as are those with a null key or value, under "null_key" and "null_value". Updates of the table send nothing. A stream that was given new keys must go through Repartition first.
func (s Stream[K, V]) JoinAsOf[V2, R any](t VersionedTable[K, V2], f func(V, V2) R, opts ...AsOfOption) Stream[K, R] {
	if s.s == nil {
		return Stream[K, R]{}
	}
	out, delay, ok := asOf[K, V, V2, R](s.s, t, "KSTREAM-JOIN-", f != nil, opts)
	if !ok {
		return Stream[K, R]{}
	}
	s.s.at.attach(func(w *wiring) engine.Receive[K, V] {
		lookup, why := t.rows.asOf(w)
		return delay(w, operator.JoinTable(w.task, out.run, lookup, why, f, out.receive(w)))
	})
	return Stream[K, R]{revalued(s.s, out)}
}

// LeftJoinAsOf is JoinAsOf that keeps records without a row, with nil, and those with a null key, which wait for nothing. The pointer's target is a copy, and f's to keep.
func (s Stream[K, V]) LeftJoinAsOf[V2, R any](t VersionedTable[K, V2], f func(V, *V2) R, opts ...AsOfOption) Stream[K, R] {
	if s.s == nil {
		return Stream[K, R]{}
	}
	out, delay, ok := asOf[K, V, V2, R](s.s, t, "KSTREAM-LEFTJOIN-", f != nil, opts)
	if !ok {
		return Stream[K, R]{}
	}
	out.nullKeys = true
	s.s.at.attach(func(w *wiring) engine.Receive[K, V] {
		lookup, why := t.rows.asOf(w)
		return delay(w, operator.LeftJoinTable(w.task, out.run, lookup, why, f, out.receive(w)))
	})
	return Stream[K, R]{revalued(s.s, out)}
}

// asOf is the node of a join with a versioned table, and what holds records back before it.
func asOf[K comparable, V, V2, R any](s *stream[K, V], t VersionedTable[K, V2], prefix string, given bool, opts []AsOfOption) (*place[K, R], func(*wiring, engine.Receive[K, V]) engine.Receive[K, V], bool) {
	out, ok := lookUp[K, V, V2, R](s, t.Table, prefix, given, gather(s.at.b, opts))
	if ok && t.rows == nil {
		out.fault("it was given a table without history", "use one that Builder.VersionedTable returned")
		ok = false
	}
	at := func(_ *wiring, join engine.Receive[K, V]) engine.Receive[K, V] { return join }
	if !ok {
		return out, at, false
	}
	waits := false
	for _, o := range opts {
		o, is := o.(waitOption)
		switch {
		case !is:
		case waits:
			out.fault("it waits twice", "give one WaitFor")
		default:
			waits, at = true, delayed(s, out.node, o, t.rows.history)
		}
	}
	return out, at, true
}

// delayed is what holds the records of a stream back at a node.
func delayed[K comparable, V any](s *stream[K, V], n *node, o waitOption, history time.Duration) func(*wiring, engine.Receive[K, V]) engine.Receive[K, V] {
	b := n.b
	fault := func(problem, remedy string) { b.faults.add(n.id, o.name, problem, remedy, o.place) }
	if problem := badName(o.name); problem != "" {
		fault(problem, nameRemedy)
	}
	switch {
	case o.d < time.Millisecond:
		fault(fmt.Sprintf("it waits for %v", o.d), "give at least one millisecond, or leave WaitFor out")
	case o.d > history:
		fault(fmt.Sprintf("it waits for %v, but the table's history is %v: what was valid then would be forgotten", o.d, history), "wait for less, or give the table a longer history")
	}
	make := func(key, value any) *state.Decl {
		d := state.Of(store.NewKeyValue(o.name, operator.BufferSerde[string](key), operator.BufferSerde[[]byte](value), store.FiniteKeys(1)))
		d.Place, d.Expected = o.place, 0 // it is bounded by time
		return d
	}
	ref := &storeRef{decl: make(nil, nil), node: n}
	b.stores = append(b.stores, ref)
	var ks serde.Serde[K]
	var vs serde.Serde[V]
	b.later = append(b.later, func() {
		n.uses(ref.decl)
		ref.in = true
	})
	ref.ready = func() {
		var ok, ok2 bool
		ks, ok = s.key.need(n, "key")
		vs, ok2 = s.value.need(n, "value")
		if !ok || !ok2 {
			return
		}
		d := make(ks, vs)
		d.Version = b.version
		*ref.decl = *d
	}
	return func(w *wiring, join engine.Receive[K, V]) engine.Receive[K, V] {
		topic := fmt.Sprintf("%s-%s-changelog", w.task.Env().App, ref.decl.Full())
		key, err := operator.Bound(w.task, ks, topic, true)
		w.fail(err)
		value, err := operator.Bound(w.task, vs, topic, false)
		w.fail(err)
		if w.err != nil {
			return join
		}
		r, err := operator.Delayed(w.task, n.run, operator.Delay[K, V]{Store: ref.decl.Name, Wait: o.d.Milliseconds(), Key: key, Value: value}, join)
		w.fail(err)
		return r
	}
}
