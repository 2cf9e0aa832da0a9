package topology

import (
	"context"
	"fmt"
	"slices"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// GlobalTable is a table of which every instance has all rows: see Builder.GlobalTable. The zero GlobalTable names no table.
type GlobalTable[K comparable, V any] struct{ g *globalTable[K, V] }

type globalTable[K comparable, V any] struct {
	b      *Builder
	topic  Topic[K, V]
	handle store.KeyValueHandle[K, V]
}

// global is a GlobalTable in the graph.
type global struct {
	source *node
	decl   *state.Decl
	check  func(context.Context) (func(key, value []byte) error, error)
}

// GlobalTable copies the whole topic to every instance. It is complete as of the start before the first record is processed, and follows the topic
// from then on: a record sees it as of one moment, that of the record's beginning. Its updates trigger nothing. The rows are kept under name in the
// instance's StateDir and read anew from the topic, which should be compacted, where that is lost; there is no changelog. It keeps every row until the
// topic deletes it with a null, so the bound cannot be a TTL.
//
// A row keeps the record's timestamp, whatever TimedBy says. Records with a null key are dropped and counted. A record that cannot be decoded ends the
// application, or is left out with OnError(Skip).
func (b *Builder) GlobalTable[K comparable, V any](name string, t Topic[K, V], bound store.Bound, opts ...TableOption) GlobalTable[K, V] {
	o := gather(b, opts)
	use(b, len(b.nodes), t, o.place)
	forSource := settings{place: o.place, onError: o.onError}
	in := add[K, V](b, b.number("KSTREAM-SOURCE-", forSource), forSource)
	in.kind, in.topic = source, &engine.Topic{Name: t.name}
	out := add[K, V](b, b.number("KTABLE-SOURCE-", o), o, in.node)
	if o.onError.Kind == engine.DeadLetter {
		out.fault("a global table belongs to no transaction, so it can send nothing to a dead letter topic", "use OnError(Skip), or leave OnError out")
	}
	if o.sourceChangelog {
		out.fault("a global table is restored from its topic in any case", "leave SourceIsChangelog out")
	}
	h := store.NewKeyValue(name, t.key, t.value, bound, o.store...)
	d := state.Of(h)
	if d.TTL > 0 {
		out.fault("a global table has no TTL: its rows are those of the topic", "use store.FiniteKeys")
	}
	d.Source = t.name
	ref := versionedRef(out.node, d, o)
	ref.in = true
	out.stores = append(out.stores, d)
	b.globals = append(b.globals, &global{source: in.node, decl: d, check: t.check})
	return GlobalTable[K, V]{&globalTable[K, V]{b, t, h}}
}

// check makes what looks whether records of the topic can be decoded.
func (t Topic[K, V]) check(ctx context.Context) (func(key, value []byte) error, error) {
	keys, err := serde.Bind(ctx, t.key, serde.Target{Topic: t.name, Key: true})
	if err != nil {
		return nil, &state.Unbound{Topic: t.name, Key: true, Err: err}
	}
	values, err := serde.Bind(ctx, t.value, serde.Target{Topic: t.name})
	if err != nil {
		return nil, &state.Unbound{Topic: t.name, Err: err}
	}
	return func(key, value []byte) error {
		if _, err := keys.Decode(key); err != nil {
			return fmt.Errorf("decode key: %w", err)
		}
		if value == nil {
			return nil
		}
		if _, err := values.Decode(value); err != nil {
			return fmt.Errorf("decode value: %w", err)
		}
		return nil
	}, nil
}

// Store is the handle to query the rows. Processors cannot open it.
func (t GlobalTable[K, V]) Store() store.KeyValueHandle[K, V] {
	if t.g == nil {
		return store.KeyValueHandle[K, V]{}
	}
	return t.g.handle
}

// JoinGlobal looks up a key worked out of each record in a global table; ok false means there is none to look for. Records without a key or a row are dropped, counted under
// "null_key" and "no_row", and those with a null value under "null_value". The record's own key stays, and may be null. Nothing needs to be partitioned alike.
func (s Stream[K, V]) JoinGlobal[K2 comparable, V2, R any](t GlobalTable[K2, V2], key func(K, V) (k2 K2, ok bool), f func(V, V2) R, opts ...LookupOption) Stream[K, R] {
	if s.s == nil {
		return Stream[K, R]{}
	}
	out, ok := globalJoin[K, V, K2, V2, R](s.s, t, "KSTREAM-JOIN-", key != nil && f != nil, gather(s.s.at.b, opts))
	if !ok {
		return Stream[K, R]{}
	}
	s.s.at.attach(func(w *wiring) engine.Receive[K, V] {
		return operator.JoinGlobal(w.task, out.run, t.g.lookup(w), key, f, out.receive(w))
	})
	return Stream[K, R]{revalued(s.s, out)}
}

// LeftJoinGlobal is JoinGlobal that keeps records without a key or a row, with nil. The pointer's target is a copy, and f's to keep.
func (s Stream[K, V]) LeftJoinGlobal[K2 comparable, V2, R any](t GlobalTable[K2, V2], key func(K, V) (k2 K2, ok bool), f func(V, *V2) R, opts ...LookupOption) Stream[K, R] {
	if s.s == nil {
		return Stream[K, R]{}
	}
	out, ok := globalJoin[K, V, K2, V2, R](s.s, t, "KSTREAM-LEFTJOIN-", key != nil && f != nil, gather(s.s.at.b, opts))
	if !ok {
		return Stream[K, R]{}
	}
	s.s.at.attach(func(w *wiring) engine.Receive[K, V] {
		return operator.LeftJoinGlobal(w.task, out.run, t.g.lookup(w), key, f, out.receive(w))
	})
	return Stream[K, R]{revalued(s.s, out)}
}

// globalJoin is the node of a join with a global table, which takes records without a key.
func globalJoin[K comparable, V any, K2 comparable, V2, R any](s *stream[K, V], t GlobalTable[K2, V2], prefix string, given bool, o settings) (out *place[K, R], ok bool) {
	b := s.at.b
	out = add[K, R](b, b.number(prefix, o), o, s.at.node)
	out.needs(given)
	out.nullKeys = true
	return out, ours(out.node, t.g != nil, func() *Builder { return t.g.b }, "global table")
}

func (g *globalTable[K, V]) lookup(w *wiring) operator.Lookup[K, V] {
	key, err := operator.Bound(w.task, g.topic.key, g.topic.name, true)
	w.fail(err)
	value, err := operator.Bound(w.task, g.topic.value, g.topic.name, false)
	w.fail(err)
	l, err := operator.Global(w.task, state.Of(g.handle).Name, key, value)
	w.fail(err)
	return l
}

// globalOf is the global table that a part of the graph is; nil for other parts.
func (b *Builder) globalOf(p part) *global {
	for _, g := range b.globals {
		if slices.Contains(p.nodes, g.source) {
			return g
		}
	}
	return nil
}

// checkGlobals looks for processors that would open the store of a global table.
func (b *Builder) checkGlobals() {
	for _, n := range b.nodes {
		for _, g := range b.globals {
			if slices.Contains(n.stores, g.decl) && !slices.Contains(n.parents, g.source) {
				n.fault("it opens the store of the global table "+g.decl.Name+", which belongs to no task", "look rows up with JoinGlobal")
			}
		}
	}
}

// run is the table as the engine runs it.
func (g *global) run(id int, p part) *engine.GlobalTable {
	return &engine.GlobalTable{ID: id, Topic: g.source.topic.Name, Node: p.nodes[len(p.nodes)-1].run, Store: p.stores[0], Check: g.check}
}
