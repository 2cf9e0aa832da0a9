package topology

import (
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/window"
)

// Join pairs the records of two streams that have one key and lie close enough in event time: a right record may be at most within's Before older and After younger than the left one, both
// included. Each pair is sent once, when the later to arrive of the two comes; partners of one record in order of their time, then of arrival. A result has the time of the
// younger of the two and the headers of the one that came last. f gets the left value first, whichever came last.
//
// Each side's records are kept, under name, for before, after and grace together, by the largest time of that side. Stream time is that of the join, the largest time of the
// records of both sides; it survives restarts and moves. A record is not refused for being late: it meets the partners that are still kept. One that finds none after its time was
// over is dropped, counted under "closed"; one that is too old to be kept may be counted under "expired". Records with a null key or value are dropped, counted under "null_key" and
// "null_value".
//
// Both streams must be partitioned alike; one that was given new keys goes through a repartition topic, `<name>-left` or `<name>-right`. A stream may be joined with itself:
// every record is then its own partner, too, if a difference of 0 lies within the window.
//
// The stores are `<name>-this-join-store` and `<name>-other-join-store`, with the bytes of Kafka Streams.
func (s Stream[K, V]) Join[V2, R any](name string, right Stream[K, V2], within window.JoinSpec, f func(V, V2) R, opts ...StateOption) Stream[K, R] {
	if s.s == nil {
		return Stream[K, R]{}
	}
	return joinStreams(s.s, right, streamJoin[V, V2, R]{name: name, spec: span.OfJoin(within), given: f != nil, pair: func() func(V, V2) R { return f }}, gather(s.s.at.b, opts))
}

// LeftJoin is Join that also sends each left record that found no partner, with nil: once, as soon as stream time has passed its time by more than After and grace. It has its own time then,
// and the headers of the record that moved stream time; such records are sent in order of time, then of key. They wait for stream time alone: while no record comes, none is sent, unless kolk.Config.CloseIdle lets time go on.
//
// A left record that comes when its time is over is sent at once, if it has no partner. A right one that is later than the grace may find a left record that was sent with nil; then it is sent with its
// partner, too. A grace as long as records are late keeps that from happening. Left records with a null key are sent with nil at once. The pointer's target is a copy, and f's to keep.
//
// The records that wait are all in memory, unlike those that were kept for partners to come, which go to disk when memory is short: each takes about 210 bytes, and once to
// twice its key and value. A left record waits until it has a partner, or for After and grace: 1,000 records a second that find none, of 100 bytes, with an hour of that, are 1.1 to 1.5 GB in all tasks
// together. kolk.Config.Memory counts them, so that other stores get less, but cannot hold them back. kolk.Health has their number and bytes, under the name of their store.
//
// The stores are `<name>-this-join-store`, `<name>-outer-other-join-store` and `<name>-left-shared-join-store`, which has the records that wait.
func (s Stream[K, V]) LeftJoin[V2, R any](name string, right Stream[K, V2], within window.JoinSpec, f func(V, *V2) R, opts ...StateOption) Stream[K, R] {
	if s.s == nil {
		return Stream[K, R]{}
	}
	return joinStreams(s.s, right, streamJoin[V, V2, R]{name: name, spec: span.OfJoin(within), given: f != nil, keepLeft: true,
		pair: func() func(V, V2) R {
			var rights operator.Copies[V2]
			return func(l V, r V2) R { return f(l, rights.Of(r)) }
		},
		left: func() func(V) R { return func(l V) R { return f(l, nil) } },
	}, gather(s.s.at.b, opts))
}

// OuterJoin is LeftJoin that also sends the right records that found no partner, once stream time has passed their time by more than Before and grace. Of those of one time the right ones come first.
//
// The stores are `<name>-outer-this-join-store`, `<name>-outer-other-join-store` and `<name>-outer-shared-join-store`.
func (s Stream[K, V]) OuterJoin[V2, R any](name string, right Stream[K, V2], within window.JoinSpec, f func(*V, *V2) R, opts ...StateOption) Stream[K, R] {
	if s.s == nil {
		return Stream[K, R]{}
	}
	return joinStreams(s.s, right, streamJoin[V, V2, R]{name: name, spec: span.OfJoin(within), given: f != nil, keepLeft: true, keepRight: true,
		pair: func() func(V, V2) R {
			var lefts operator.Copies[V]
			var rights operator.Copies[V2]
			return func(l V, r V2) R { return f(lefts.Of(l), rights.Of(r)) }
		},
		left: func() func(V) R {
			var lefts operator.Copies[V]
			return func(l V) R { return f(lefts.Of(l), nil) }
		},
		right: func() func(V2) R {
			var rights operator.Copies[V2]
			return func(r V2) R { return f(nil, rights.Of(r)) }
		},
	}, gather(s.s.at.b, opts))
}

type lateOption struct{ stateMark }

// UnmatchedLate sends the records of a LeftJoin or OuterJoin that have no partner at the moments at which Kafka Streams does: up to twice as late as they could be, as it looks for them
// only now and then. It serves to compare the two side by side. What is sent is the same, but for records that find a partner meanwhile.
func UnmatchedLate() StateOption { return lateOption{} }

// streamJoin is a join of two streams. The functions make those for one task; left and right are nil where such records are not kept.
type streamJoin[V, V2, R any] struct {
	name                string
	spec                span.Join
	given               bool
	keepLeft, keepRight bool
	pair                func() func(V, V2) R
	left                func() func(V) R
	right               func() func(V2) R
}

// names are those of the stores, as Kafka Streams makes them.
func (j *streamJoin[V, V2, R]) names() (left, right, lone string) {
	left, right = j.name+"-this-join-store", j.name+"-other-join-store"
	if j.keepLeft {
		right, lone = j.name+"-outer-other-join-store", j.name+"-left-shared-join-store"
	}
	if j.keepRight {
		left, lone = j.name+"-outer-this-join-store", j.name+"-outer-shared-join-store"
	}
	return left, right, lone
}

func joinStreams[K comparable, V, V2, R any](left *stream[K, V], other Stream[K, V2], j streamJoin[V, V2, R], o settings) Stream[K, R] {
	b := left.at.b
	if problem := badName(j.name); problem != "" {
		b.faults.add(len(b.nodes), j.name, problem, nameRemedy, o.place)
		return Stream[K, R]{}
	}
	// A right stream of another topology, or none, is told at a node of the join.
	strange := other.s == nil || other.s.at.b != b
	leftName, rightName, loneName := j.names()
	stores := newJoinStores(o, leftName, rightName, loneName)
	if left.rekeyed != nil {
		left = repartition(left, j.name+"-left", nil, stores.left.decl, settings{place: o.place})
	}
	right := other.s
	if !strange && right.rekeyed != nil {
		right = repartition(right, j.name+"-right", nil, stores.left.decl, settings{place: o.place})
	}

	// As in Kafka Streams: a node for each side's store, one for each side's join, one where both come together.
	number := func(prefix, ending string) string {
		if o.named {
			o := o
			o.name += ending
			return b.number(prefix, o)
		}
		return b.number(prefix, o)
	}
	this, that := [2]string{"KSTREAM-JOINTHIS-", "-this-join"}, [2]string{"KSTREAM-JOINOTHER-", "-other-join"}
	if j.keepRight {
		this = [2]string{"KSTREAM-OUTERTHIS-", "-outer-this-join"}
	}
	if j.keepLeft {
		that = [2]string{"KSTREAM-OUTEROTHER-", "-outer-other-join"}
	}
	names := [5]string{number("KSTREAM-WINDOWED-", "-this-windowed"), number("KSTREAM-WINDOWED-", "-other-windowed"), number(this[0], this[1]), number(that[0], that[1]), number("KSTREAM-MERGE-", "-merge")}
	inLeft := add[K, V](b, names[0], o, left.at.node)
	inLeft.needs(j.given)
	if !ours(inLeft.node, other.s != nil, func() *Builder { return other.s.at.b }, "stream") {
		return Stream[K, R]{}
	}
	b.stores = append(b.stores, stores.all()...)
	inRight := add[K, V2](b, names[1], o, right.at.node)
	fromLeft, fromRight := add[K, R](b, names[2], o, inLeft.node), add[K, R](b, names[3], o, inRight.node)
	out := add[K, R](b, names[4], o, fromLeft.node, fromRight.node)
	out.alike = append(out.alike, []*node{left.at.node, right.at.node})
	fromLeft.nullKeys, fromRight.nullKeys = j.keepLeft, j.keepRight

	x := &streamJoined[K, V, V2, R]{streamJoin: j, stores: stores, left: left, right: right, fromLeft: fromLeft, fromRight: fromRight, out: out, o: o}
	inLeft.uses(stores.left.decl)
	inRight.uses(stores.right.decl)
	fromLeft.uses(stores.right.decl)
	fromRight.uses(stores.left.decl)
	if stores.lone != nil {
		fromLeft.uses(stores.lone.decl)
		fromRight.uses(stores.lone.decl)
	}
	for _, f := range j.spec.Faults() {
		out.fault(f.Problem, f.Remedy)
	}
	stores.left.node, stores.right.node = inLeft.node, inRight.node
	stores.left.ready = x.settle
	stores.right.ready = func() {}
	if stores.lone != nil {
		stores.lone.node, stores.lone.ready = out.node, func() {}
	}
	left.at.attach(x.leftSide)
	right.at.attach(x.rightSide)
	return Stream[K, R]{&stream[K, R]{at: out, key: left.key, value: inherit[V, R](left.value, out.node), fromKey: both(left.fromKey, right.fromKey)}}
}

// joinStores are the stores of a join: one for each side, and one for the records without a partner, or nil.
type joinStores struct{ left, right, lone *storeRef }

func newJoinStores(o settings, left, right, lone string) joinStores {
	declare := func(name, kind string) *storeRef {
		return &storeRef{decl: &state.Decl{Name: name, Kind: kind, Place: o.place}, in: true}
	}
	s := joinStores{left: declare(left, operator.JoinKind), right: declare(right, operator.JoinKind)}
	if lone != "" {
		s.lone = declare(lone, operator.LoneKind)
	}
	return s
}

func (s joinStores) all() []*storeRef {
	if s.lone == nil {
		return []*storeRef{s.left, s.right}
	}
	return []*storeRef{s.left, s.right, s.lone}
}

// streamJoined is a join of two streams with its place in the graph.
type streamJoined[K comparable, V, V2, R any] struct {
	streamJoin[V, V2, R]
	stores              joinStores
	left                *stream[K, V]
	right               *stream[K, V2]
	fromLeft, fromRight *place[K, R]
	out                 *place[K, R]
	o                   settings
	key                 serde.Serde[K]
	leftValue           serde.Serde[V]
	rightValue          serde.Serde[V2]
}

// settle completes the stores' declarations, once all serdes are known.
func (x *streamJoined[K, V, V2, R]) settle() {
	b := x.out.b
	var ok, ok2, ok3 bool
	x.key, ok = x.left.key.need(x.out.node, "key")
	x.leftValue, ok2 = x.left.value.need(x.out.node, "value")
	x.rightValue, ok3 = x.right.value.need(x.out.node, "value")
	if !ok || !ok2 || !ok3 {
		return
	}
	side := func(ref *storeRef, value any) {
		// The retention given here is not that of the store, which may be none at all.
		d := state.Of(store.NewWindow(ref.decl.Name, operator.BufferSerde[string](x.key), operator.BufferSerde[[]byte](value), time.Millisecond, time.Millisecond, x.o.store...))
		operator.DeclareJoinSide(d, x.spec)
		x.complete(ref, d, serde.Name(x.key), serde.Name(value))
	}
	side(x.stores.left, x.leftValue)
	side(x.stores.right, x.rightValue)
	if x.stores.lone != nil {
		d := state.Of(store.NewKeyValue(x.stores.lone.decl.Name, operator.BufferSerde[string](x.key), operator.BufferSerde[[]byte](x.leftValue), store.FiniteKeys(1), x.o.store...))
		operator.DeclareLone(d)
		x.complete(x.stores.lone, d, serde.Name(x.key), serde.Name(x.leftValue)+"|"+serde.Name(x.rightValue))
	}
	if b.version > 0 {
		for _, ref := range x.stores.all() {
			if ref.decl.Version == 0 {
				ref.decl.Version = b.version
			}
		}
	}
}

func (x *streamJoined[K, V, V2, R]) complete(ref *storeRef, d *state.Decl, key, value string) {
	for _, f := range d.Faults {
		x.out.b.faults.add(x.out.id, ref.decl.Name, f.Problem, f.Remedy, x.o.place)
	}
	d.Key, d.Value, d.Place = key, value, x.o.place
	*ref.decl = *d
}

// meeting is what both sides have in common in a task, which the first to ask for it makes.
func (x *streamJoined[K, V, V2, R]) meeting(w *wiring) *operator.Meeting[K, R] {
	if m, ok := w.made[x]; ok {
		return m.(*operator.Meeting[K, R])
	}
	m := operator.Meeting[K, R]{Store: x.stores.left.decl.Name, Spec: x.spec, Late: x.o.unmatchedLate, Key: bind(w, x.key, x.stores.left, true), Next: x.out.receive(w)}
	if x.stores.lone != nil {
		var err error
		m.Lone, err = operator.JoinLone(w.task, x.stores.lone.decl.Name)
		w.fail(err)
	}
	made := operator.NewMeeting(w.task, x.out.run, m)
	w.made[x] = made
	return made
}

// bind makes a serde that knows the changelog it is for.
func bind[T any](w *wiring, s serde.Serde[T], ref *storeRef, key bool) serde.Serde[T] {
	bound, err := operator.Bound(w.task, s, w.task.Env().App+"-"+ref.decl.Full()+"-changelog", key)
	w.fail(err)
	return bound
}

func (x *streamJoined[K, V, V2, R]) leftArrival(w *wiring) operator.Arrival[V] {
	rows, err := operator.JoinSide(w.task, x.stores.left.decl.Name)
	w.fail(err)
	return operator.Arrival[V]{Own: rows, Value: bind(w, x.leftValue, x.stores.left, false), Left: true, Keep: x.keepLeft,
		RawKey: kept(x.out.b, x.left.fromKey, x.key), RawValue: kept(x.out.b, x.left.fromValue, x.leftValue)}
}

func (x *streamJoined[K, V, V2, R]) rightArrival(w *wiring) operator.Arrival[V2] {
	rows, err := operator.JoinSide(w.task, x.stores.right.decl.Name)
	w.fail(err)
	return operator.Arrival[V2]{Own: rows, Value: bind(w, x.rightValue, x.stores.right, false), Keep: x.keepRight,
		RawKey: kept(x.out.b, x.right.fromKey, x.key), RawValue: kept(x.out.b, x.right.fromValue, x.rightValue)}
}

func (x *streamJoined[K, V, V2, R]) leftSide(w *wiring) engine.Receive[K, V] {
	m, own, other := x.meeting(w), x.leftArrival(w), x.rightArrival(w)
	if w.err != nil {
		return nil
	}
	var alone func(V) R
	if x.keepLeft {
		alone = x.streamJoin.left()
	}
	return operator.Arrive(m, x.fromLeft.run, own, other, x.pair(), alone)
}

func (x *streamJoined[K, V, V2, R]) rightSide(w *wiring) engine.Receive[K, V2] {
	m, own, other := x.meeting(w), x.rightArrival(w), x.leftArrival(w)
	if w.err != nil {
		return nil
	}
	f := x.pair()
	var alone func(V2) R
	if x.keepRight {
		alone = x.streamJoin.right()
	}
	return operator.Arrive(m, x.fromRight.run, own, other, func(r V2, l V) R { return f(l, r) }, alone)
}
