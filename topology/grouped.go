package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// Grouped is a stream about to be aggregated by key. Records with a null key are dropped and counted.
type Grouped[K comparable, V any] struct{ g *grouped[K, V] }

type grouped[K comparable, V any] struct {
	s      *stream[K, V]
	o      settings
	shared *stream[K, V] // behind the topic that several aggregations share
}

// GroupByKey groups by the key. If the key was changed before, the aggregation goes through a repartition topic named after its store.
func (s Stream[K, V]) GroupByKey(opts ...GroupOption) Grouped[K, V] {
	if s.s == nil {
		return Grouped[K, V]{}
	}
	return Grouped[K, V]{&grouped[K, V]{s: s.s, o: gather(s.s.at.b, opts)}}
}

// GroupBy groups by another key, through a repartition topic named after the aggregation's store.
func (s Stream[K, V]) GroupBy[K2 comparable](key func(K, V) K2, opts ...GroupOption) Grouped[K2, V] {
	if s.s == nil {
		return Grouped[K2, V]{}
	}
	o := gather(s.s.at.b, opts)
	return Grouped[K2, V]{&grouped[K2, V]{s: selectKey(s.s, key, settings{place: o.place}), o: o}}
}

// at is the stream where it is partitioned by its key, for the aggregation that owns rows.
func (g *grouped[K, V]) at(name string, rows *state.Decl) *stream[K, V] {
	switch {
	case g.s.rekeyed == nil:
		return g.s
	case g.o.shared == "":
		return repartition(g.s, name, nil, rows, g.o)
	case g.shared == nil:
		g.shared = repartition(g.s, g.o.shared, nil, nil, g.o)
	}
	return g.shared
}

// aggregate makes the node and the table of an aggregation. run makes its operator.
func aggregate[K comparable, V, A any](g *grouped[K, V], prefix, name string, value codec[A], bound store.Bound, o settings, given bool,
	run func(w *wiring, n *engine.Node, rows state.Table[K, A], old bool, next engine.Receive[K, operator.Change[A]]) engine.Receive[K, V]) Table[K, A] {
	b := g.s.at.b
	nodeName := b.number(prefix, o)
	rows := declare[K, A](b, name, bound, o)
	s := g.at(name, rows.decl)
	out := add[K, operator.Change[A]](b, nodeName, o, s.at.node)
	out.needs(given)
	if value.from == nil {
		value.from = out.node
	}
	rows.belongs(out.node, s.key, value)
	out.alike = append(out.alike, []*node{s.at.node})
	tab := storedTable(out, s.key, value, rows)
	tab.fromKey = s.fromKey
	s.at.attach(func(w *wiring) engine.Receive[K, V] {
		table, next := tab.open(w), out.receive(w)
		if table == nil {
			return nil
		}
		operator.Expiry(w.task, out.run, name, table, tab.info.old, next)
		return run(w, out.run, table, tab.info.old, next)
	})
	return Table[K, A]{tab}
}

// Count counts the records of each key.
func (g Grouped[K, V]) Count[B bounds](name string, bound B, opts ...StateOption) Table[K, int64] {
	if g.g == nil {
		return Table[K, int64]{}
	}
	return aggregate(g.g, "KSTREAM-AGGREGATE-", name, codec[int64]{s: serde.Int64()}, store.Bound(bound), gather(g.g.s.at.b, opts), true,
		func(w *wiring, n *engine.Node, rows state.Table[K, int64], _ bool, next engine.Receive[K, operator.Change[int64]]) engine.Receive[K, V] {
			return operator.Count[K, V](w.task, n, rows, next)
		})
}

// Reduce combines the values of each key; the first is taken as it is.
func (g Grouped[K, V]) Reduce[B bounds](name string, bound B, f func(sum, v V) V, opts ...StateOption) Table[K, V] {
	if g.g == nil {
		return Table[K, V]{}
	}
	return aggregate(g.g, "KSTREAM-REDUCE-", name, g.g.s.value, store.Bound(bound), gather(g.g.s.at.b, opts), f != nil,
		folding(operator.Fold[K, V, V]{First: func(v V) V { return v }, Add: func(_ K, v, sum V) V { return f(sum, v) }}))
}

// Aggregate folds the values of each key into an A, beginning with A's zero value. add may change the aggregate it is given, and returns it; it must not keep it. If add
// fails, the old value stays. So that this holds, and nothing leaks into the store, an A that holds pointers (slices, maps, strings) is decoded anew each
// time it is read; an A without pointers, such as a struct of numbers, is kept decoded and is faster by far. All Aggregates follow these rules.
func (g Grouped[K, V]) Aggregate[A any](name string, state serde.Serde[A], bound store.Bound, add func(K, V, A) A, opts ...StateOption) Table[K, A] {
	if g.g == nil {
		return Table[K, A]{}
	}
	return aggregate(g.g, "KSTREAM-AGGREGATE-", name, codec[A]{s: state}, bound, gather(g.g.s.at.b, opts), add != nil, folding(operator.Fold[K, V, A]{Add: add}))
}

// AggregateFrom is Aggregate beginning with what start returns.
func (g Grouped[K, V]) AggregateFrom[A any](name string, state serde.Serde[A], bound store.Bound, start func() A, add func(K, V, A) A, opts ...StateOption) Table[K, A] {
	if g.g == nil {
		return Table[K, A]{}
	}
	return aggregate(g.g, "KSTREAM-AGGREGATE-", name, codec[A]{s: state}, bound, gather(g.g.s.at.b, opts), start != nil && add != nil, folding(operator.Fold[K, V, A]{Start: start, Add: add}))
}

func folding[K comparable, V, A any](fold operator.Fold[K, V, A]) func(*wiring, *engine.Node, state.Table[K, A], bool, engine.Receive[K, operator.Change[A]]) engine.Receive[K, V] {
	return func(w *wiring, n *engine.Node, rows state.Table[K, A], old bool, next engine.Receive[K, operator.Change[A]]) engine.Receive[K, V] {
		return operator.Aggregate(w.task, n, rows, fold, old, next)
	}
}
