package topology

import (
	"fmt"

	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/window"
)

// Join has a row for each key and window that both tables have. Both must have the same windows, or it is a fault; sessions meet where both begin and end alike. Otherwise it is
// Table.Join: f may be called more than once for a row, a nil pointer as result is no row, and the time of a row is that of the younger side. A window that has expired on one side
// is not there for the other, and one that has expired in the store of a join that is Stored gets no more updates: they are dropped, counted under "expired". The joined windows are closed when those of both tables are; Final is not to be had, Suppress with UntilWindowCloses is.
func (t WindowTable[K, V]) Join[V2, R any](right WindowTable[K, V2], f func(V, V2) R, opts ...NodeOption) WindowTable[K, R] {
	if t.t == nil {
		return WindowTable[K, R]{}
	}
	return joinWindows(t.t, right, operator.Inner(f), f != nil, gather(t.t.at.b, opts))
}

// LeftJoin has a row for each key and window of the left table; the right value is nil where there is none. The pointer's target is a copy, and f's to keep. What needs
// the rows as they were, such as GroupBy and Changes, needs the join Stored, as the other side may have forgotten its windows. For the rest see Join.
func (t WindowTable[K, V]) LeftJoin[V2, R any](right WindowTable[K, V2], f func(V, *V2) R, opts ...NodeOption) WindowTable[K, R] {
	if t.t == nil {
		return WindowTable[K, R]{}
	}
	return joinWindows(t.t, right, operator.Left(f), f != nil, gather(t.t.at.b, opts))
}

// OuterJoin has a row for each key and window of either table; one value may be nil. The pointers' targets are copies, and f's to keep. For the
// rest see LeftJoin.
func (t WindowTable[K, V]) OuterJoin[V2, R any](right WindowTable[K, V2], f func(*V, *V2) R, opts ...NodeOption) WindowTable[K, R] {
	if t.t == nil {
		return WindowTable[K, R]{}
	}
	return joinWindows(t.t, right, operator.Outer(f), f != nil, gather(t.t.at.b, opts))
}

func joinWindows[K comparable, V, V2, R any](left *windowTable[K, V], other WindowTable[K, V2], pair operator.Pair[V, V2, R], given bool, o settings) WindowTable[K, R] {
	b := left.at.b
	merged, fromLeft, fromRight := joinNames(b, o)
	this := add[window.Key[K], operator.Change[R]](b, fromLeft, o, left.at.node)
	this.needs(given)
	if !ours(this.node, other.t != nil, func() *Builder { return other.t.at.b }, "table") {
		return WindowTable[K, R]{}
	}
	right := other.t
	that := add[window.Key[K], operator.Change[R]](b, fromRight, o, right.at.node)
	out := add[window.Key[K], operator.Change[R]](b, merged, o, this.node, that.node)
	out.alike = append(out.alike, []*node{left.at.node, right.at.node})
	if x, y := left.spans, right.spans; x.session != y.session || !x.session && x.w.Bare() != y.w.Bare() {
		out.fault(fmt.Sprintf("the windows of its left side are %s, those of the right one %s, so that no two are the same", x, y), "join tables over the same windows")
	}
	m := meeting[window.Key[K], V, V2, R]{pair, side[window.Key[K], V]{left.at, left.info, left.lookup}, side[window.Key[K], V2]{right.at, right.info, right.lookup}, this, that, out}
	longer := left.spans // the side whose windows stay open for longer
	if right.spans.closing() > longer.closing() {
		longer = right.spans
	}
	info := m.rows()
	info.fades = pair.KeepLeft || pair.KeepRight
	to := newWindowTable(out, left.key, inherit[V, R](left.value, out.node), longer, info)
	to.kept.through = m.lookup
	m.attach(to.info, to.of)
	return WindowTable[K, R]{to}
}

// joins says that the rows of t are those of a join, and not held back.
func (t *tableInfo) joins() bool {
	for ; t != nil; t = t.parent {
		if t.sides != nil {
			return true
		}
		if t.passes {
			return false
		}
	}
	return false
}
