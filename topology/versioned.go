package topology

import (
	"strings"
	"time"

	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// VersionedTable is a table that remembers its rows' past: see Builder.VersionedTable. As a Table it is what its rows are now. An update that is
// older than the newest of its row changes the past alone: Stream, Changes and To show it; OnCommit, groupings and joins of tables, which work with
// what rows are now, leave it out, joins counting it under "late". A table that is Stored further down knows no versions: there the last update
// holds, as in Kafka Streams.
type VersionedTable[K comparable, V any] struct {
	Table[K, V]
	rows *versions[K, V]
}

// versions is the store of a VersionedTable.
type versions[K comparable, V any] struct {
	*storeRef
	handle  store.VersionedHandle[K, V]
	history time.Duration
}

// VersionedTable is a Table that remembers what its rows were, up to history back, so that streams can be joined as of their own time. Each record
// is valid from its own time on, wherever it comes in the topic; those older than the history are dropped, counted under "expired". How far back
// is counted from the largest time in the partition. The rows are always stored, under name; the bound is that of the newest ones, and no TTL.
func (b *Builder) VersionedTable[K comparable, V any](name string, t Topic[K, V], bound store.Bound, history time.Duration, opts ...TableOption) VersionedTable[K, V] {
	o := gather(b, opts)
	forSource := o
	forSource.name, forSource.named = "", false // the name is the table's
	src := sourceOf(b, t, forSource)
	if src == nil {
		return VersionedTable[K, V]{}
	}
	out := add[K, operator.Change[V]](b, b.number("KTABLE-SOURCE-", o), o, src.node)
	if o.sourceChangelog {
		out.fault("a table with history cannot be restored from its source topic, where compaction leaves one record of each key", "leave SourceIsChangelog out")
	}
	rows := &versions[K, V]{handle: store.NewVersioned(name, t.key, t.value, bound, history, o.store...), history: history}
	rows.storeRef = versionedRef(out.node, state.Of(rows.handle), o)
	key, value := codec[K]{s: t.key, from: src.node}, codec[V]{s: t.value, from: src.node}
	tab := newTable(out, key, value, tableInfo{rows: rows.storeRef, always: true})
	tab.fromKey, tab.fromValue = &key, &value
	tab.kept.through = func(w *wiring) operator.Lookup[K, V] {
		if rows := rows.open(w); rows != nil {
			return operator.Newest(rows)
		}
		return nil
	}
	src.takes = append(src.takes, func(w *wiring, _ serde.Serde[V]) operator.Take[K, V] {
		return operator.VersionedTable(w.task, out.run, rows.open(w), tab.info.old, out.receive(w))
	})
	return VersionedTable[K, V]{Table[K, V]{tab}, rows}
}

// versionedRef is the store of a VersionedTable for Build.
func versionedRef(n *node, d *state.Decl, o settings) *storeRef {
	d.Place = o.place
	ref := &storeRef{decl: d, node: n}
	ref.ready = func() {
		for _, f := range d.Faults {
			if f.Problem == "the key has no serde" || f.Problem == "the value has no serde" || strings.HasPrefix(f.Problem, "keys of type") {
				continue // the topic and the node have that fault already
			}
			n.b.faults.add(n.id, d.Name, f.Problem, f.Remedy, o.place)
		}
		if d.Version == 0 {
			d.Version = n.b.version
		}
	}
	n.b.stores = append(n.b.stores, ref)
	return ref
}

// open is the store in a task; nil after a failure, which is kept in w.
func (r *versions[K, V]) open(w *wiring) state.Versions[K, V] {
	rows, err := operator.Versions[K, V](w.task, r.decl.Name)
	w.fail(err)
	return rows
}

// Store is the handle to query the rows and their past, and to open them in a processor.
func (t VersionedTable[K, V]) Store() store.VersionedHandle[K, V] {
	if t.rows == nil {
		return store.VersionedHandle[K, V]{}
	}
	return t.rows.handle
}

// asOf is the lookup of the rows as of a record's time, and what says why it found nothing.
func (r *versions[K, V]) asOf(w *wiring) (operator.Lookup[K, V], operator.Why[K]) {
	if rows := r.open(w); rows != nil {
		return operator.AsOf(rows), operator.AsOfWhy(rows)
	}
	return nil, nil
}
