package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
)

// JoinTable looks up each record's key in a table; records without a row are dropped, which is counted under "no_row", as are those with a null key or value, under
// "null_key" and "null_value". Updates of the table send nothing. A stream that was given new keys must go through Repartition first.
func (s Stream[K, V]) JoinTable[V2, R any](t Table[K, V2], f func(V, V2) R, opts ...LookupOption) Stream[K, R] {
	if s.s == nil {
		return Stream[K, R]{}
	}
	out, ok := lookUp[K, V, V2, R](s.s, t, "KSTREAM-JOIN-", f != nil, gather(s.s.at.b, opts))
	if !ok {
		return Stream[K, R]{}
	}
	s.s.at.attach(func(w *wiring) engine.Receive[K, V] {
		return operator.JoinTable(w.task, out.run, t.t.lookup(w), nil, f, out.receive(w))
	})
	return Stream[K, R]{revalued(s.s, out)}
}

// LeftJoinTable is JoinTable that keeps records without a row, with nil, and those with a null key. The pointer's target is a copy, and f's to keep.
func (s Stream[K, V]) LeftJoinTable[V2, R any](t Table[K, V2], f func(V, *V2) R, opts ...LookupOption) Stream[K, R] {
	if s.s == nil {
		return Stream[K, R]{}
	}
	out, ok := lookUp[K, V, V2, R](s.s, t, "KSTREAM-LEFTJOIN-", f != nil, gather(s.s.at.b, opts))
	if !ok {
		return Stream[K, R]{}
	}
	out.nullKeys = true
	s.s.at.attach(func(w *wiring) engine.Receive[K, V] {
		return operator.LeftJoinTable(w.task, out.run, t.t.lookup(w), nil, f, out.receive(w))
	})
	return Stream[K, R]{revalued(s.s, out)}
}

// lookUp is the node of a join of a stream with a table.
func lookUp[K comparable, V, V2, R any](s *stream[K, V], t Table[K, V2], prefix string, given bool, o settings) (out *place[K, R], ok bool) {
	b := s.at.b
	out = add[K, R](b, b.number(prefix, o), o, s.at.node)
	out.needs(given)
	if !ours(out.node, t.t != nil, func() *Builder { return t.t.at.b }, "table") {
		return out, false
	}
	if s.rekeyed != nil {
		out.fault("the stream was given new keys by "+s.rekeyed.run.Name+", so its records may be in other partitions than the rows of the table", "put Repartition(\"name\") before the join")
	}
	t.t.info.read = true
	out.looksUp = append(out.looksUp, t.t.info)
	out.alike = append(out.alike, []*node{s.at.node, t.t.at.node})
	return out, true
}
