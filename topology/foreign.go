package topology

import (
	"fmt"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// JoinForeign joins each row with the row of another table whose key it holds; ok false means it holds none. Both sides may change at any time, and the tables need not be
// partitioned alike. A row whose foreign key is missing or names no row is not in the result; the first is counted under "null_key".
//
// It owns the topics `<application>-<name>-subscription-registration-topic` and `<application>-<name>-subscription-response-topic`, and the store
// `<name>-subscription-store`, which has one small entry per row of t. Both tables are stored. The rows of the result are stored, as `<name>-result`, only if something needs that, such as a grouping;
// Stored gives them a name of your choice.
//
// An update of t passes through both topics, an update of right through one for each row that refers to it; until then the result shows the row as it was. Answers that a
// newer update of t has overtaken are dropped, and counted under "stale". A row is told from a newer one by its bytes, so the value's serde must give equal bytes for equal values.
//
// key must depend on the row alone. If it fails for a row, and the policy lets the application go on, the result keeps what it had for the row until the row changes again.
func (t Table[K, V]) JoinForeign[K2 comparable, V2, R any](name string, right Table[K2, V2], key func(K, V) (k2 K2, ok bool), f func(V, V2) R, opts ...ForeignOption) Table[K, R] {
	if t.t == nil {
		return Table[K, R]{}
	}
	return joinForeign(t.t, name, right, key, operator.Inner(f), f != nil, gather(t.t.at.b, opts))
}

// LeftJoinForeign is JoinForeign that keeps rows without a partner; the right value is nil there. The pointer's target is a copy, and f's to keep.
func (t Table[K, V]) LeftJoinForeign[K2 comparable, V2, R any](name string, right Table[K2, V2], key func(K, V) (k2 K2, ok bool), f func(V, *V2) R, opts ...ForeignOption) Table[K, R] {
	if t.t == nil {
		return Table[K, R]{}
	}
	return joinForeign(t.t, name, right, key, operator.Left(f), f != nil, gather(t.t.at.b, opts))
}

// longestForeign is how long the name of a foreign-key join may be, so that all names made of it are legal.
const longestForeign = 150

// foreignJoin is the parts of a foreign-key join.
type foreignJoin[K comparable, V any, K2 comparable, V2, R any] struct {
	left  *table[K, V]
	right *table[K2, V2]
	key   func(K, V) (K2, bool)
	pair  operator.Pair[V, V2, R]

	requests, answers *engine.Topic
	register, ask     *node // left side: makes subscriptions, writes them
	receive, look     *node // right side: keeps subscriptions, answers them
	republish, reply  *node // answers them at updates, writes answers
	resolver          *node // left side again
	subscriptions     *state.Decl
	partition         func(K2, int) int // where the rows of the right table lie; nil if that goes by hash

	// Settled by Build.
	ks serde.Serde[K]
	vs serde.Serde[V]
	fs serde.Serde[K2]
	rs serde.Serde[V2]
}

func joinForeign[K comparable, V any, K2 comparable, V2, R any](left *table[K, V], name string, other Table[K2, V2], key func(K, V) (K2, bool), pair operator.Pair[V, V2, R], given bool, o settings) Table[K, R] {
	b := left.at.b
	b.count += 13
	wrong := func(problem, remedy string) Table[K, R] {
		b.faults.add(len(b.nodes), name, problem, remedy, o.place)
		return Table[K, R]{}
	}
	if problem := badText(name, longestForeign); problem != "" {
		return wrong(problem, fmt.Sprintf("use letters, digits, '.', '_' and '-', at most %d of them", longestForeign))
	}
	if first := b.names[name+"-subscription-registration-processor"]; first != nil {
		return wrong("two foreign-key joins have this name; the other is declared at "+first.run.Place, "give one of them another name")
	}
	named := o
	if !o.named {
		named.name = name + "-result"
	}
	o.derived = true
	inside := func(ending string, parents ...*node) *node {
		return add[K2, operator.Subscription](b, name+ending, o, parents...).node
	}
	x := &foreignJoin[K, V, K2, V2, R]{left: left, key: key, pair: pair,
		requests: &engine.Topic{Name: name, Repartition: true, Ending: "subscription-registration-topic"},
		answers:  &engine.Topic{Name: name, Repartition: true, Ending: "subscription-response-topic"}}
	x.register = inside("-subscription-registration-processor", left.at.node)
	x.register.needs(given && key != nil)
	if !ours(x.register, other.t != nil, func() *Builder { return other.t.at.b }, "table") {
		return Table[K, R]{}
	}
	right := other.t
	x.right = right
	for _, src := range right.at.sources() {
		if f, ok := src.byKey.(func(K2, int) int); ok {
			x.partition = f
		} else if src.ownWay {
			x.register.fault("the right table's rows are not partitioned by their keys alone, so they cannot be found by foreign keys: "+src.topic.Name+" has a partitioning of its own",
				"declare the topic PartitionedByKey if that is how it is partitioned; else send it through Repartition, then make a table of it with ToTable")
		}
	}
	x.ask = inside("-subscription-registration-sink", x.register)
	x.ask.kind, x.ask.topic = sinkNode, x.requests
	asked := inside("-subscription-registration-source")
	x.receive = inside("-subscription-receive", asked)
	x.look = inside("-subscription-join-foreign", x.receive)
	x.republish = inside("-foreign-join-subscription", right.at.node)
	x.reply = inside("-subscription-response-sink", x.look, x.republish)
	x.reply.kind, x.reply.topic = sinkNode, x.answers
	answered := inside("-subscription-response-source")
	x.resolver = inside("-subscription-response-resolver", answered)
	if !pair.KeepLeft {
		x.ask.parents = append(x.ask.parents, x.resolver) // it may ask again
	}
	out := add[K, operator.Change[R]](b, named.name, named, x.resolver)

	source := func(n, from, like *node, topic *engine.Topic, reader func(*wiring)) {
		n.kind, n.topic, n.from, n.like, n.ownWay, n.reader = source, topic, from, like, like.ownWay, reader
	}
	x.subscribers(b, name, o)
	to := newTable(out, left.key, inherit[V, R](left.value, out.node), tableInfo{like: []*tableInfo{left.info}})
	to.info.spare = func() *storeRef {
		rows := declare[K, R](b, name+"-result", store.FiniteKeys(1), settings{place: o.place})
		rows.belongs(out.node, to.key, to.value)
		rows.bounds = left.info.bound()
		to.kept.rows = rows
		return rows.storeRef
	}
	source(asked, x.ask, right.at.sources()[0], x.requests, func(w *wiring) { x.readRequests(w, asked) })
	source(answered, x.reply, left.at.sources()[0], x.answers, func(w *wiring) {
		x.readAnswers(w, answered, operator.Keep(w.task, out.run, to.of(w), out.receive(w)))
	})
	x.look.looksUp, x.resolver.looksUp = append(x.look.looksUp, right.info), append(x.resolver.looksUp, left.info)
	left.info.read, left.info.wantsOld, right.info.read = true, true, true
	left.at.attach(x.wireLeft)
	right.at.attach(x.wireRight)
	b.later = append(b.later, func() {
		x.ks, _ = left.key.need(x.register, "key")
		x.vs, _ = left.value.need(x.register, "value")
		x.fs, _ = right.key.need(x.look, "key")
		x.rs, _ = right.value.need(x.look, "value")
	})
	return Table[K, R]{to}
}

// subscribers declares the store of subscriptions. It has an entry for each row of the left table that has a foreign key.
func (x *foreignJoin[K, V, K2, V2, R]) subscribers(b *Builder, name string, o settings) {
	rows := declare[string, operator.Subscription](b, name+"-subscription-store", store.FiniteKeys(1), settings{place: o.place})
	rows.belongs(x.receive, codec[string]{s: operator.SubscriptionKeys()}, codec[operator.Subscription]{s: operator.Subscriptions()})
	rows.bounds, rows.in = x.left.info.bound(), true
	x.subscriptions = rows.decl
	x.receive.uses(rows.decl)
	x.republish.uses(rows.decl)
}

// foreign is the serde of foreign keys, for a task. Like those of rows and their keys it is told a topic of its own, as Kafka Streams tells it.
func (x *foreignJoin[K, V, K2, V2, R]) foreign(w *wiring) serde.Serde[K2] {
	s, err := operator.Bound(w.task, x.fs, x.requests.Full(w.task.Env().App)+"-fk", true)
	w.fail(err)
	return s
}

func (x *foreignJoin[K, V, K2, V2, R]) primary(w *wiring) serde.Serde[K] {
	s, err := operator.Bound(w.task, x.ks, x.requests.Full(w.task.Env().App)+"-pk", true)
	w.fail(err)
	return s
}

// digest hashes the rows of the left table as they are stored, if they are.
func (x *foreignJoin[K, V, K2, V2, R]) digest(w *wiring) operator.Digest[K, V] {
	s, err := operator.Bound(w.task, x.vs, x.requests.Full(w.task.Env().App)+"-vh", false)
	w.fail(err)
	d := operator.Digest[K, V]{Value: s}
	if rows := x.left.open(w); rows != nil {
		d.Rows, _ = rows.(state.Encoder[K])
	}
	return d
}

// registrar makes the subscriptions of the left side, at a node of it; nil after a failure, which is kept in w.
func (x *foreignJoin[K, V, K2, V2, R]) registrar(w *wiring, at *node) *operator.Registrar[K, V, K2] {
	s, err := operator.NewRegistrar(w.task, at.run, operator.Registration[K, V, K2]{Topic: x.requests.Full(w.task.Env().App), Sink: x.ask.run, Key: x.primary(w),
		Foreign: x.foreign(w), Tail: span.TailOf(x.fs), Partition: x.partition, Hash: x.digest(w), Of: x.key, Left: x.pair.KeepLeft})
	w.fail(err)
	return s
}

func (x *foreignJoin[K, V, K2, V2, R]) wireLeft(w *wiring) engine.Receive[K, operator.Change[V]] {
	if s := x.registrar(w, x.register); s != nil {
		return operator.OnlyNewest(w.task, x.register.run, s.Receive)
	}
	return nil
}

// rightSide is the subscriptions of a task, and how they are answered; nil after a failure, which is kept in w.
func (x *foreignJoin[K, V, K2, V2, R]) rightSide(w *wiring) (operator.SubscriptionRows, *operator.Responder[V2]) {
	full := x.answers.Full(w.task.Env().App)
	value, err := operator.Bound(w.task, x.rs, full, false)
	w.fail(err)
	to := &operator.Responder[V2]{Topic: full, Sink: x.reply.run, Value: value}
	w.fail(to.Open(w.task))
	rows, err := operator.OpenSubscriptions(w.task, x.subscriptions.Name)
	w.fail(err)
	return rows, to
}

func (x *foreignJoin[K, V, K2, V2, R]) wireRight(w *wiring) engine.Receive[K2, operator.Change[V2]] {
	rows, to := x.rightSide(w)
	return operator.Republish(w.task, x.republish.run, rows, x.foreign(w), to)
}

func (x *foreignJoin[K, V, K2, V2, R]) readRequests(w *wiring, from *node) {
	rows, to := x.rightSide(w)
	key, right := x.foreign(w), x.right.lookup(w)
	if w.err != nil {
		return
	}
	take := operator.Subscribe(w.task, x.receive.run, x.look.run, rows, right, to)
	w.read(from, operator.NewSource(w.task, from.run, key, operator.Subscriptions(), nil, []operator.Take[K2, operator.Subscription]{take}))
}

func (x *foreignJoin[K, V, K2, V2, R]) readAnswers(w *wiring, from *node, next engine.Receive[K, operator.Change[R]]) {
	key, left, digest, asks := x.primary(w), x.left.lookup(w), x.digest(w), x.registrar(w, x.resolver)
	value, err := operator.Bound(w.task, x.rs, x.answers.Full(w.task.Env().App), false)
	w.fail(err)
	if w.err != nil {
		return
	}
	var again func(*engine.Rec, K, operator.Side[V]) bool
	if !x.pair.KeepLeft {
		again = asks.Again
	}
	take := operator.Resolve(w.task, x.resolver.run, x.pair, left, digest, again, next)
	w.read(from, operator.NewSource(w.task, from.run, key, operator.Responses(value), nil, []operator.Take[K, operator.Response[V2]]{take}))
}
