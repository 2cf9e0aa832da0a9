package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// GroupedTable is a table about to be aggregated: a changed row is first taken out, then put in.
//
// An aggregate with a TTL should live longer than the rows in it, by their own TTL for instance. When it has expired it forgets the rows of its group: one that is taken out later is
// not taken out of anything, unless the group has begun anew meanwhile, and then its aggregate is too small by it.
type GroupedTable[K comparable, V any] struct{ g *groupedTable[K, V] }

type groupedTable[K comparable, V any] struct {
	at     *place[K, operator.Change[V]]
	key    codec[K]
	value  codec[V]
	o      settings
	shared *place[K, operator.Change[V]] // behind the topic that several aggregations share
}

// GroupBy groups the rows by another key, through a repartition topic named after the aggregation's store. A row for which f makes a null value is in no group. Two equal
// rows must give equal results: what was put in is taken out by calling f again.
func (t Table[K, V]) GroupBy[K2 comparable, V2 any](f func(K, V) (K2, V2), opts ...GroupOption) GroupedTable[K2, V2] {
	if t.t == nil {
		return GroupedTable[K2, V2]{}
	}
	b, o := t.t.at.b, gather(t.t.at.b, opts)
	out := add[K2, operator.Change[V2]](b, b.number("KTABLE-SELECT-", o), o, t.t.at.node)
	out.needs(f != nil)
	t.t.info.wantsOld = true
	t.t.at.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] {
		return operator.GroupTable(w.task, out.run, f, out.receive(w))
	})
	return GroupedTable[K2, V2]{&groupedTable[K2, V2]{at: out, key: inherit[K, K2](t.t.key, out.node), value: inherit[V, V2](t.t.value, out.node), o: o}}
}

// through is the groups behind a repartition topic.
func (g *groupedTable[K, V]) through(name string, rows *state.Decl) *place[K, operator.Change[V]] {
	switch {
	case g.o.shared == "":
		return g.cross(name, rows)
	case g.shared == nil:
		g.shared = g.cross(g.o.shared, nil)
	}
	return g.shared
}

func (g *groupedTable[K, V]) cross(name string, owner *state.Decl) *place[K, operator.Change[V]] {
	b := g.at.b
	topic := &engine.Topic{Name: name, Repartition: true}
	o := settings{place: g.o.place, partitions: g.o.partitions}
	sink := add[K, operator.Change[V]](b, b.number("KSTREAM-SINK-", o), o, g.at.node)
	sink.kind, sink.topic = sinkNode, topic
	x := &crossing[K, V]{key: g.key, value: g.value}
	b.later = append(b.later, func() { x.resolve(sink.node) })
	serdes := func(w *wiring, topic string) (serde.Serde[K], serde.Serde[operator.Change[V]]) {
		key, value := x.bound(w, topic)
		return key, operator.Changes(value)
	}
	g.at.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] {
		full := topic.Full(w.task.Env().App)
		key, value := serdes(w, full)
		r, err := operator.Sink(w.task, sink.run, operator.Target[K, operator.Change[V]]{Topic: full, Key: key, Value: value})
		w.fail(err)
		return r
	})
	return fromTopic(sink.node, b.number("KSTREAM-SOURCE-", o), topic, owner, false, o, serdes)
}

func aggregateTable[K comparable, V, A any](g *groupedTable[K, V], prefix, name string, value codec[A], bound store.Bound, o settings, given bool, fold operator.TableFold[K, V, A]) Table[K, A] {
	b := g.at.b
	rows := declare[K, A](b, name, bound, o)
	in := g.through(name, rows.decl)
	out := add[K, operator.Change[A]](b, b.number(prefix, o), o, in.node)
	out.needs(given)
	if value.from == nil {
		value.from = out.node
	}
	rows.belongs(out.node, g.key, value)
	t := storedTable(out, g.key, value, rows)
	in.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] {
		table, next := t.open(w), out.receive(w)
		if table == nil {
			return nil
		}
		operator.Expiry(w.task, out.run, name, table, t.info.old, next)
		return operator.AggregateTable(w.task, out.run, table, fold, t.info.old, next)
	})
	return Table[K, A]{t}
}

// Count counts the rows of each key.
func (g GroupedTable[K, V]) Count[B bounds](name string, bound B, opts ...StateOption) Table[K, int64] {
	if g.g == nil {
		return Table[K, int64]{}
	}
	return aggregateTable(g.g, "KTABLE-AGGREGATE-", name, codec[int64]{s: serde.Int64()}, store.Bound(bound), gather(g.g.at.b, opts), true,
		operator.TableFold[K, V, int64]{Add: func(_ K, _ V, n int64) int64 { return operator.OneMore(n) }, Remove: func(_ K, _ V, n int64) int64 { return n - 1 }})
}

// Reduce combines the rows of each key; the first is taken as it is, and remove undoes what add did.
func (g GroupedTable[K, V]) Reduce[B bounds](name string, bound B, add, remove func(sum, v V) V, opts ...StateOption) Table[K, V] {
	if g.g == nil {
		return Table[K, V]{}
	}
	return aggregateTable(g.g, "KTABLE-REDUCE-", name, g.g.value, store.Bound(bound), gather(g.g.at.b, opts), add != nil && remove != nil, operator.TableFold[K, V, V]{
		First: func(v V) V { return v }, Add: func(_ K, v, sum V) V { return add(sum, v) }, Remove: func(_ K, v, sum V) V { return remove(sum, v) }})
}

// Aggregate folds the rows of each key into an A, beginning with A's zero value; remove undoes what add did. A nil pointer as result deletes the aggregate.
func (g GroupedTable[K, V]) Aggregate[A any](name string, state serde.Serde[A], bound store.Bound, add, remove func(K, V, A) A, opts ...StateOption) Table[K, A] {
	if g.g == nil {
		return Table[K, A]{}
	}
	return aggregateTable(g.g, "KTABLE-AGGREGATE-", name, codec[A]{s: state}, bound, gather(g.g.at.b, opts), add != nil && remove != nil, operator.TableFold[K, V, A]{Add: add, Remove: remove})
}
