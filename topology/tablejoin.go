package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
)

// Join has a row for each key that both tables have. Both tables are stored. f may be called more than once for a row; a nil pointer as result is no row. The time of a row is
// that of the younger side. A row that a TTL ends leaves the join when its delete is sent on, not before.
func (t Table[K, V]) Join[V2, R any](right Table[K, V2], f func(V, V2) R, opts ...NodeOption) Table[K, R] {
	if t.t == nil {
		return Table[K, R]{}
	}
	return joinTables(t.t, right, operator.Inner(f), f != nil, gather(t.t.at.b, opts))
}

// LeftJoin has a row for each key of the left table; the right value is nil where there is none. The pointer's target is a copy, and f's to keep. For the rest see Join.
func (t Table[K, V]) LeftJoin[V2, R any](right Table[K, V2], f func(V, *V2) R, opts ...NodeOption) Table[K, R] {
	if t.t == nil {
		return Table[K, R]{}
	}
	return joinTables(t.t, right, operator.Left(f), f != nil, gather(t.t.at.b, opts))
}

// OuterJoin has a row for each key of either table; one value may be nil. The pointers' targets are copies, and f's to keep. For the rest see Join.
func (t Table[K, V]) OuterJoin[V2, R any](right Table[K, V2], f func(*V, *V2) R, opts ...NodeOption) Table[K, R] {
	if t.t == nil {
		return Table[K, R]{}
	}
	return joinTables(t.t, right, operator.Outer(f), f != nil, gather(t.t.at.b, opts))
}

func joinTables[K comparable, V, V2, R any](left *table[K, V], other Table[K, V2], pair operator.Pair[V, V2, R], given bool, o settings) Table[K, R] {
	b, at := left.at.b, len(left.at.b.nodes)
	merged, fromLeft, fromRight := joinNames(b, o)
	this := add[K, operator.Change[R]](b, fromLeft, o, left.at.node)
	this.needs(given)
	if !ours(this.node, other.t != nil, func() *Builder { return other.t.at.b }, "table") {
		return Table[K, R]{}
	}
	right := other.t
	that := add[K, operator.Change[R]](b, fromRight, o, right.at.node)
	out := add[K, operator.Change[R]](b, merged, o, this.node, that.node)
	out.alike = append(out.alike, []*node{left.at.node, right.at.node})
	m := meeting[K, V, V2, R]{pair, side[K, V]{left.at, left.info, left.lookup}, side[K, V2]{right.at, right.info, right.lookup}, this, that, out}
	to := newTable(out, left.key, inherit[V, R](left.value, out.node), m.rows())
	to.fromKey = both(left.fromKey, right.fromKey)
	to.kept.through = m.lookup
	m.attach(to.info, to.of)
	if pair.KeepLeft {
		b.later = append(b.later, func() { to.info.checkExpiry(at) })
	}
	return Table[K, R]{to}
}

// side is what a join needs of one of its tables.
type side[K comparable, V any] struct {
	at     *place[K, operator.Change[V]]
	info   *tableInfo
	lookup func(*wiring) operator.Lookup[K, V]
}

// partner reads rows for an update of the other side. What the join makes of that, a later update takes back: so until an expired row has left the
// join with its own delete, it must not be gone for the other side either.
func (s side[K, V]) partner(w *wiring) operator.Lookup[K, V] {
	w.told = true
	defer func() { w.told = false }()
	return s.lookup(w)
}

// meeting is a join of two tables, whatever their rows are: this and that are the nodes behind the left and the right one, and out the one behind both.
type meeting[K comparable, V, V2, R any] struct {
	pair            operator.Pair[V, V2, R]
	left            side[K, V]
	right           side[K, V2]
	this, that, out *place[K, operator.Change[R]]
}

// rows says what the join wants of its tables, and returns what is known of its own rows.
func (m *meeting[K, V, V2, R]) rows() tableInfo {
	left, right := m.left.info, m.right.info
	m.this.looksUp, m.that.looksUp = append(m.this.looksUp, right), append(m.that.looksUp, left)
	left.read, right.read = true, true
	left.wantsOld = left.wantsOld || m.pair.KeepLeft
	right.wantsOld = right.wantsOld || m.pair.KeepRight
	info := tableInfo{sides: []*tableInfo{left, right}, like: []*tableInfo{left}}
	if m.pair.KeepRight {
		info.like = append(info.like, right)
	}
	return info
}

func (m *meeting[K, V, V2, R]) lookup(w *wiring) operator.Lookup[K, R] {
	return operator.JoinLookup(w.task, m.out.run, m.pair, m.left.lookup(w), m.right.lookup(w))
}

// attach makes the join's code. of is where its rows go.
func (m *meeting[K, V, V2, R]) attach(info *tableInfo, of func(*wiring) operator.TableOf[K, R]) {
	m.left.at.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] {
		return operator.JoinLeft(w.task, m.this.run, m.pair, m.right.partner(w), info.old, m.this.receive(w))
	})
	m.right.at.attach(func(w *wiring) engine.Receive[K, operator.Change[V2]] {
		return operator.JoinRight(w.task, m.that.run, m.pair, m.left.partner(w), info.old, m.that.receive(w))
	})
	for _, p := range []*place[K, operator.Change[R]]{m.this, m.that} {
		p.attach(func(w *wiring) engine.Receive[K, operator.Change[R]] {
			return operator.Keep(w.task, m.out.run, of(w), m.out.receive(w))
		})
	}
}

// joinNames are the names of the three nodes of a join of tables, numbered as Kafka Streams does.
func joinNames(b *Builder, o settings) (merged, left, right string) {
	side := func(prefix, ending string) string {
		if o.named {
			o := o
			o.name += ending
			return b.number(prefix, o)
		}
		return b.number(prefix, o)
	}
	merged = b.number("KTABLE-MERGE-", o)
	return merged, side("KTABLE-JOINTHIS-", "-join-this"), side("KTABLE-JOINOTHER-", "-join-other")
}

// checkExpiry refuses a join that keeps rows without a partner where a row of both sides expires in one store: while one side is told, the other's is still
// there.
func (t *tableInfo) checkExpiry(at int) {
	for i, side := range t.sides {
		for _, base := range t.sides[1-i].bases() {
			if base.rows != nil && base.rows.decl.TTL > 0 && side.node.follows(base.node) {
				t.node.b.faults.add(at, t.node.run.Name, "both of its sides come from a table with a TTL, "+base.rows.decl.Name+", of which a row cannot be seen to expire on both at once",
					"read the topic as a second table for the other side, or give the table store.FiniteKeys", t.node.run.Place)
				return
			}
		}
	}
}
