package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/window"
)

// spans are the windows of an aggregation.
type spans struct {
	spec     window.Spec
	sessions window.SessionSpec
	w        span.Windows
	s        span.Sessions
	session  bool
}

func (b *Builder) windows(w window.Spec) *spans { return &spans{spec: w, w: span.Of(w)} }

func (b *Builder) sessions(w window.SessionSpec) *spans {
	return &spans{sessions: w, s: span.OfSessions(w), session: true}
}

// check reports what is wrong with the windows, at their aggregation.
func (x *spans) check(n *node) {
	for _, f := range x.faults() {
		n.fault(f.Problem, f.Remedy)
	}
}

func (x *spans) faults() []state.Fault {
	if x.session {
		return x.s.Faults()
	}
	return x.w.Faults()
}

// keySerde writes keys in these windows.
func keySerde[K comparable](x *spans, key serde.Serde[K]) serde.Serde[window.Key[K]] {
	if x.session {
		return window.SessionKeySerde(key)
	}
	return window.KeySerde(key, x.spec)
}

// WindowTable is the aggregates of keys in windows. It is read as a stream in one of three ways: Final, one result per window, when it is closed; Stream,
// every update; or OnCommit().Stream, the updates that lasted until a commit. Several readers of one table may each have their way. The zero WindowTable names no place.
type WindowTable[K comparable, V any] struct{ t *windowTable[K, V] }

type windowTable[K comparable, V any] struct {
	at     *place[window.Key[K], operator.Change[V]]
	key    codec[K]
	value  codec[V]
	spans  *spans
	info   *tableInfo
	kept   *keptWindows[K, V]              // shared by all copies
	result func() *place[window.Key[K], V] // the results of closed windows; nil if they are held back
}

// keptWindows is where the rows of a table of windows are found.
type keptWindows[K comparable, V any] struct {
	rows    *windowsOf[K, V] // nil if it has no store of its own
	through func(*wiring) operator.Lookup[window.Key[K], V]
	final   *place[window.Key[K], V] // the results, once somebody has asked for them
}

func newWindowTable[K comparable, V any](at *place[window.Key[K], operator.Change[V]], key codec[K], value codec[V], x *spans, info tableInfo) *windowTable[K, V] {
	info.node = at.node
	t := &windowTable[K, V]{at: at, key: key, value: value, spans: x, info: &info, kept: &keptWindows[K, V]{}}
	at.b.tables = append(at.b.tables, t.info)
	return t
}

// windowTableOf is the table of an aggregation.
func windowTableOf[K comparable, V any](at *place[window.Key[K], operator.Change[V]], key codec[K], value codec[V], rows *windowsOf[K, V]) *windowTable[K, V] {
	t := newWindowTable(at, key, value, rows.spans, tableInfo{rows: rows.storeRef, always: true})
	t.kept.rows = rows
	t.result = func() *place[window.Key[K], V] {
		if t.kept.final == nil {
			o := gather(at.b, []NodeOption(nil))
			t.kept.final = add[window.Key[K], V](at.b, at.b.number("KTABLE-TOSTREAM-", o), o, at.node)
			rows.final = true
		}
		return t.kept.final
	}
	return t
}

// derived is the result of an operator that makes each row of a row.
func derived[K comparable, V, V2 any](from *windowTable[K, V], out *place[window.Key[K], operator.Change[V2]], value codec[V2], info tableInfo) *windowTable[K, V2] {
	info.parent = from.info
	return newWindowTable(out, from.key, value, from.spans, info)
}

// results makes the results of a table from those of the one before, once.
func results[K comparable, V, V2 any](from *windowTable[K, V], to *windowTable[K, V2], prefix string, make func(*engine.Task, *engine.Node, engine.Receive[window.Key[K], V2]) engine.Receive[window.Key[K], V]) {
	if from.result == nil {
		return
	}
	to.result = func() *place[window.Key[K], V2] {
		if to.kept.final == nil {
			to.kept.final = then(from.result(), prefix, gather(to.at.b, []NodeOption(nil)), true, make)
		}
		return to.kept.final
	}
}

// open is the table's own store in a task; nil if it has none, or after a failure, which is kept in w.
func (t *windowTable[K, V]) open(w *wiring) state.Table[window.Key[K], V] {
	if !t.info.stored() {
		return nil
	}
	name := t.kept.rows.decl.Name
	if t.spans.session {
		rows, err := operator.SessionRows[K, V](w.task, name)
		if w.fail(err); err == nil {
			return operator.SessionRowsAsTable(rows)
		}
		return nil
	}
	rows, err := operator.WindowRows[K, V](w.task, name)
	if w.fail(err); err == nil {
		return operator.WindowRowsAsTable(rows)
	}
	return nil
}

func (t *windowTable[K, V]) of(w *wiring) operator.TableOf[window.Key[K], V] {
	return operator.TableOf[window.Key[K], V]{Rows: t.open(w), Old: t.info.old}
}

func (t *windowTable[K, V]) lookup(w *wiring) operator.Lookup[window.Key[K], V] {
	if t.info.stored() {
		if rows := t.open(w); rows != nil {
			return operator.Stored(rows)
		}
		return nil
	}
	return t.kept.through(w)
}

// Filter keeps the rows for which keep is true.
func (t WindowTable[K, V]) Filter(keep func(window.Key[K], V) bool, opts ...NodeOption) WindowTable[K, V] {
	if t.t == nil {
		return t
	}
	from, o := t.t, gather(t.t.at.b, opts)
	out := add[window.Key[K], operator.Change[V]](from.at.b, from.at.b.number("KTABLE-FILTER-", o), o, from.at.node)
	out.needs(keep != nil)
	to := derived(from, out, from.value, tableInfo{filter: true})
	to.kept.through = func(w *wiring) operator.Lookup[window.Key[K], V] {
		return operator.FilterLookup(w.task, out.run, keep, from.lookup(w))
	}
	from.at.attach(func(w *wiring) engine.Receive[window.Key[K], operator.Change[V]] {
		return operator.FilterTable(w.task, out.run, keep, to.of(w), out.receive(w))
	})
	results(from, to, "KSTREAM-FILTER-", func(t *engine.Task, n *engine.Node, next engine.Receive[window.Key[K], V]) engine.Receive[window.Key[K], V] {
		return operator.Filter(t, n, keep, next)
	})
	return WindowTable[K, V]{to}
}

// MapValues changes the rows. f may be called more than once for a row. A nil pointer is no row.
func (t WindowTable[K, V]) MapValues[V2 any](f func(V) V2, opts ...NodeOption) WindowTable[K, V2] {
	if t.t == nil {
		return WindowTable[K, V2]{}
	}
	from, o := t.t, gather(t.t.at.b, opts)
	withKey := func(_ window.Key[K], v V) V2 { return f(v) }
	out := add[window.Key[K], operator.Change[V2]](from.at.b, from.at.b.number("KTABLE-MAPVALUES-", o), o, from.at.node)
	out.needs(f != nil)
	to := derived(from, out, inherit[V, V2](from.value, out.node), tableInfo{})
	to.kept.through = func(w *wiring) operator.Lookup[window.Key[K], V2] {
		return operator.MapLookup(w.task, out.run, withKey, from.lookup(w))
	}
	from.at.attach(func(w *wiring) engine.Receive[window.Key[K], operator.Change[V]] {
		return operator.MapTable(w.task, out.run, withKey, to.of(w), out.receive(w))
	})
	results(from, to, "KSTREAM-MAPVALUES-", func(t *engine.Task, n *engine.Node, next engine.Receive[window.Key[K], V2]) engine.Receive[window.Key[K], V] {
		return operator.MapFinal(t, n, withKey, next)
	})
	return WindowTable[K, V2]{to}
}

// OnCommit sends on, at each commit, the last value of each window that changed. See Table.OnCommit.
func (t WindowTable[K, V]) OnCommit() WindowTable[K, V] {
	if t.t == nil {
		return t
	}
	from, o := t.t, gather(t.t.at.b, []NodeOption(nil))
	out := add[window.Key[K], operator.Change[V]](from.at.b, from.at.b.number("KTABLE-ONCOMMIT-", o), o, from.at.node)
	to := derived(from, out, from.value, tableInfo{passes: true, filter: true})
	to.kept.through, to.result = from.lookup, from.result
	from.at.attach(func(w *wiring) engine.Receive[window.Key[K], operator.Change[V]] {
		held := operator.NewHeld(w.task, from.info.old, out.receive(w))
		w.holds = append(w.holds, hold{out.id, held.Flush})
		return held.Receive
	})
	return WindowTable[K, V]{to}
}

// GroupBy groups the windows' rows by another key, as Table.GroupBy does. Rows that expire are not taken out of their groups.
func (t WindowTable[K, V]) GroupBy[K2 comparable, V2 any](f func(window.Key[K], V) (K2, V2), opts ...GroupOption) GroupedTable[K2, V2] {
	if t.t == nil {
		return GroupedTable[K2, V2]{}
	}
	b, o := t.t.at.b, gather(t.t.at.b, opts)
	out := add[K2, operator.Change[V2]](b, b.number("KTABLE-SELECT-", o), o, t.t.at.node)
	out.needs(f != nil)
	t.t.info.wantsOld = true
	t.t.at.attach(func(w *wiring) engine.Receive[window.Key[K], operator.Change[V]] {
		return operator.GroupTable(w.task, out.run, f, out.receive(w))
	})
	return GroupedTable[K2, V2]{&groupedTable[K2, V2]{at: out, key: inherit[K, K2](t.t.key, out.node), value: inherit[V, V2](t.t.value, out.node), o: o}}
}

// To writes the updates to a topic, partitioned by the key without its window. When a record joins sessions, or makes one longer, each session that was there before is
// written as a tombstone, under its old start and end, and then the new one. Windows that expire are not: the topic keeps its last word on each.
func (t WindowTable[K, V]) To(topic Topic[window.Key[K], V], opts ...SinkOption) {
	if t.t == nil {
		return
	}
	b, o := t.t.at.b, gather(t.t.at.b, opts)
	through := settings{place: o.place}
	mid := add[window.Key[K], operator.Change[V]](b, b.number("KTABLE-TOSTREAM-", through), through, t.t.at.node)
	t.t.at.attach(func(w *wiring) engine.Receive[window.Key[K], operator.Change[V]] { return mid.receive(w) })
	to := writer(mid.node, topic, nil, o)
	t.t.spans.fits(to.node, topic.key)
	mid.attach(func(w *wiring) engine.Receive[window.Key[K], operator.Change[V]] {
		r, err := operator.TableSink(w.task, to.run, to.target(w, nil, nil))
		w.fail(err)
		return r
	})
}

// Stored keeps the rows under name, as long as the windows they come from. The rows of an aggregation are stored without it.
func (t WindowTable[K, V]) Stored(name string, opts ...StateOption) WindowTable[K, V] {
	if t.t == nil {
		return t
	}
	n, o := t.t.at.node, gather(t.t.at.b, opts)
	wrong := func(problem, remedy string) WindowTable[K, V] {
		n.b.faults.add(len(n.b.nodes), name, problem, remedy, o.place)
		return t
	}
	switch {
	case t.t.kept.rows != nil:
		return wrong("the table has a store already, "+t.t.kept.rows.decl.Name, "use Store to have its handle")
	case t.t.info.passes:
		return wrong("what holds back updates only delays the rows of a table", "call Stored on the table before it")
	}
	n.run.OnDrop = append(n.run.OnDrop, o.onDrop...)
	rows := declareWindows[K, V](n.b, name, t.t.spans, o)
	rows.belongs(n, t.t.key, t.t.value)
	t.t.kept.rows = rows
	t.t.info.rows, t.t.info.always = rows.storeRef, true
	return t
}

// Store is the handle to query the windows, sessions included. Processors open windows with it; for sessions see SessionStore. A table that has no store is a fault at Build;
// see Stored.
func (t WindowTable[K, V]) Store() store.WindowHandle[K, V] {
	if rows := t.asked(); rows != nil {
		return rows.windows
	}
	return store.WindowHandle[K, V]{}
}

// SessionStore is the handle for processors that open a table of sessions. It is a fault if t has other windows.
func (t WindowTable[K, V]) SessionStore() store.SessionHandle[K, V] {
	if t.t != nil && !t.t.spans.session {
		n := t.t.at.node
		n.b.faults.add(len(n.b.nodes), n.run.Name, "SessionStore was called on a table whose windows are not sessions", "use Store", caller())
		return store.SessionHandle[K, V]{}
	}
	if rows := t.asked(); rows != nil {
		return rows.sessions
	}
	return store.SessionHandle[K, V]{}
}

// asked is the table's own store, which is then part of the topology.
func (t WindowTable[K, V]) asked() *windowsOf[K, V] {
	if t.t == nil {
		return nil
	}
	if t.t.kept.rows == nil {
		n := t.t.at.node
		n.b.faults.add(len(n.b.nodes), n.run.Name, "the table is not stored", "call Stored with a name before Store", caller())
		return nil
	}
	t.t.info.asked = true
	return t.t.kept.rows
}

// WithValue sets the serde of the value for what follows.
func (t WindowTable[K, V]) WithValue(value serde.Serde[V]) WindowTable[K, V] {
	if t.t == nil {
		return t
	}
	out := *t.t
	out.value = codec[V]{s: value, from: t.t.at.node}
	out.at.checkSerde(value != nil, "WithValue")
	return WindowTable[K, V]{&out}
}
