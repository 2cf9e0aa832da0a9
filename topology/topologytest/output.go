package topologytest

import (
	"fmt"
	"reflect"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/topology"
)

// Output takes what was written to a topic since it was last asked, in order. Two Outputs of one topic each see everything.
type Output[K comparable, V any] struct {
	d     *Driver
	topic string
	ends  engine.Ends[K, V]
	at    int
}

// Output is a typed way to read what the topology writes to a topic.
func (d *Driver) Output[K comparable, V any](topic topology.Topic[K, V]) *Output[K, V] {
	return &Output[K, V]{d: d, topic: topic.Name(), ends: engine.EndsOf(topic)}
}

// Got is one record of an output.
type Got[K comparable, V any] struct {
	processor.Record[K, V]
	Deleted   bool // the value is null; Value is then the zero V
	Partition int32
}

// Take returns the new records. With ManualCommit these are also those that are not committed; after an Abort they come again.
func (out *Output[K, V]) Take() (all []Got[K, V]) {
	out.d.t.Helper()
	for {
		g, ok := out.next()
		if !ok {
			return all
		}
		all = append(all, g)
	}
}

// Map returns the new records as a map: the last value of each key, without deleted ones.
func (out *Output[K, V]) Map() map[K]V {
	out.d.t.Helper()
	m := make(map[K]V)
	for _, g := range out.Take() {
		if g.Deleted {
			delete(m, g.Key)
		} else {
			m[g.Key] = g.Value
		}
	}
	return m
}

// Next fails the test unless the next record has this key and value.
func (out *Output[K, V]) Next(key K, value V) {
	out.d.t.Helper()
	g, ok := out.next()
	switch {
	case out.d.failed:
	case !ok:
		out.d.fail("topic %s: there is no further record, want %s", out.topic, show(key, value, false))
	case g.NullKey || g.Key != key || g.Deleted || !reflect.DeepEqual(g.Value, value):
		out.d.fail("topic %s: the next record is %s, want %s", out.topic, g, show(key, value, false))
	}
}

// NextDeleted fails the test unless the next record has this key and a null value.
func (out *Output[K, V]) NextDeleted(key K) {
	out.d.t.Helper()
	g, ok := out.next()
	var none V
	switch {
	case out.d.failed:
	case !ok:
		out.d.fail("topic %s: there is no further record, want %s", out.topic, show(key, none, true))
	case g.NullKey || g.Key != key || !g.Deleted:
		out.d.fail("topic %s: the next record is %s, want %s", out.topic, g, show(key, none, true))
	}
}

// None fails the test if there are further records.
func (out *Output[K, V]) None() {
	out.d.t.Helper()
	if g, ok := out.next(); ok {
		out.d.fail("topic %s: there is a further record, %s", out.topic, g)
	}
}

func (out *Output[K, V]) next() (g Got[K, V], ok bool) {
	out.d.t.Helper()
	l := out.d.logs[out.topic]
	for l != nil && !out.d.failed && out.at < len(l.all) {
		e := l.all[out.at]
		out.at++
		if e.sent || e.aborted {
			continue
		}
		return out.decode(e), true
	}
	return g, false
}

func (out *Output[K, V]) decode(e *entry) (g Got[K, V]) {
	out.d.t.Helper()
	var err error
	g.Partition, g.Time, g.NullKey, g.Deleted = e.partition, time.UnixMilli(e.Time).UTC(), e.Key == nil, e.Value == nil
	g.Headers = headersOf(e.Headers)
	if e.Key != nil {
		if g.Key, err = out.ends.Key.Decode(e.Key); err != nil {
			out.d.fail("topologytest: topic %s: decode the key %x: %v", out.topic, e.Key, err)
		}
	}
	if e.Value != nil {
		if g.Value, err = out.ends.Value.Decode(e.Value); err != nil {
			out.d.fail("topologytest: topic %s: decode the value %x: %v", out.topic, e.Value, err)
		}
	}
	return g
}

// String is the record as `key=value at time`.
func (g Got[K, V]) String() string {
	key := fmt.Sprint(g.Key)
	if g.NullKey {
		key = "null"
	}
	return fmt.Sprintf("%s at %s", show(key, g.Value, g.Deleted), g.Time.Format("2006-01-02T15:04:05.000Z"))
}

func show(key, value any, deleted bool) string {
	if deleted {
		return fmt.Sprintf("%v deleted", key)
	}
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer && !v.IsNil() {
		return fmt.Sprintf("%v=&%+v", key, v.Elem())
	}
	return fmt.Sprintf("%v=%+v", key, value)
}
