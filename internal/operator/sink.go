package operator

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/serde"
)

// Target is where a sink writes to, and how.
type Target[K comparable, V any] struct {
	Topic string // full name; empty if Choose picks one
	Key   serde.Serde[K]
	Value serde.Serde[V]
	// RawKey and RawValue say that the key or value is as the source read it, with the same serde: its bytes are kept.
	RawKey, RawValue bool
	// Tail is how many bytes at the end of a key, its window, have no part in choosing the partition.
	Tail int
	// Partition picks a partition from 0 to n-1; nil goes by the key's bytes.
	Partition func(k K, v V, n int) int
	// Choose picks the topic.
	Choose func(K, V) string
}

type sink[K comparable, V any] struct {
	Target[K, V]
	task    *engine.Task
	node    *engine.Node
	count   int32
	isNull  func(V) bool
	guarded bool
	kb, vb  []byte
}

func newSink[K comparable, V any](t *engine.Task, n *engine.Node, to Target[K, V]) (*sink[K, V], error) {
	s := &sink[K, V]{Target: to, task: t, node: n, isNull: IsNull[V](), guarded: t.ErrorPolicy(n, "produce").Kind != engine.Stop}
	if to.Choose != nil {
		return s, nil
	}
	if s.count = t.Env().Partitions(to.Topic); s.count <= 0 {
		return nil, fmt.Errorf("sink %q: the number of partitions of topic %q is not known", n.Name, to.Topic)
	}
	return s, nil
}

// Sink writes a stream.
func Sink[K comparable, V any](t *engine.Task, n *engine.Node, to Target[K, V]) (engine.Receive[K, V], error) {
	s, err := newSink(t, n, to)
	if err != nil {
		return nil, err
	}
	return func(r *engine.Rec, k K, v V) { s.send(r, k, v, s.isNull != nil && s.isNull(v)) }, nil
}

// TableSink writes the updates of a table, deletes as nulls.
func TableSink[K comparable, V any](t *engine.Task, n *engine.Node, to Target[K, V]) (engine.Receive[K, Change[V]], error) {
	s, err := newSink(t, n, to)
	if err != nil {
		return nil, err
	}
	return func(r *engine.Rec, k K, c Change[V]) { s.send(r, k, c.New, !c.HasNew) }, nil
}

func (s *sink[K, V]) send(r *engine.Rec, k K, v V, null bool) {
	s.task.At(s.node)
	if err := s.write(r, k, v, null); err != nil {
		s.task.Fail("produce", s.node, r, err)
	}
}

func (s *sink[K, V]) write(r *engine.Rec, k K, v V, null bool) error {
	topic, count := s.Topic, s.count
	key, value, partition, err := s.encode(r, k, v, null, &topic, &count)
	if err != nil {
		return err
	}
	s.task.Emit(topic, partition, key, value, r.Time, r.Headers)
	return nil
}

// encode calls all that is the user's: the choice of topic and partition, and the serdes. Nothing in it goes back into the engine, so a
// panic is theirs.
func (s *sink[K, V]) encode(r *engine.Rec, k K, v V, null bool, topic *string, count *int32) (key, value []byte, partition int32, err error) {
	if s.guarded {
		defer func() {
			if p := recover(); p != nil {
				err = &engine.PanicError{Value: p, Stack: debug.Stack()}
			}
		}()
	}
	if s.Choose != nil {
		if *topic = s.Choose(k, v); *topic == "" {
			return nil, nil, 0, errors.New("the function that chooses the topic returned no name")
		}
		if *count = s.task.Env().Partitions(*topic); *count <= 0 {
			return nil, nil, 0, fmt.Errorf("topic %q does not exist: create it before it is chosen", *topic)
		}
	}
	switch {
	case s.RawKey && r.Input >= 0 && !r.Kept:
		key = r.RawKey
	case !r.NullKey:
		if key, err = s.Key.Encode(s.kb[:0], k); err != nil {
			return nil, nil, 0, fmt.Errorf("encode key for topic %q: %w", *topic, err)
		}
		if key != nil {
			s.kb = key
		}
	}
	switch {
	case null:
	case s.RawValue && r.Input >= 0 && !r.Kept:
		value = r.RawValue
	default:
		if value, err = s.Value.Encode(s.vb[:0], v); err != nil {
			return nil, nil, 0, fmt.Errorf("encode value for topic %q: %w", *topic, err)
		}
		if value != nil {
			s.vb = value
		}
	}
	switch {
	case s.Partition != nil:
		p := s.Partition(k, v, int(*count))
		if p < 0 || p >= int(*count) {
			return nil, nil, 0, fmt.Errorf("partition %d was chosen for topic %q, which has the partitions 0 to %d", p, *topic, *count-1)
		}
		partition = int32(p)
	case key == nil:
		partition = -1
	default:
		partition = engine.Partition(key[:max(0, len(key)-s.Tail)], *count)
	}
	return key, value, partition, nil
}
