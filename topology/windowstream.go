package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/window"
)

// Final is one result per key and window, sent when the window is closed: when stream time passes its end plus grace. It needs no buffer. Each result is sent once,
// whatever is restarted or moved in between, and nothing changes the window after it: what comes for it then is late. Stream time is that of the aggregation, and moves with its records only: while none come, the last windows stay open. kolk.Config.CloseIdle closes them on the wall clock.
//
// A result has the time of its window's last record (of a session, its end) and the headers of the record that closed it. Results of one moment come in order of the windows'
// starts (of sessions, their ends, then their starts), then of the encoded keys. Unlike in Kafka Streams none is lost, however far stream time jumps.
//
// Final is a fault on what Suppress or Throttle hold back: call it on the table before. It is one on a join of tables too, where Suppress does.
func (t WindowTable[K, V]) Final() WindowStream[K, V] {
	if t.t == nil {
		return WindowStream[K, V]{}
	}
	if t.t.result == nil {
		if t.t.info.joins() {
			t.t.at.fault("Final was called on a join of tables, whose sides close their windows each at its own time", "use Suppress with UntilWindowCloses")
		} else {
			t.t.at.fault("Final was called on a table whose updates are held back", "call Final on the table before Suppress or Throttle")
		}
		return WindowStream[K, V]{}
	}
	return WindowStream[K, V]{&windowStream[K, V]{at: t.t.result(), key: t.t.key, value: t.t.value, spans: t.t.spans}}
}

// Stream is every update as an event. Sessions that were merged away are left out; Changes has them.
func (t WindowTable[K, V]) Stream() WindowStream[K, V] {
	if t.t == nil {
		return WindowStream[K, V]{}
	}
	b, o := t.t.at.b, gather(t.t.at.b, []NodeOption(nil))
	out := add[window.Key[K], V](b, b.number("KTABLE-TOSTREAM-", o), o, t.t.at.node)
	t.t.at.attach(func(w *wiring) engine.Receive[window.Key[K], operator.Change[V]] {
		return operator.Updates(out.receive(w))
	})
	return WindowStream[K, V]{&windowStream[K, V]{at: out, key: t.t.key, value: t.t.value, spans: t.t.spans}}
}

// Changes is every update as an event, with what was before.
func (t WindowTable[K, V]) Changes[R any](f func(window.Key[K], Change[V]) R) WindowStream[K, R] {
	if t.t == nil {
		return WindowStream[K, R]{}
	}
	b, o := t.t.at.b, gather(t.t.at.b, []NodeOption(nil))
	out := add[window.Key[K], R](b, b.number("KTABLE-TOSTREAM-", o), o, t.t.at.node)
	out.needs(f != nil)
	t.t.info.wantsOld = true
	t.t.at.attach(func(w *wiring) engine.Receive[window.Key[K], operator.Change[V]] {
		return operator.ChangeEvents(w.task, out.run, func(k window.Key[K], old, new *V) R { return f(k, Change[V]{old, new}) }, out.receive(w))
	})
	return WindowStream[K, R]{&windowStream[K, R]{at: out, key: t.t.key, value: inherit[V, R](t.t.value, out.node), spans: t.t.spans}}
}

// WindowStream is a stream whose keys are keys in windows. Map and ByKey lead back to a plain stream. The zero WindowStream names no place.
type WindowStream[K comparable, V any] struct{ s *windowStream[K, V] }

type windowStream[K comparable, V any] struct {
	at    *place[window.Key[K], V]
	key   codec[K]
	value codec[V]
	spans *spans
}

// Filter keeps the records for which keep is true.
func (s WindowStream[K, V]) Filter(keep func(window.Key[K], V) bool, opts ...NodeOption) WindowStream[K, V] {
	if s.s == nil {
		return s
	}
	out := *s.s
	out.at = then(s.s.at, "KSTREAM-FILTER-", gather(s.s.at.b, opts), keep != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[window.Key[K], V]) engine.Receive[window.Key[K], V] {
		return operator.Filter(t, n, keep, next)
	})
	return WindowStream[K, V]{&out}
}

// MapValues changes the value.
func (s WindowStream[K, V]) MapValues[V2 any](f func(V) V2, opts ...NodeOption) WindowStream[K, V2] {
	if s.s == nil {
		return WindowStream[K, V2]{}
	}
	at := then(s.s.at, "KSTREAM-MAPVALUES-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[window.Key[K], V2]) engine.Receive[window.Key[K], V] {
		return operator.MapValues(t, n, f, next)
	})
	return WindowStream[K, V2]{&windowStream[K, V2]{at: at, key: s.s.key, value: inherit[V, V2](s.s.value, at.node), spans: s.s.spans}}
}

// MapWithKey changes the value by key, window and value. The window stays.
func (s WindowStream[K, V]) MapWithKey[V2 any](f func(window.Key[K], V) V2, opts ...NodeOption) WindowStream[K, V2] {
	if s.s == nil {
		return WindowStream[K, V2]{}
	}
	at := then(s.s.at, "KSTREAM-MAPVALUES-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[window.Key[K], V2]) engine.Receive[window.Key[K], V] {
		return operator.MapWithKey(t, n, f, next)
	})
	return WindowStream[K, V2]{&windowStream[K, V2]{at: at, key: s.s.key, value: inherit[V, V2](s.s.value, at.node), spans: s.s.spans}}
}

// Map makes a plain stream, with a key of your choice.
func (s WindowStream[K, V]) Map[K2 comparable, V2 any](f func(window.Key[K], V) (K2, V2), opts ...NodeOption) Stream[K2, V2] {
	if s.s == nil {
		return Stream[K2, V2]{}
	}
	at := then(s.s.at, "KSTREAM-MAP-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K2, V2]) engine.Receive[window.Key[K], V] {
		return operator.Map(t, n, f, next)
	})
	return Stream[K2, V2]{&stream[K2, V2]{at: at, key: inherit[K, K2](s.s.key, at.node), value: inherit[V, V2](s.s.value, at.node), rekeyed: at.node}}
}

// ByKey is a plain stream by the key without its window, made into values by f. The partitioning stays, so no repartition follows.
func (s WindowStream[K, V]) ByKey[V2 any](f func(window.Key[K], V) V2, opts ...NodeOption) Stream[K, V2] {
	if s.s == nil {
		return Stream[K, V2]{}
	}
	at := then(s.s.at, "KSTREAM-MAP-", gather(s.s.at.b, opts), f != nil, func(t *engine.Task, n *engine.Node, next engine.Receive[K, V2]) engine.Receive[window.Key[K], V] {
		return operator.Map(t, n, func(k window.Key[K], v V) (K, V2) { return k.Key, f(k, v) }, next)
	})
	return Stream[K, V2]{&stream[K, V2]{at: at, key: s.s.key, value: inherit[V, V2](s.s.value, at.node)}}
}

// To writes the stream to a topic, partitioned by the key without its window.
func (s WindowStream[K, V]) To(topic Topic[window.Key[K], V], opts ...SinkOption) {
	if s.s == nil {
		return
	}
	to := writer(s.s.at.node, topic, nil, gather(s.s.at.b, opts))
	s.s.spans.fits(to.node, topic.key)
	s.s.at.attach(func(w *wiring) engine.Receive[window.Key[K], V] {
		r, err := operator.Sink(w.task, to.run, to.target(w, nil, nil))
		w.fail(err)
		return r
	})
}

// WithValue sets the serde of the value for what follows.
func (s WindowStream[K, V]) WithValue(value serde.Serde[V]) WindowStream[K, V] {
	if s.s == nil {
		return s
	}
	out := *s.s
	out.value = codec[V]{s: value, from: s.s.at.node}
	out.at.checkSerde(value != nil, "WithValue")
	return WindowStream[K, V]{&out}
}

// WindowKeyed is a stream of windows as a plain one, with everything that a Stream can do. Its keys are written with window.KeySerde or window.SessionKeySerde, and it stays
// partitioned by the key without its window. If the type of the key has no serde yet that is known, give one with WithKey.
func WindowKeyed[K comparable, V any](s WindowStream[K, V]) Stream[window.Key[K], V] {
	if s.s == nil {
		return Stream[window.Key[K], V]{}
	}
	return Stream[window.Key[K], V]{&stream[window.Key[K], V]{at: s.s.at, key: windowCodec(s.s.at.node, s.s.key, s.s.spans), value: s.s.value}}
}

// WindowKeyedTable is WindowKeyed for tables. Rows that expire are not deleted from what is made of it.
func WindowKeyedTable[K comparable, V any](t WindowTable[K, V]) Table[window.Key[K], V] {
	if t.t == nil {
		return Table[window.Key[K], V]{}
	}
	from := t.t
	to := newTable(from.at, windowCodec(from.at.node, from.key, from.spans), from.value, tableInfo{parent: from.info, passes: true, filter: true})
	to.kept.through = from.lookup
	return Table[window.Key[K], V]{to}
}

// windowCodec is the serde of keys in windows.
func windowCodec[K comparable](n *node, key codec[K], x *spans) codec[window.Key[K]] {
	out := codec[window.Key[K]]{from: n}
	if s, ok := key.find(n.b); ok && key.clash == nil {
		out.s = keySerde(x, s)
	}
	return out
}
