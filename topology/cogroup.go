package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/window"
)

// Cogroup begins an aggregate that several grouped streams feed.
func (g Grouped[K, V]) Cogroup[A any](add func(K, V, A) A) Cogrouped[K, A] {
	return Cogrouped[K, A]{}.And(g, add)
}

// Cogrouped is one aggregate of several streams. All must have the same number of partitions. Where more than one of them was given new keys, each
// needs a repartition topic of its own: name them with Shared.
type Cogrouped[K comparable, A any] struct{ c *cogrouped[K, A] }

type cogrouped[K comparable, A any] struct {
	b     *Builder
	feeds []feed[K, A]
	zero  bool // it was given a grouping that is not part of any topology
}

// feed is one stream of a cogroup, without the type of its values.
type feed[K comparable, A any] struct {
	given bool
	// join makes the stream one that is partitioned by its key, for the aggregation that owns rows.
	join func(name string, rows *state.Decl) joined[K, A]
}

// joined is a stream of a cogroup where it is partitioned by its key.
type joined[K comparable, A any] struct {
	at      *node
	key     codec[K]
	fromKey untouched[K]
	// attach connects the stream to an aggregation: one of rows for all time, or one in windows.
	attach        func(n *place[K, operator.Change[A]], t *table[K, A], first bool)
	attachWindows func(n *node, t *windowTable[K, A], merge func(k K, earlier, later A) A)
}

// And adds a stream with its own way of adding to the aggregate.
func (c Cogrouped[K, A]) And[V any](g Grouped[K, V], add func(K, V, A) A) Cogrouped[K, A] {
	out := &cogrouped[K, A]{}
	if c.c != nil {
		out.b, out.zero = c.c.b, c.c.zero
		out.feeds = append(out.feeds, c.c.feeds...)
	}
	switch {
	case g.g == nil && c.c != nil:
		out.zero = true
		return Cogrouped[K, A]{out}
	case g.g == nil:
		return Cogrouped[K, A]{}
	case out.b == nil:
		out.b = g.g.s.at.b
	}
	fold := operator.Fold[K, V, A]{Add: add}
	out.feeds = append(out.feeds, feed[K, A]{given: add != nil, join: func(name string, rows *state.Decl) joined[K, A] {
		s := g.g.at(name, rows)
		return joined[K, A]{at: s.at.node, key: s.key, fromKey: s.fromKey,
			attach: func(n *place[K, operator.Change[A]], t *table[K, A], first bool) {
				s.at.attach(func(w *wiring) engine.Receive[K, V] {
					rows, next := t.open(w), n.receive(w)
					if rows == nil {
						return nil
					}
					if first {
						operator.Expiry(w.task, n.run, t.kept.rows.decl.Name, rows, t.info.old, next)
					}
					return operator.Aggregate(w.task, n.run, rows, fold, t.info.old, next)
				})
			},
			attachWindows: func(n *node, t *windowTable[K, A], merge func(k K, earlier, later A) A) {
				s.at.attach(func(w *wiring) engine.Receive[K, V] { return t.feed(w, n, fold, merge) })
			}}
	}})
	return Cogrouped[K, A]{out}
}

// cogroup makes the nodes of an aggregation that several streams feed: one for each of them, and the one where their updates come together.
func cogroup[K comparable, A any, K2 comparable](c *cogrouped[K, A], name string, rows *state.Decl, o settings, given bool) (feeders []*place[K2, operator.Change[A]], out *place[K2, operator.Change[A]], streams []joined[K, A]) {
	var parents, at []*node
	for _, f := range c.feeds {
		each := settings{place: o.place, onDrop: o.onDrop}
		nodeName := c.b.number("COGROUPKSTREAM-AGGREGATE-", each)
		s := f.join(name, rows)
		n := add[K2, operator.Change[A]](c.b, nodeName, each, s.at)
		n.needs(f.given && given)
		feeders, streams = append(feeders, n), append(streams, s)
		parents, at = append(parents, n.node), append(at, s.at)
	}
	out = add[K2, operator.Change[A]](c.b, c.b.number("COGROUPKSTREAM-MERGE-", o), o, parents...)
	if c.zero {
		out.fault("it was given a zero grouping", "use one that GroupBy or GroupByKey returned; a fault before this one may be the cause")
	}
	for _, s := range at {
		if s.b != c.b {
			out.fault("it was given a grouping of another Builder", "declare one topology with one Builder")
		}
	}
	out.alike = append(out.alike, at)
	return feeders, out, streams
}

// sameKeys is a fault unless all streams of a cogroup agree on the serde of their keys.
func sameKeys[K comparable, A any](n *node, streams []joined[K, A]) codec[K] {
	key := streams[0].key
	for _, s := range streams[1:] {
		key = key.merge(s.key, n)
	}
	return key
}

// Aggregate keeps the aggregate, beginning with A's zero value. See Grouped.Aggregate for what the functions may do.
func (c Cogrouped[K, A]) Aggregate[B bounds](name string, state serde.Serde[A], bound B, opts ...StateOption) Table[K, A] {
	if c.c == nil {
		return Table[K, A]{}
	}
	o := gather(c.c.b, opts)
	rows := declare[K, A](c.c.b, name, store.Bound(bound), o)
	feeders, out, streams := cogroup[K, A, K](c.c, name, rows.decl, o, true)
	key := sameKeys(out.node, streams)
	rows.belongs(out.node, key, codec[A]{s: state, from: out.node})
	t := storedTable(out, key, codec[A]{s: state, from: out.node}, rows)
	t.info.node = feeders[0].node // the store belongs to those that write it
	for i, f := range feeders {
		f.uses(rows.decl)
		f.attach(func(w *wiring) engine.Receive[K, operator.Change[A]] { return out.receive(w) })
		streams[i].attach(f, t, i == 0)
	}
	return Table[K, A]{t}
}

// Windowed keeps one aggregate per key and window. All its streams share one stream time.
func (c Cogrouped[K, A]) Windowed[S windows](w S) WindowedCogroup[K, A] {
	if c.c == nil {
		return WindowedCogroup[K, A]{}
	}
	return WindowedCogroup[K, A]{c.c, c.c.b.windows(window.Spec(w))}
}

// Sessions keeps one aggregate per key and session. All its streams share one stream time.
func (c Cogrouped[K, A]) Sessions[S sessions](w S) SessionCogroup[K, A] {
	if c.c == nil {
		return SessionCogroup[K, A]{}
	}
	return SessionCogroup[K, A]{c.c, c.c.b.sessions(window.SessionSpec(w))}
}

// WindowedCogroup is a Cogrouped in windows.
type WindowedCogroup[K comparable, A any] struct {
	c     *cogrouped[K, A]
	spans *spans
}

// Aggregate keeps the aggregate of each key and window, beginning with A's zero value.
func (c WindowedCogroup[K, A]) Aggregate(name string, state serde.Serde[A], opts ...StateOption) WindowTable[K, A] {
	if c.c == nil {
		return WindowTable[K, A]{}
	}
	return cogroupWindows(c.c, c.spans, name, state, gather(c.c.b, opts), true, nil)
}

// SessionCogroup is a Cogrouped in sessions.
type SessionCogroup[K comparable, A any] struct {
	c     *cogrouped[K, A]
	spans *spans
}

// Aggregate keeps the aggregate of each session. merge makes one of two sessions that a record brought together; earlier comes first. See Sessions.Aggregate for how it is
// called.
func (c SessionCogroup[K, A]) Aggregate(name string, state serde.Serde[A], merge func(k K, earlier, later A) A, opts ...StateOption) WindowTable[K, A] {
	if c.c == nil {
		return WindowTable[K, A]{}
	}
	return cogroupWindows(c.c, c.spans, name, state, gather(c.c.b, opts), merge != nil, merge)
}

func cogroupWindows[K comparable, A any](c *cogrouped[K, A], x *spans, name string, state serde.Serde[A], o settings, given bool, merge func(k K, earlier, later A) A) WindowTable[K, A] {
	rows := declareWindows[K, A](c.b, name, x, o)
	feeders, out, streams := cogroup[K, A, window.Key[K]](c, name, rows.decl, o, given)
	x.check(out.node)
	key := sameKeys(out.node, streams)
	value := codec[A]{s: state, from: out.node}
	rows.belongs(out.node, key, value)
	t := windowTableOf(out, key, value, rows)
	t.info.node = feeders[0].node
	for i, f := range feeders {
		f.uses(rows.decl)
		streams[i].attachWindows(f.node, t, merge)
	}
	return WindowTable[K, A]{t}
}
