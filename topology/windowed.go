package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/window"
)

// Windowed is a grouped stream in windows. Each record is added to every window that holds its time and is not closed yet; one that comes too late for a window is
// dropped there and counted under "late". Records with a null key are dropped and counted. A null value is a value like any other, but in sliding windows, which drop it.
// Lateness is judged by the largest time that this aggregation has seen in its partition.
type Windowed[K comparable, V any] struct {
	g     *grouped[K, V]
	spans *spans
}

// Windowed keeps one aggregate per key and window.
func (g Grouped[K, V]) Windowed[S windows](w S) Windowed[K, V] {
	if g.g == nil {
		return Windowed[K, V]{}
	}
	return Windowed[K, V]{g.g, g.g.s.at.b.windows(window.Spec(w))}
}

// Count counts the records of each key and window.
func (w Windowed[K, V]) Count(name string, opts ...StateOption) WindowTable[K, int64] {
	if w.g == nil {
		return WindowTable[K, int64]{}
	}
	return aggregateWindows(w.spans, "KSTREAM-AGGREGATE-", name, codec[int64]{s: serde.Int64()}, gather(w.g.s.at.b, opts), true, w.g, counting[K, V](), nil)
}

// Reduce combines the values of each key and window; the first is taken as it is.
func (w Windowed[K, V]) Reduce(name string, f func(sum, v V) V, opts ...StateOption) WindowTable[K, V] {
	if w.g == nil {
		return WindowTable[K, V]{}
	}
	return aggregateWindows(w.spans, "KSTREAM-REDUCE-", name, w.g.s.value, gather(w.g.s.at.b, opts), f != nil, w.g, reducing[K](f), nil)
}

// Aggregate folds the values of each key and window into an A, beginning with A's zero value. See Grouped.Aggregate for what add may do.
func (w Windowed[K, V]) Aggregate[A any](name string, state serde.Serde[A], add func(K, V, A) A, opts ...StateOption) WindowTable[K, A] {
	if w.g == nil {
		return WindowTable[K, A]{}
	}
	return aggregateWindows(w.spans, "KSTREAM-AGGREGATE-", name, codec[A]{s: state}, gather(w.g.s.at.b, opts), add != nil, w.g, operator.Fold[K, V, A]{Add: add}, nil)
}

// AggregateFrom is Aggregate beginning with what start returns.
func (w Windowed[K, V]) AggregateFrom[A any](name string, state serde.Serde[A], start func() A, add func(K, V, A) A, opts ...StateOption) WindowTable[K, A] {
	if w.g == nil {
		return WindowTable[K, A]{}
	}
	return aggregateWindows(w.spans, "KSTREAM-AGGREGATE-", name, codec[A]{s: state}, gather(w.g.s.at.b, opts), start != nil && add != nil, w.g, operator.Fold[K, V, A]{Start: start, Add: add}, nil)
}

func counting[K comparable, V any]() operator.Fold[K, V, int64] {
	return operator.Fold[K, V, int64]{Add: func(_ K, _ V, n int64) int64 { return operator.OneMore(n) }}
}

func reducing[K comparable, V any](f func(sum, v V) V) operator.Fold[K, V, V] {
	return operator.Fold[K, V, V]{First: func(v V) V { return v }, Add: func(_ K, v, sum V) V { return f(sum, v) }}
}

// Sessions is a grouped stream in sessions. A record becomes one session with all that end or begin at most a gap away from it. It is dropped, counted under "late", if the
// session that it makes or joins is closed; no record changes a closed session. Records with a null key are dropped and counted. Where MaxLength keeps sessions apart that a
// record would join, it goes to the open one that it lies in, or else to the earliest that does not become too long by it, or else begins a new one.
type Sessions[K comparable, V any] struct {
	g     *grouped[K, V]
	spans *spans
}

// Sessions keeps one aggregate per key and session.
func (g Grouped[K, V]) Sessions[S sessions](w S) Sessions[K, V] {
	if g.g == nil {
		return Sessions[K, V]{}
	}
	return Sessions[K, V]{g.g, g.g.s.at.b.sessions(window.SessionSpec(w))}
}

// Count counts the records of each session.
func (s Sessions[K, V]) Count(name string, opts ...StateOption) WindowTable[K, int64] {
	if s.g == nil {
		return WindowTable[K, int64]{}
	}
	return aggregateWindows(s.spans, "KSTREAM-AGGREGATE-", name, codec[int64]{s: serde.Int64()}, gather(s.g.s.at.b, opts), true, s.g, counting[K, V](),
		func(_ K, earlier, later int64) int64 { return earlier + later })
}

// Reduce combines the values of each session, those of sessions that became one too; the first is taken as it is.
func (s Sessions[K, V]) Reduce(name string, f func(sum, v V) V, opts ...StateOption) WindowTable[K, V] {
	if s.g == nil {
		return WindowTable[K, V]{}
	}
	return aggregateWindows(s.spans, "KSTREAM-REDUCE-", name, s.g.s.value, gather(s.g.s.at.b, opts), f != nil, s.g, reducing[K](f),
		func(_ K, earlier, later V) V { return f(earlier, later) })
}

// Aggregate folds the values of each session into an A. merge makes one of two sessions that a record brought together; earlier comes first. As in Kafka Streams, a record
// makes an aggregate anew each time: it begins with A's zero value, with which each session that the record belongs to is merged, and then adds the value. So merge must
// return what it is given as later if earlier is the zero A.
func (s Sessions[K, V]) Aggregate[A any](name string, state serde.Serde[A], add func(K, V, A) A, merge func(k K, earlier, later A) A, opts ...StateOption) WindowTable[K, A] {
	if s.g == nil {
		return WindowTable[K, A]{}
	}
	return aggregateWindows(s.spans, "KSTREAM-AGGREGATE-", name, codec[A]{s: state}, gather(s.g.s.at.b, opts), add != nil && merge != nil, s.g, operator.Fold[K, V, A]{Add: add}, merge)
}

// aggregateWindows makes the node and the table of an aggregation in windows or sessions.
func aggregateWindows[K comparable, V, A any](x *spans, prefix, name string, value codec[A], o settings, given bool, g *grouped[K, V], fold operator.Fold[K, V, A],
	merge func(k K, earlier, later A) A) WindowTable[K, A] {
	b := g.s.at.b
	nodeName := b.number(prefix, o)
	rows := declareWindows[K, A](b, name, x, o)
	s := g.at(name, rows.decl)
	out := add[window.Key[K], operator.Change[A]](b, nodeName, o, s.at.node)
	out.needs(given)
	x.check(out.node)
	if value.from == nil {
		value.from = out.node
	}
	rows.belongs(out.node, s.key, value)
	out.alike = append(out.alike, []*node{s.at.node})
	t := windowTableOf(out, s.key, value, rows)
	s.at.attach(func(w *wiring) engine.Receive[K, V] { return t.feed(w, out.node, fold, merge) })
	return WindowTable[K, A]{t}
}

// feed is the operator of one stream that feeds a table of windows. n is the node to blame for its functions.
func (t *windowTable[K, A]) feed[V any](w *wiring, n *node, fold operator.Fold[K, V, A], merge func(k K, earlier, later A) A) engine.Receive[K, V] {
	windows, sessions := t.running(w)
	switch {
	case windows != nil:
		return operator.Feed(windows, n.run, fold)
	case sessions != nil:
		return operator.FeedSessions(sessions, n.run, operator.SessionFold[K, V, A]{Fold: fold, Merge: merge})
	}
	return nil
}

// running is the aggregation in a task, which all that feed it share; nil after a failure, which is kept in w.
func (t *windowTable[K, A]) running(w *wiring) (*operator.Windowed[K, A], *operator.Sessioned[K, A]) {
	if was, ok := w.made[t]; ok {
		windows, _ := was.(*operator.Windowed[K, A])
		sessions, _ := was.(*operator.Sessioned[K, A])
		return windows, sessions
	}
	next := t.at.receive(w)
	var final engine.Receive[window.Key[K], A]
	if t.kept.final != nil {
		final = t.kept.final.receive(w)
	}
	name := t.kept.rows.decl.Name
	if t.spans.session {
		rows, err := operator.SessionRows[K, A](w.task, name)
		w.fail(err)
		if err != nil {
			return nil, nil
		}
		s := operator.NewSessioned(w.task, t.at.run, operator.Sessioned[K, A]{Rows: rows, Store: name, Spec: t.spans.s, Old: t.info.old, Next: next, Final: final})
		w.made[t] = s
		return nil, s
	}
	rows, err := operator.WindowRows[K, A](w.task, name)
	w.fail(err)
	if err != nil {
		return nil, nil
	}
	x := operator.NewWindowed(w.task, t.at.run, operator.Windowed[K, A]{Rows: rows, Store: name, Spec: t.spans.w, Old: t.info.old, Next: next, Final: final})
	w.made[t] = x
	return x, nil
}
