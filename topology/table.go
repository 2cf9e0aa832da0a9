package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// Table is the latest value of each key. Deletes pass through every operator; functions never see them. Each update is sent on at once, unless
// OnCommit says otherwise. The zero Table names no place: what is made of it is not part of any topology.
type Table[K comparable, V any] struct{ t *table[K, V] }

// Change is an update of a row: Old is nil for a new row, New for a deleted one.
type Change[V any] struct{ Old, New *V }

type table[K comparable, V any] struct {
	at        *place[K, operator.Change[V]]
	key       codec[K]
	value     codec[V]
	fromKey   untouched[K]
	fromValue untouched[V]
	info      *tableInfo
	kept      *keptRows[K, V] // shared by all copies of the table
}

// keptRows is where the rows of a table are found.
type keptRows[K comparable, V any] struct {
	rows    *rowsOf[K, V] // nil if it has no store of its own
	through func(*wiring) operator.Lookup[K, V]
}

func newTable[K comparable, V any](at *place[K, operator.Change[V]], key codec[K], value codec[V], info tableInfo) *table[K, V] {
	info.node = at.node
	t := &table[K, V]{at: at, key: key, value: value, info: &info, kept: &keptRows[K, V]{}}
	at.b.tables = append(at.b.tables, t.info)
	return t
}

// sourceTable is a table that is stored if something needs it.
func sourceTable[K comparable, V any](at *place[K, operator.Change[V]], key codec[K], value codec[V], rows *rowsOf[K, V]) *table[K, V] {
	t := newTable(at, key, value, tableInfo{rows: rows.storeRef})
	t.kept.rows = rows
	return t
}

// storedTable is a table that is always stored.
func storedTable[K comparable, V any](at *place[K, operator.Change[V]], key codec[K], value codec[V], rows *rowsOf[K, V]) *table[K, V] {
	t := sourceTable(at, key, value, rows)
	t.info.always = true
	return t
}

// open is the table's store in a task; nil if it is not stored, or after a failure, which is kept in w.
func (t *table[K, V]) open(w *wiring) state.Table[K, V] {
	if !t.info.stored() {
		return nil
	}
	rows, err := operator.Rows[K, V](w.task, t.kept.rows.decl.Name)
	w.fail(err)
	return rows
}

// take makes the operator of a table that is read from a topic or stream.
func (t *table[K, V]) take(w *wiring) operator.Take[K, V] {
	rows, next := t.open(w), t.at.receive(w)
	if rows != nil {
		operator.Expiry(w.task, t.at.run, t.kept.rows.decl.Name, rows, t.info.old, next)
	}
	return operator.Table(w.task, t.at.run, rows, next)
}

// of is how the table is kept, for its operator.
func (t *table[K, V]) of(w *wiring) operator.TableOf[K, V] {
	return operator.TableOf[K, V]{Rows: t.open(w), Old: t.info.old}
}

// lookup reads rows, from the table's store or through the tables it is made of.
func (t *table[K, V]) lookup(w *wiring) operator.Lookup[K, V] {
	if t.info.stored() && t.kept.rows != nil { // a VersionedTable has a store of another kind
		switch rows := t.open(w); {
		case rows == nil:
			return nil
		case w.told:
			return operator.Told(rows)
		default:
			return operator.Stored(rows)
		}
	}
	return t.kept.through(w)
}

// ToTable reads the stream as a table: the latest value of each key; a null deletes. Records with a null key are dropped and counted. The rows are stored, under name,
// only if something needs them stored; see Builder.Table. A stream that was given new keys goes through a repartition topic of the same name.
func (s Stream[K, V]) ToTable[B bounds](name string, bound B, opts ...StateOption) Table[K, V] {
	if s.s == nil {
		return Table[K, V]{}
	}
	b := s.s.at.b
	o := gather(b, opts)
	nodeName := b.number("KSTREAM-TOTABLE-", o)
	rows := declare[K, V](b, name, store.Bound(bound), o)
	in := s.s
	if in.rekeyed != nil {
		in = repartition(in, name, nil, rows.decl, settings{place: o.place})
	}
	out := add[K, operator.Change[V]](b, nodeName, o, in.at.node)
	out.alike = append(out.alike, []*node{in.at.node})
	rows.belongs(out.node, in.key, in.value)
	t := sourceTable(out, in.key, in.value, rows)
	t.fromKey, t.fromValue = in.fromKey, in.fromValue
	in.at.attach(func(w *wiring) engine.Receive[K, V] {
		take := t.take(w)
		return func(r *engine.Rec, k K, v V) { take(r, k, v, false) }
	})
	return Table[K, V]{t}
}

// Filter keeps the rows for which keep is true.
func (t Table[K, V]) Filter(keep func(K, V) bool, opts ...NodeOption) Table[K, V] {
	if t.t == nil {
		return t
	}
	from, o := t.t, gather(t.t.at.b, opts)
	out := add[K, operator.Change[V]](from.at.b, from.at.b.number("KTABLE-FILTER-", o), o, from.at.node)
	out.needs(keep != nil)
	to := newTable(out, from.key, from.value, tableInfo{parent: from.info, filter: true})
	to.fromKey, to.fromValue = from.fromKey, from.fromValue
	to.kept.through = func(w *wiring) operator.Lookup[K, V] {
		return operator.FilterLookup(w.task, out.run, keep, from.lookup(w))
	}
	from.at.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] {
		return operator.FilterTable(w.task, out.run, keep, to.of(w), out.receive(w))
	})
	return Table[K, V]{to}
}

// MapValues changes the rows. f may be called more than once for a row.
func (t Table[K, V]) MapValues[V2 any](f func(V) V2, opts ...NodeOption) Table[K, V2] {
	if t.t == nil {
		return Table[K, V2]{}
	}
	var withKey func(K, V) V2
	if f != nil {
		withKey = func(_ K, v V) V2 { return f(v) }
	}
	return Table[K, V2]{mapTable(t.t, withKey, gather(t.t.at.b, opts))}
}

// MapWithKey changes the rows by key and value; the key stays. f may be called more than once for a row.
func (t Table[K, V]) MapWithKey[V2 any](f func(K, V) V2, opts ...NodeOption) Table[K, V2] {
	if t.t == nil {
		return Table[K, V2]{}
	}
	return Table[K, V2]{mapTable(t.t, f, gather(t.t.at.b, opts))}
}

func mapTable[K comparable, V, V2 any](from *table[K, V], f func(K, V) V2, o settings) *table[K, V2] {
	out := add[K, operator.Change[V2]](from.at.b, from.at.b.number("KTABLE-MAPVALUES-", o), o, from.at.node)
	out.needs(f != nil)
	to := newTable(out, from.key, inherit[V, V2](from.value, out.node), tableInfo{parent: from.info})
	to.fromKey = from.fromKey
	to.kept.through = func(w *wiring) operator.Lookup[K, V2] { return operator.MapLookup(w.task, out.run, f, from.lookup(w)) }
	from.at.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] {
		return operator.MapTable(w.task, out.run, f, to.of(w), out.receive(w))
	})
	return to
}

// Stream is the updates as events, without the deletes.
func (t Table[K, V]) Stream() Stream[K, V] {
	if t.t == nil {
		return Stream[K, V]{}
	}
	b, o := t.t.at.b, gather(t.t.at.b, []NodeOption(nil))
	out := add[K, V](b, b.number("KTABLE-TOSTREAM-", o), o, t.t.at.node)
	t.t.at.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] { return operator.Updates(out.receive(w)) })
	return Stream[K, V]{&stream[K, V]{at: out, key: t.t.key, value: t.t.value, fromKey: t.t.fromKey, fromValue: t.t.fromValue}}
}

// Changes is the updates as events, deletes included, made into values by f.
func (t Table[K, V]) Changes[R any](f func(K, Change[V]) R, opts ...NodeOption) Stream[K, R] {
	if t.t == nil {
		return Stream[K, R]{}
	}
	b, o := t.t.at.b, gather(t.t.at.b, opts)
	out := add[K, R](b, b.number("KTABLE-TOSTREAM-", o), o, t.t.at.node)
	out.needs(f != nil)
	t.t.info.wantsOld = true
	t.t.at.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] {
		return operator.ChangeEvents(w.task, out.run, func(k K, old, new *V) R { return f(k, Change[V]{old, new}) }, out.receive(w))
	})
	return Stream[K, R]{&stream[K, R]{at: out, key: t.t.key, value: inherit[V, R](t.t.value, out.node), fromKey: t.t.fromKey}}
}

// To writes the updates to a topic, deletes as null values; the topic should be compacted.
func (t Table[K, V]) To(topic Topic[K, V], opts ...SinkOption) {
	if t.t == nil {
		return
	}
	b, o := t.t.at.b, gather(t.t.at.b, opts)
	through := settings{place: o.place}
	mid := add[K, operator.Change[V]](b, b.number("KTABLE-TOSTREAM-", through), through, t.t.at.node)
	t.t.at.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] { return mid.receive(w) })
	to := writer(mid.node, topic, nil, o)
	mid.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] {
		r, err := operator.TableSink(w.task, to.run, to.target(w, t.t.fromKey, t.t.fromValue))
		w.fail(err)
		return r
	})
}

// OnCommit sends on, at each commit, the last value of each row that changed since the one before, in the order in which the rows changed first. Which updates fall
// together depends on timing. What is sent on has no headers, and no Metadata in a processor.
func (t Table[K, V]) OnCommit() Table[K, V] {
	if t.t == nil {
		return t
	}
	from, o := t.t, gather(t.t.at.b, []NodeOption(nil))
	out := add[K, operator.Change[V]](from.at.b, from.at.b.number("KTABLE-ONCOMMIT-", o), o, from.at.node)
	to := newTable(out, from.key, from.value, tableInfo{parent: from.info, passes: true, filter: true})
	to.kept.through = from.lookup
	from.at.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] {
		held := operator.NewHeld(w.task, from.info.old, out.receive(w))
		w.holds = append(w.holds, hold{out.id, held.Flush})
		return held.Receive
	})
	return Table[K, V]{to}
}

// Stored keeps the rows under name, to query them or to save computing them again. They need no bound of their own: they are never more than the rows
// they come from. It holds for t itself, whoever else uses it.
func (t Table[K, V]) Stored(name string, opts ...StateOption) Table[K, V] {
	if t.t == nil {
		return t
	}
	n, o := t.t.at.node, gather(t.t.at.b, opts)
	wrong := func(problem, remedy string) Table[K, V] {
		n.b.faults.add(len(n.b.nodes), name, problem, remedy, o.place)
		return t
	}
	switch {
	case t.t.info.rows != nil:
		return wrong("the table has a store already, "+t.t.info.rows.decl.Name, "use Store to have its handle")
	case t.t.info.passes:
		return wrong("what holds back updates only delays the rows of a table", "call Stored on the table before it")
	}
	n.run.OnDrop = append(n.run.OnDrop, o.onDrop...)
	rows := declare[K, V](n.b, name, store.FiniteKeys(1), o)
	rows.belongs(n, t.t.key, t.t.value)
	rows.bounds = t.t.info.bound()
	t.t.kept.rows = rows
	t.t.info.rows, t.t.info.always = rows.storeRef, true
	return t
}

// Store is the handle to query the rows, and to open them in a processor. A table that has no store is a fault at Build; see Stored. A table read from a topic is stored
// if its handle is asked for.
func (t Table[K, V]) Store() store.KeyValueHandle[K, V] {
	if t.t == nil {
		return store.KeyValueHandle[K, V]{}
	}
	if t.t.kept.rows == nil {
		n, remedy := t.t.at.node, "call Stored with a name before Store"
		if t.t.info.rows != nil {
			remedy = "use VersionedTable.Store: its rows are stored with their history"
		}
		n.b.faults.add(len(n.b.nodes), n.run.Name, "the table is not stored", remedy, caller())
		return store.KeyValueHandle[K, V]{}
	}
	t.t.info.asked = true
	return t.t.kept.rows.handle
}

// WithValue sets the serde of the value for what follows.
func (t Table[K, V]) WithValue(value serde.Serde[V]) Table[K, V] {
	if t.t == nil {
		return t
	}
	out := *t.t
	out.value = codec[V]{s: value, from: t.t.at.node}
	out.at.checkSerde(value != nil, "WithValue")
	return Table[K, V]{&out}
}
