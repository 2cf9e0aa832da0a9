package topology

import (
	"iter"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
)

// Stream is a stream of events. It is a small value that names a place in the graph: copy it, keep it, use it as often as you like; every use
// gets every record. The zero Stream names no place: what is made of it is not part of any topology.
type Stream[K comparable, V any] struct{ s *stream[K, V] }

type stream[K comparable, V any] struct {
	at        *place[K, V]
	key       codec[K]
	value     codec[V]
	fromKey   untouched[K]
	fromValue untouched[V]
	rekeyed   *node // the operator that gave new keys since the last topic; nil if there is none
}

// revalued is s behind an operator that keeps the key.
func revalued[K comparable, V, V2 any](s *stream[K, V], at *place[K, V2]) *stream[K, V2] {
	return &stream[K, V2]{at: at, key: s.key, value: inherit[V, V2](s.value, at.node), fromKey: s.fromKey, rekeyed: s.rekeyed}
}

// rekeyed is s behind an operator that gives new keys and values.
func rekeyed[K comparable, V any, K2 comparable, V2 any](s *stream[K, V], at *place[K2, V2]) *stream[K2, V2] {
	return &stream[K2, V2]{at: at, key: inherit[K, K2](s.key, at.node), value: inherit[V, V2](s.value, at.node), rekeyed: at.node}
}

// moved is s at another place.
func (s stream[K, V]) moved(at *place[K, V]) *stream[K, V] {
	s.at = at
	return &s
}

// Filter keeps the records for which keep is true.
func (s Stream[K, V]) Filter(keep func(K, V) bool, opts ...NodeOption) Stream[K, V] {
	if s.s == nil {
		return s
	}
	return Stream[K, V]{s.s.moved(then(s.s.at, "KSTREAM-FILTER-", gather(s.s.at.b, opts), keep != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K, V]) engine.Receive[K, V] {
		return operator.Filter(t, n, keep, next)
	}))}
}

// FilterValues is Filter by value alone; a method expression such as Order.Paid fits.
func (s Stream[K, V]) FilterValues(keep func(V) bool, opts ...NodeOption) Stream[K, V] {
	if s.s == nil {
		return s
	}
	return Stream[K, V]{s.s.moved(then(s.s.at, "KSTREAM-FILTER-", gather(s.s.at.b, opts), keep != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K, V]) engine.Receive[K, V] {
		return operator.FilterValues(t, n, keep, next)
	}))}
}

// FilterRecord is Filter by the whole record: null key, time and headers included.
func (s Stream[K, V]) FilterRecord(keep func(processor.Record[K, V]) bool, opts ...NodeOption) Stream[K, V] {
	if s.s == nil {
		return s
	}
	return Stream[K, V]{s.s.moved(then(s.s.at, "KSTREAM-FILTER-", gather(s.s.at.b, opts), keep != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K, V]) engine.Receive[K, V] {
		return operator.FilterRecord(t, n, keep, next)
	}))}
}

// Map makes one record of each, with a new key; what groups or joins the result by key goes through a repartition topic.
func (s Stream[K, V]) Map[K2 comparable, V2 any](f func(K, V) (K2, V2), opts ...NodeOption) Stream[K2, V2] {
	if s.s == nil {
		return Stream[K2, V2]{}
	}
	return Stream[K2, V2]{rekeyed(s.s, then(s.s.at, "KSTREAM-MAP-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K2, V2]) engine.Receive[K, V] {
		return operator.Map(t, n, f, next)
	}))}
}

// MapValues changes the value.
func (s Stream[K, V]) MapValues[V2 any](f func(V) V2, opts ...NodeOption) Stream[K, V2] {
	if s.s == nil {
		return Stream[K, V2]{}
	}
	return Stream[K, V2]{revalued(s.s, then(s.s.at, "KSTREAM-MAPVALUES-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K, V2]) engine.Receive[K, V] {
		return operator.MapValues(t, n, f, next)
	}))}
}

// MapWithKey changes the value by key and value; the key stays.
func (s Stream[K, V]) MapWithKey[V2 any](f func(K, V) V2, opts ...NodeOption) Stream[K, V2] {
	if s.s == nil {
		return Stream[K, V2]{}
	}
	return Stream[K, V2]{revalued(s.s, then(s.s.at, "KSTREAM-MAPVALUES-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K, V2]) engine.Receive[K, V] {
		return operator.MapWithKey(t, n, f, next)
	}))}
}

// MapRecord changes the whole record, time and headers included. Like Map, it may change the key; with NullKey it makes a null one. A time before 1970 fails the record.
func (s Stream[K, V]) MapRecord[K2 comparable, V2 any](f func(processor.Record[K, V]) processor.Record[K2, V2], opts ...NodeOption) Stream[K2, V2] {
	if s.s == nil {
		return Stream[K2, V2]{}
	}
	return Stream[K2, V2]{rekeyed(s.s, then(s.s.at, "KSTREAM-MAP-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K2, V2]) engine.Receive[K, V] {
		return operator.MapRecord(t, n, f, next)
	}))}
}

// MapRecordValues is MapRecord that keeps the key, so no repartition follows: value, time and headers may change. f must make its result from the record it was given.
func (s Stream[K, V]) MapRecordValues[V2 any](f func(processor.FixedKeyRecord[K, V]) processor.FixedKeyRecord[K, V2], opts ...NodeOption) Stream[K, V2] {
	if s.s == nil {
		return Stream[K, V2]{}
	}
	return Stream[K, V2]{revalued(s.s, then(s.s.at, "KSTREAM-MAPVALUES-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K, V2]) engine.Receive[K, V] {
		return operator.MapRecordValues(t, n, f, next)
	}))}
}

// TryMapValues is MapValues by a function that can fail. Failed records go to the policy of OnError, by default the application's.
func (s Stream[K, V]) TryMapValues[V2 any](f func(V) (V2, error), opts ...TryOption) Stream[K, V2] {
	if s.s == nil {
		return Stream[K, V2]{}
	}
	return Stream[K, V2]{revalued(s.s, then(s.s.at, "KSTREAM-MAPVALUES-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K, V2]) engine.Receive[K, V] {
		return operator.TryMapValues(t, n, f, next)
	}))}
}

// FlatMap makes any number of records of each, with new keys. A nil sequence makes none.
func (s Stream[K, V]) FlatMap[K2 comparable, V2 any](f func(K, V) iter.Seq2[K2, V2], opts ...NodeOption) Stream[K2, V2] {
	if s.s == nil {
		return Stream[K2, V2]{}
	}
	return Stream[K2, V2]{rekeyed(s.s, then(s.s.at, "KSTREAM-FLATMAP-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K2, V2]) engine.Receive[K, V] {
		return operator.FlatMap(t, n, f, next)
	}))}
}

// FlatMapValues makes any number of records of each. strings.FieldsSeq fits; slices.Values makes a sequence of a slice. A nil sequence makes none.
func (s Stream[K, V]) FlatMapValues[V2 any](f func(V) iter.Seq[V2], opts ...NodeOption) Stream[K, V2] {
	if s.s == nil {
		return Stream[K, V2]{}
	}
	return Stream[K, V2]{revalued(s.s, then(s.s.at, "KSTREAM-FLATMAPVALUES-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K, V2]) engine.Receive[K, V] {
		return operator.FlatMapValues(t, n, f, next)
	}))}
}

// SelectKey gives each record a new key, which is not null; MapRecord can make null ones.
func (s Stream[K, V]) SelectKey[K2 comparable](key func(K, V) K2, opts ...NodeOption) Stream[K2, V] {
	if s.s == nil {
		return Stream[K2, V]{}
	}
	return Stream[K2, V]{selectKey(s.s, key, gather(s.s.at.b, opts))}
}

func selectKey[K comparable, V any, K2 comparable](s *stream[K, V], key func(K, V) K2, o settings) *stream[K2, V] {
	out := rekeyed(s, then(s.at, "KSTREAM-KEY-SELECT-", o, key != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K2, V]) engine.Receive[K, V] {
		return operator.SelectKey(t, n, key, next)
	}))
	out.value, out.fromValue = s.value, s.fromValue
	return out
}

// Peek calls f for its side effects and passes the record on. f may be called again for the same record after a failure.
func (s Stream[K, V]) Peek(f func(K, V), opts ...NodeOption) Stream[K, V] {
	if s.s == nil {
		return s
	}
	return Stream[K, V]{s.s.moved(then(s.s.at, "KSTREAM-PEEK-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K, V]) engine.Receive[K, V] {
		return operator.Peek(t, n, f, next)
	}))}
}

// Merge joins streams of the same types into one. Records of one partition keep their order; between streams there is none. The serdes must be equal (see NewTopic); a
// stream without any takes the others', and WithKey or WithValue after Merge settles it. Different ones are a fault at Build where a serde is needed.
func (s Stream[K, V]) Merge(others ...Stream[K, V]) Stream[K, V] {
	if s.s == nil {
		return s
	}
	b := s.s.at.b
	o := gather(b, []NodeOption(nil))
	out := add[K, V](b, b.number("KSTREAM-MERGE-", o), o)
	merged := *s.s
	merged.at = out
	for i, in := range append([]Stream[K, V]{s}, others...) {
		if !ours(out.node, in.s != nil, func() *Builder { return in.s.at.b }, "stream") {
			continue
		}
		out.parents = append(out.parents, in.s.at.node)
		in.s.at.attach(func(w *wiring) engine.Receive[K, V] { return out.receive(w) })
		if i == 0 {
			continue
		}
		merged.key, merged.value = merged.key.merge(in.s.key, out.node), merged.value.merge(in.s.value, out.node)
		merged.fromKey, merged.fromValue = both(merged.fromKey, in.s.fromKey), both(merged.fromValue, in.s.fromValue)
		if merged.rekeyed == nil {
			merged.rekeyed = in.s.rekeyed
		}
	}
	return Stream[K, V]{&merged}
}

// ours is a fault at n unless something that was handed to it belongs to the same builder.
func ours(n *node, known bool, of func() *Builder, what string) bool {
	switch {
	case !known:
		n.fault("it was given a zero "+what, "use one that a Builder's method returned; a fault before this one may be the cause")
	case of() != n.b:
		n.fault("it was given a "+what+" of another Builder", "declare one topology with one Builder")
	default:
		return true
	}
	return false
}

// WithKey sets the serde of the key for what follows.
func (s Stream[K, V]) WithKey(key serde.Serde[K]) Stream[K, V] {
	if s.s == nil {
		return s
	}
	out := *s.s
	out.key = codec[K]{s: key, from: s.s.at.node}
	out.at.checkSerde(key != nil, "WithKey")
	return Stream[K, V]{&out}
}

// WithValue sets the serde of the value for what follows.
func (s Stream[K, V]) WithValue(value serde.Serde[V]) Stream[K, V] {
	if s.s == nil {
		return s
	}
	out := *s.s
	out.value = codec[V]{s: value, from: s.s.at.node}
	out.at.checkSerde(value != nil, "WithValue")
	return Stream[K, V]{&out}
}

func (n *node) checkSerde(given bool, method string) {
	if !given {
		n.b.faults.add(len(n.b.nodes), n.run.Name, method+" was given no serde", "give one, or leave "+method+" out", caller())
	}
}
