package topologytest

import (
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/topology"
)

// Input sends records to a topic. Unless told, each is 1 ms younger than the one before, whatever its topic; the first has the driver's
// start time.
type Input[K comparable, V any] struct {
	d     *Driver
	topic string
	ends  engine.Ends[K, V]
}

// Input is a typed way into a topic. The topology must read the topic.
func (d *Driver) Input[K comparable, V any](topic topology.Topic[K, V]) *Input[K, V] {
	d.t.Helper()
	if !d.failed && !d.reads(topic.Name()) {
		d.fail("topologytest: the topology does not read topic %q", topic.Name())
	}
	return &Input[K, V]{d: d, topic: topic.Name(), ends: engine.EndsOf(topic)}
}

func (d *Driver) reads(topic string) bool {
	for _, g := range d.graph.Globals {
		if g.Topic == topic {
			return true
		}
	}
	for _, s := range d.graph.Subs {
		for _, in := range s.Inputs {
			if in.Full(Application) == topic {
				return true
			}
		}
	}
	return false
}

// Send sends one record.
func (in *Input[K, V]) Send(key K, value V) {
	in.d.t.Helper()
	in.SendAt(time.UnixMilli(in.d.next), key, value)
}

// SendAt sends one record with an event time.
func (in *Input[K, V]) SendAt(at time.Time, key K, value V) {
	in.d.t.Helper()
	in.SendRecord(processor.Record[K, V]{Key: key, Value: value, Time: at})
}

// SendNull sends a null value.
func (in *Input[K, V]) SendNull(key K) {
	in.d.t.Helper()
	in.SendNullAt(time.UnixMilli(in.d.next), key)
}

// SendNullAt sends a null value with an event time.
func (in *Input[K, V]) SendNullAt(at time.Time, key K) {
	in.d.t.Helper()
	r := processor.Record[K, V]{Key: key, Time: at}
	in.send(r, func([]byte) ([]byte, error) { return nil, nil })
}

// SendRecord sends a record with headers, a null key or a time of its own. The zero Time is that of Send.
func (in *Input[K, V]) SendRecord(r processor.Record[K, V]) {
	in.d.t.Helper()
	if r.Time.IsZero() {
		r.Time = time.UnixMilli(in.d.next)
	}
	in.send(r, func(dst []byte) ([]byte, error) { return in.ends.Value.Encode(dst, r.Value) })
}

func (in *Input[K, V]) send(r processor.Record[K, V], encode func([]byte) ([]byte, error)) {
	in.d.t.Helper()
	if in.d.failed {
		return
	}
	var key []byte
	var err error
	if !r.NullKey {
		if key, err = in.ends.Key.Encode(nil, r.Key); err != nil {
			in.d.fail("topologytest: topic %s: encode key %v: %v", in.topic, r.Key, err)
			return
		}
	}
	value, err := encode(nil)
	if err != nil {
		in.d.fail("topologytest: topic %s: encode value %v: %v", in.topic, r.Value, err)
		return
	}
	partition, n := int32(-1), in.d.partitions(in.topic)
	if key != nil {
		partition = engine.Partition(key[:max(0, len(key)-in.ends.Tail)], n)
	}
	if f := in.ends.Partition; f != nil {
		if partition = int32(f(r.Key, r.Value, int(n))); partition < 0 || partition >= n {
			in.d.fail("topologytest: topic %s: PartitionedBy gives partition %d of %d", in.topic, partition, n)
			return
		}
	}
	if tail := span.TailOf(in.ends.Key); partition < 0 && key != nil && tail > 0 {
		partition = engine.Partition(key[:max(0, len(key)-tail)], in.d.partitions(in.topic)) // a window has no part in it
	}
	in.d.send(in.topic, partition, key, value, r.Time.UnixMilli(), engine.HeadersOf(&r.Headers))
}

// SendBytes sends raw bytes, for records that cannot be decoded. Nil is null.
func (in *Input[K, V]) SendBytes(key, value []byte) {
	in.d.t.Helper()
	if in.d.failed {
		return
	}
	in.d.send(in.topic, -1, key, value, in.d.next, nil)
}

// send writes a record to a topic and lets the tasks work. A negative partition goes by the key.
func (d *Driver) send(topic string, partition int32, key, value []byte, at int64, headers []engine.Header) {
	d.t.Helper()
	l := d.log(topic)
	if partition < 0 && key != nil {
		partition = engine.Partition(key, int32(len(l.parts)))
	}
	l.append(partition, key, value, at, headers, d.sends).sent = true
	d.sends++
	d.shown = d.sends
	d.next = at + 1
	d.fresh = true
	d.settle()
}
