package topology

import (
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/serde"
)

// Topic is a topic of yours with the types of its records. Declare it once, as a package variable, and use the same value to read, to
// write and to test. It may be used by many goroutines.
type Topic[K comparable, V any] struct {
	ends[K, V]
	name      string
	key       serde.Serde[K]
	value     serde.Serde[V]
	timed     *func(K, V) time.Time      // by pointer, so that copies of a Topic can be told to be equal
	partition *func(k K, v V, n int) int // likewise
	byKey     func(k K, n int) int       // partition, if it goes by the key alone
}

type ends[K comparable, V any] = engine.Ends[K, V]

// NewTopic describes a topic. It must exist, with its partitions, before the application starts. For the types a key may have see the package comment.
//
// Two Topics of one name must have equal serdes, TimedBy and PartitionedBy functions, or Build reports a fault. Serdes are equal if the same constructor of package serde
// made them with equal arguments; those of serde.Func, and the functions, only if they are the same value. So keep a Topic in a variable.
func NewTopic[K comparable, V any](name string, key serde.Serde[K], value serde.Serde[V]) Topic[K, V] {
	return Topic[K, V]{ends: engine.Ends[K, V]{Key: key, Value: value, Tail: span.TailOf(key)}, name: name, key: key, value: value}
}

// TimedBy takes event time from the record instead of from its timestamp. A time before 1970 drops the record, counted under "no_time", unless FillTime says otherwise. A null value that the topic's
// serde has no Go value for is not shown to f: such a record keeps its timestamp.
func (t Topic[K, V]) TimedBy(f func(K, V) time.Time) Topic[K, V] {
	t.timed = &f
	return t
}

// PartitionedBy says how the topic is partitioned, from 0 to n-1, if not by key as Java's producers do. It is used to write the topic, and a sample
// of the keys that are read is compared with it; see kolk.Misplaced. For a null key f gets the zero key. What is brought together by key, as in a join, must be
// partitioned alike: that all of it has a partitioner of its own is checked, that these agree is not.
func (t Topic[K, V]) PartitionedBy(f func(k K, v V, n int) int) Topic[K, V] {
	t.partition, t.byKey, t.ends.Partition = nil, nil, f
	if f != nil {
		t.partition = &f
	}
	return t
}

// PartitionedByKey is PartitionedBy by the key alone. It also lets a foreign-key join find the rows of a table of the topic, of which it knows nothing but keys.
func (t Topic[K, V]) PartitionedByKey(f func(k K, n int) int) Topic[K, V] {
	if f == nil {
		t.partition, t.byKey, t.ends.Partition = nil, nil, nil
		return t
	}
	t = t.PartitionedBy(func(k K, _ V, n int) int { return f(k, n) })
	t.byKey = f
	return t
}

// Name is the topic's name.
func (t Topic[K, V]) Name() string { return t.name }

func (t Topic[K, V]) timeOf() func(K, V) time.Time {
	if t.timed == nil {
		return nil
	}
	return *t.timed
}

func (t Topic[K, V]) partitionOf() func(K, V, int) int {
	if t.partition == nil {
		return nil
	}
	return *t.partition
}

// known is how a topic was described when it was first used.
type known struct {
	place            string
	key, value       any
	timed, partition any
}

// use checks that a topic is described as it was before.
func (b *Builder) useTopic(at int, name string, key, value, timed, partition any, place string) {
	if problem := badTopic(name); problem != "" {
		b.faults.add(at, name, problem, "name the topic as it is named on the broker", place)
		return
	}
	if key == nil || value == nil {
		b.faults.add(at, name, "the topic has no serde for its key or value", "give both to NewTopic; serde.None() is for what nobody uses", place)
		return
	}
	for _, f := range span.KeyFaults(key) {
		b.faults.add(at, name, f.Problem, f.Remedy, place)
	}
	k, ok := b.topics[name]
	if !ok {
		b.topics[name] = &known{place: place, key: key, value: value, timed: timed, partition: partition}
		return
	}
	if what := k.differs(key, value, timed, partition); what != "" {
		b.faults.add(at, name, "the topic is used with another "+what+" than at "+k.place, "declare the Topic once, in a variable, and use it in both places", place)
	}
}

func (k *known) differs(key, value, timed, partition any) string {
	switch {
	case !serde.Same(k.key, key):
		return "serde of the key (" + serde.Name(key) + ", not " + serde.Name(k.key) + ")"
	case !serde.Same(k.value, value):
		return "serde of the value (" + serde.Name(value) + ", not " + serde.Name(k.value) + ")"
	case k.timed != timed:
		return "TimedBy"
	case k.partition != partition:
		return "PartitionedBy"
	}
	return ""
}

func use[K comparable, V any](b *Builder, at int, t Topic[K, V], place string) {
	var key, value any
	if t.key != nil {
		key = t.key
	}
	if t.value != nil {
		value = t.value
	}
	b.useTopic(at, t.name, key, value, t.timed, t.partition, place)
}
