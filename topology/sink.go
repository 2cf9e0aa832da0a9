package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/span"
)

// To writes the stream to a topic, partitioned by key as Java's producers do. Keys and values that no function has touched since they were read with the same serde keep
// their bytes.
func (s Stream[K, V]) To(t Topic[K, V], opts ...SinkOption) {
	if s.s != nil {
		sinkTo(s.s, t, nil, gather(s.s.at.b, opts))
	}
}

// ToEach writes each record to the topic that choose names, with t's serdes; t's name is not used. The topics must exist: a record for one that does not has failed.
func (s Stream[K, V]) ToEach(t Topic[K, V], choose func(K, V) string, opts ...SinkOption) {
	if s.s == nil {
		return
	}
	o := gather(s.s.at.b, opts)
	if choose == nil {
		s.s.at.b.faults.add(len(s.s.at.b.nodes), t.name, "the function is nil", "give a function", o.place)
		return
	}
	sinkTo(s.s, t, choose, o)
}

func sinkTo[K comparable, V any](s *stream[K, V], t Topic[K, V], choose func(K, V) string, o settings) {
	to := writer(s.at.node, t, choose, o)
	s.at.attach(func(w *wiring) engine.Receive[K, V] {
		r, err := operator.Sink(w.task, to.run, to.target(w, s.fromKey, s.fromValue))
		w.fail(err)
		return r
	})
}

// sinkOf is a sink that writes one of the user's topics.
type sinkOf[K comparable, V any] struct {
	*node
	t      Topic[K, V]
	choose func(K, V) string
}

func writer[K comparable, V any](from *node, t Topic[K, V], choose func(K, V) string, o settings) *sinkOf[K, V] {
	b := from.b
	use(b, len(b.nodes), t, o.place)
	p := add[K, V](b, b.number("KSTREAM-SINK-", o), o, from)
	p.kind, p.topic, p.dynamic = sinkNode, &engine.Topic{Name: t.name}, choose != nil
	return &sinkOf[K, V]{p.node, t, choose}
}

func (s *sinkOf[K, V]) target(w *wiring, fromKey untouched[K], fromValue untouched[V]) operator.Target[K, V] {
	full := s.topic.Full(w.task.Env().App)
	key, err := operator.Bound(w.task, s.t.key, full, true)
	w.fail(err)
	value, err := operator.Bound(w.task, s.t.value, full, false)
	w.fail(err)
	return operator.Target[K, V]{Topic: full, Key: key, Value: value, RawKey: kept(s.b, fromKey, s.t.key), RawValue: kept(s.b, fromValue, s.t.value),
		Tail: span.TailOf(s.t.key), Partition: s.t.partitionOf(), Choose: s.choose}
}
