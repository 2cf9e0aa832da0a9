package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

// Repartition writes the stream to the topic `<application>-<name>-repartition`, by its present key, and reads it again. Records with a null key are dropped and counted,
// unless a LeftJoinTable follows, which takes them.
func (s Stream[K, V]) Repartition(name string, opts ...GroupOption) Stream[K, V] {
	if s.s == nil {
		return s
	}
	return Stream[K, V]{repartition(s.s, name, nil, nil, gather(s.s.at.b, opts))}
}

// RepartitionBy is Repartition with a partition, from 0 to n-1, of your choice.
func (s Stream[K, V]) RepartitionBy(name string, partition func(k K, v V, n int) int, opts ...GroupOption) Stream[K, V] {
	if s.s == nil {
		return s
	}
	o := gather(s.s.at.b, opts)
	if partition == nil {
		s.s.at.b.faults.add(len(s.s.at.b.nodes), name, "the function is nil", "give a function, or use Repartition", o.place)
	}
	return Stream[K, V]{repartition(s.s, name, partition, nil, o)}
}

// repartition sends a stream through a topic. owner is the store that the topic belongs to; nil if it stands for itself.
func repartition[K comparable, V any](s *stream[K, V], name string, partition func(K, V, int) int, owner *state.Decl, o settings) *stream[K, V] {
	b := s.at.b
	b.count += 3
	topic := &engine.Topic{Name: name, Repartition: true}
	o.derived = true
	filter := add[K, V](b, name+"-repartition-filter", o, s.at.node)
	s.at.attach(func(w *wiring) engine.Receive[K, V] {
		if filter.passNulls {
			return filter.receive(w)
		}
		return operator.DropNullKeys(w.task, filter.run, filter.receive(w))
	})
	x := &crossing[K, V]{key: s.key, value: s.value}
	b.later = append(b.later, func() {
		x.resolve(filter.node)
		filter.passNulls = filter.nullKeysWanted()
	})

	sink := add[K, V](b, name+"-repartition-sink", o, filter.node)
	sink.kind, sink.topic = sinkNode, topic
	filter.attach(func(w *wiring) engine.Receive[K, V] {
		full := topic.Full(w.task.Env().App)
		key, value := x.bound(w, full)
		r, err := operator.Sink(w.task, sink.run, operator.Target[K, V]{Topic: full, Key: key, Value: value,
			RawKey: kept(b, s.fromKey, x.ks), RawValue: kept(b, s.fromValue, x.vs),
			Tail: span.TailOf(x.ks), Partition: partition})
		w.fail(err)
		return r
	})

	out := fromTopic(sink.node, name+"-repartition-source", topic, owner, partition != nil, o, x.bound)
	return &stream[K, V]{at: out, key: s.key, value: s.value, fromKey: &x.key, fromValue: &x.value}
}

// crossing is the serdes with which records go through a repartition topic.
type crossing[K comparable, V any] struct {
	key   codec[K]
	value codec[V]
	ks    serde.Serde[K]
	vs    serde.Serde[V]
}

func (x *crossing[K, V]) resolve(n *node) {
	x.ks, _ = x.key.need(n, "key")
	x.vs, _ = x.value.need(n, "value")
}

func (x *crossing[K, V]) bound(w *wiring, topic string) (serde.Serde[K], serde.Serde[V]) {
	key, err := operator.Bound(w.task, x.ks, topic, true)
	w.fail(err)
	value, err := operator.Bound(w.task, x.vs, topic, false)
	w.fail(err)
	return key, value
}

// fromTopic is the source of a repartition topic that sink writes.
func fromTopic[K comparable, V any](sink *node, name string, topic *engine.Topic, owner *state.Decl, ownWay bool, o settings, serdes func(*wiring, string) (serde.Serde[K], serde.Serde[V])) *place[K, V] {
	out := add[K, V](sink.b, name, o)
	out.kind, out.topic, out.owner, out.from, out.partitions, out.ownWay = source, topic, owner, sink, o.partitions, ownWay
	out.reader = func(w *wiring) {
		key, value := serdes(w, topic.Full(w.task.Env().App))
		if w.err != nil {
			return
		}
		events := operator.Events(w.task, out.run, value, true, out.receive(w))
		w.read(out.node, operator.NewSource(w.task, out.run, key, value, nil, []operator.Take[K, V]{events}))
	}
	return out
}

// nullKeysWanted says whether something that takes records without a key follows n, through topics too.
func (n *node) nullKeysWanted() bool {
	reached := map[*node]bool{n: true}
	for _, x := range n.b.nodes[n.id:] { // parents come before their children
		if x.from != nil && reached[x.from] {
			reached[x] = true
		}
		for _, p := range x.parents {
			reached[x] = reached[x] || reached[p]
		}
		if reached[x] && x.nullKeys {
			return true
		}
	}
	return false
}
