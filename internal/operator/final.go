package operator

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/window"
)

// finals sends the last value of each window when it is closed, from the store: there is no buffer. How far it has come is committed under the
// store's name, as Kafka Streams does, so that each window is sent once whatever happens in between.
type finals[K comparable, A any] struct {
	node *engine.Node
	task *engine.Task
	next engine.Receive[window.Key[K], A]
	sent *int64 // what was closed at this time has been sent; -1 if nothing has
	due  int64  // no window that has not been sent closes before
	// inclusive says that a window's end belongs to it, so that it is closed one millisecond later.
	inclusive int64
	// scan visits what was closed after one time and is closed at another, in order.
	scan func(after, at int64, visit func(k K, start, end int64, value A, entry int64))
	// first is the end of the first window that is open at a time.
	first func(at int64) (end int64, ok bool)
	batch []closedWindow[K, A]
}

type closedWindow[K comparable, A any] struct {
	key        K
	start, end int64
	value      A
	at         int64
}

func newWindowFinals[K comparable, A any](t *engine.Task, n *engine.Node, w *Windowed[K, A]) *finals[K, A] {
	f := &finals[K, A]{node: n, task: t, next: w.Final, sent: t.Clock(w.Store)}
	if w.Spec.Inclusive() {
		f.inclusive = 1
	}
	rows, spec := w.Rows, w.Spec
	f.scan = func(after, at int64, visit func(k K, start, end int64, value A, entry int64)) {
		from := int64(0)
		if after >= 0 {
			from = max(0, spec.Closed(after)+1)
		}
		rows.Starting(from, spec.Closed(at), func(k K, start int64, value A, entry int64) bool {
			visit(k, start, spec.End(start), value, entry)
			return true
		})
	}
	f.first = func(at int64) (int64, bool) {
		start, ok := rows.First(spec.Closed(at) + 1)
		return spec.End(start), ok
	}
	return f
}

// opened says that a window up to end has a value.
func (f *finals[K, A]) opened(end int64) { f.due = min(f.due, span.Add(end, f.inclusive)) }

// closed is up to where windows are closed if stream time says at: not less than what was sent. It is more where the application comes from Java, which commits how far the
// results have come, but not its stream time. f may be nil.
func (f *finals[K, A]) closed(at int64) int64 {
	if f == nil {
		return at
	}
	return max(at, *f.sent)
}

// pace lets the time of an aggregation go on while the task is idle, and its windows close. They do so when it is past their end by delay. f may be nil.
func (f *finals[K, A]) pace(time own, t *engine.Task, n *engine.Node, delay int64) {
	if f == nil {
		time.pace(t, n, nil, nil)
		return
	}
	at := func() int64 { return f.closed(span.Sub(*time.at, delay)) }
	time.pace(t, n, func() int64 { return f.closes(at(), delay) }, func(r *engine.Rec) { f.upTo(r, at()) })
}

// closes is the time at which a window closes next, if it does so delay past its end. at is up to where windows are closed.
func (f *finals[K, A]) closes(at, delay int64) int64 {
	if f.due <= at || f.due == 0 { // it was not looked at since the start
		f.due = never
		if end, ok := f.first(at); ok {
			f.due = span.Add(end, f.inclusive)
		}
	}
	if f.due == never {
		return never
	}
	return span.Add(f.due, delay)
}

// upTo sends what is closed at a time: stream time less the grace, and less the gap of sessions.
func (f *finals[K, A]) upTo(r *engine.Rec, at int64) {
	if at < f.due || at < 0 {
		return
	}
	f.task.At(f.node)
	f.due = never
	if end, ok := f.first(at); ok {
		f.due = span.Add(end, f.inclusive)
	}
	f.scan(*f.sent, at, func(k K, start, end int64, value A, entry int64) {
		f.batch = append(f.batch, closedWindow[K, A]{k, start, end, value, entry})
	})
	*f.sent = at
	// What follows may write to the store, so the scan is over.
	for i := range f.batch {
		c := &f.batch[i]
		was := r.Keep(c.at, r.Headers)
		f.next(r, InWindow(c.key, c.start, c.end), c.value)
		*r = was
	}
	clear(f.batch)
	f.batch = f.batch[:0]
}
