package topology

import (
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/window"
)

// MaxRecords lets at most n rows wait. When more would, the oldest is sent early, or the application stops; see Suppress.
func MaxRecords(n int64) interface {
	BufferOption
	SuppressOption
} {
	return bufferOption{records: true, most: n}
}

// MaxBytes is MaxRecords by encoded size: keys, values, and some fifty bytes a row with the topic and headers of its record.
func MaxBytes(n int64) interface {
	BufferOption
	SuppressOption
} {
	return bufferOption{bytes: true, most: n}
}

// StopWhenFull ends the application rather than send a row early. UntilWindowCloses always does.
func StopWhenFull() SuppressOption { return bufferOption{stop: true} }

type bufferOption struct {
	records, bytes, stop bool
	most                 int64
}

func (bufferOption) buffer()   {}
func (bufferOption) suppress() {}

// settle reads the option.
func (o bufferOption) settle(s *settings, wrong func(node, problem, remedy string)) {
	switch {
	case o.stop:
		s.stopFull = true
	case o.most < 1 && o.records:
		wrong("MaxRecords", fmt.Sprintf("%d rows may wait", o.most), "give at least one, or leave it out")
	case o.most < 1:
		wrong("MaxBytes", fmt.Sprintf("%d bytes of rows may wait", o.most), "give at least one, or leave it out")
	case o.records:
		s.maxRecords = o.most
	default:
		s.maxBytes = o.most
	}
}

// Until says what Suppress waits for.
type Until interface{ until() }

// WindowUntil says what Suppress of a windowed table waits for.
type WindowUntil interface{ windowUntil() }

type until struct {
	limit  time.Duration
	closes bool
}

func (until) until()       {}
func (until) windowUntil() {}

// UntilTimeLimit sends a row when stream time is d past the first update that waits.
func UntilTimeLimit(d time.Duration) interface {
	Until
	WindowUntil
} {
	return until{limit: time.Duration(d)}
}

// UntilWindowCloses sends one result per window, when stream time passes its end plus grace. Deletes are left out.
func UntilWindowCloses() WindowUntil { return until{closes: true} }

// OnCommit, Suppress and Throttle are the ways to hold back updates.

// Throttle sends on at most one update per row in each d of event time, the last one: a row waits from its first update on until the largest time of all updates is d past it.
// What waits is kept under name: one value per row, early if MaxRecords or MaxBytes says so. What is sent on has the time and headers of its own record.
//
// All that waits is in memory, some 200 bytes a row beside what MaxBytes counts: kolk.Config.Memory counts it but cannot hold it back, MaxRecords and MaxBytes can.
func (t Table[K, V]) Throttle[D duration](name string, d D, opts ...BufferOption) Table[K, V] {
	if t.t == nil {
		return t
	}
	return Table[K, V]{suppressTable(t.t, name, name, until{limit: time.Duration(d)}, gather(t.t.at.b, opts))}
}

// Suppress is Kafka Streams' operator of that name, with its results and the bytes of its changelog, for applications that move with a buffer in flight; Throttle is the
// simpler choice for new ones. Neither can be had of a VersionedTable, nor of what is made of it row by row without a store of its own: that is a fault. One update per row waits, the last, until the first is as old as until says; deletes wait too. Time is the largest time of the updates that
// came here. A buffer that MaxRecords or MaxBytes finds full sends its oldest rows early, or with StopWhenFull ends the application. The store is `<name>-store`; all of it is in memory, as with Throttle.
func (t Table[K, V]) Suppress[U Until](name string, u U, opts ...SuppressOption) Table[K, V] {
	if t.t == nil {
		return t
	}
	o := gather(t.t.at.b, opts)
	return Table[K, V]{suppressTable(t.t, name, name+"-store", waitsFor(t.t.at.b, name, u, "give UntilTimeLimit", o), o)}
}

// waitsFor is what an Until or WindowUntil says; nil is a fault.
func waitsFor(b *Builder, name string, u any, remedy string, o settings) until {
	x, given := u.(until)
	if !given {
		x.limit = time.Millisecond // one fault is enough
		b.faults.add(len(b.nodes), name, "nothing says what it waits for", remedy, o.place)
	}
	return x
}

func suppressTable[K comparable, V any](from *table[K, V], name, storeName string, u until, o settings) *table[K, V] {
	b := from.at.b
	out := buffered(from.at, name, u, o)
	to := newTable(out, from.key, from.value, tableInfo{parent: from.info, passes: true})
	from.info.wantsOld = true
	b.later = append(b.later, func() {
		if v := from.info.versions(); v != "" {
			out.fault("it would hold back updates of the versioned table "+v+", of which each changes the past at its own time",
				"store what is to be held back with Stored before it, where the last update holds; or read the topic as a plain table")
		}
	})
	s := suppressionOf(out.node, storeName, from.key, from.value, u, o)
	to.kept.through = s.attach(from.at, out, from.lookup, func(x *operator.Suppression[K, V]) { x.Deletes, x.Seen = true, to.info.old })
	return to
}

// versions is the store of the versioned table whose rows t has, with their past; empty if it has none.
func (t *tableInfo) versions() string {
	for ; t != nil; t = t.parent {
		switch {
		case !t.stored():
		case t.rows.decl.Kind == "versioned":
			return t.rows.decl.Name
		default:
			return "" // what is stored knows no versions
		}
	}
	return ""
}

// Throttle is Table.Throttle for each key and window.
func (t WindowTable[K, V]) Throttle[D duration](name string, d D, opts ...BufferOption) WindowTable[K, V] {
	if t.t == nil {
		return t
	}
	return WindowTable[K, V]{suppressWindows(t.t, name, name, until{limit: time.Duration(d)}, gather(t.t.at.b, opts))}
}

// Suppress is Table.Suppress for each key and window. With UntilWindowCloses a window is sent once, when it is closed, and a buffer that is full ends the application; Final
// gives the same results without a buffer. Sliding windows and sessions are sent a millisecond later than by Kafka Streams, which lets them go while they can still change.
func (t WindowTable[K, V]) Suppress[U WindowUntil](name string, u U, opts ...SuppressOption) WindowTable[K, V] {
	if t.t == nil {
		return t
	}
	o := gather(t.t.at.b, opts)
	return WindowTable[K, V]{suppressWindows(t.t, name, name+"-store", waitsFor(t.t.at.b, name, u, "give UntilWindowCloses or UntilTimeLimit", o), o)}
}

func suppressWindows[K comparable, V any](from *windowTable[K, V], name, storeName string, u until, o settings) *windowTable[K, V] {
	out := buffered(from.at, name, u, o)
	to := derived(from, out, from.value, tableInfo{passes: true})
	from.info.likesOld = true
	s := suppressionOf(out.node, storeName, windowCodec(out.node, from.key, from.spans), from.value, u, o)
	s.lazyKey = func() { s.key = windowCodec(out.node, from.key, from.spans) }
	to.kept.through = s.attach(from.at, out, from.lookup, func(x *operator.Suppression[window.Key[K], V]) {
		x.Deletes, x.Seen, x.Sessions = !u.closes, to.info.old && !u.closes, from.spans.session
		if u.closes {
			x.Since, x.Wait = windowEnd[K], from.spans.closing()
			x.StopFull = true
		}
	})
	return to
}

func windowEnd[K comparable](k window.Key[K]) int64 { return k.End().UnixMilli() }

// closing is how far stream time must be past the end of a window so that it is closed, ms.
func (x *spans) closing() int64 {
	switch {
	case x.session:
		return span.Add(span.Add(x.s.Gap(), x.s.Grace()), 1)
	case x.w.Inclusive():
		return span.Add(x.w.Grace(), 1)
	}
	return x.w.Grace()
}

// buffered is the node of a suppression. Its name is not a number, so it takes none.
func buffered[K comparable, V any](from *place[K, operator.Change[V]], name string, u until, o settings) *place[K, operator.Change[V]] {
	o.derived = false
	out := add[K, operator.Change[V]](from.b, name, o, from.node)
	if !u.closes && u.limit < time.Millisecond {
		out.fault(fmt.Sprintf("rows are to wait for %v", u.limit), "give at least a millisecond")
	}
	return out
}

// suppression is the store of a suppression with the serdes of its rows.
type suppression[K comparable, V any] struct {
	ref     *storeRef
	key     codec[K]
	value   codec[V]
	lazyKey func() // settles key once everything is declared; may be nil
	u       until
	o       settings
}

func suppressionOf[K comparable, V any](n *node, name string, key codec[K], value codec[V], u until, o settings) *suppression[K, V] {
	d := &state.Decl{Name: name, Place: o.place, Expected: o.maxRecords}
	operator.DeclareWaiting(d)
	s := &suppression[K, V]{ref: &storeRef{decl: d, node: n, in: true}, key: key, value: value, u: u, o: o}
	n.uses(d)
	s.ref.ready = func() {
		if problem := badName(name); problem != "" {
			n.b.faults.add(n.id, name, problem, nameRemedy, o.place)
		}
		if s.lazyKey != nil {
			s.lazyKey()
		}
		ks, ok := s.key.need(n, "key")
		vs, ok2 := s.value.need(n, "value")
		if !ok || !ok2 {
			return
		}
		s.key.s, s.value.s = ks, vs
		d.Key, d.Value, d.Version = serde.Name(ks), serde.Name(vs), n.b.version
	}
	return s
}

// running is the suppression in a task, as far as all kinds have it in common.
// attach makes the code of the suppression behind from, with what set says, and returns where its rows are found.
func (s *suppression[K, V]) attach(from, out *place[K, operator.Change[V]], rows func(*wiring) operator.Lookup[K, V], set func(*operator.Suppression[K, V])) func(*wiring) operator.Lookup[K, V] {
	from.attach(func(w *wiring) engine.Receive[K, operator.Change[V]] {
		x := s.running(w)
		set(&x)
		r, err := operator.Suppress(w.task, out.run, x, out.receive(w))
		w.fail(err)
		return r
	})
	out.b.stores = append(out.b.stores, s.ref)
	return func(w *wiring) operator.Lookup[K, V] {
		x := s.running(w)
		if w.err != nil {
			return nil
		}
		return operator.WaitingLookup(w.task, x, rows(w))
	}
}

func (s *suppression[K, V]) running(w *wiring) operator.Suppression[K, V] {
	topic := w.task.Env().App + "-" + s.ref.decl.Full() + "-changelog"
	key, err := operator.Bound(w.task, s.key.s, topic, true)
	w.fail(err)
	value, err := operator.Bound(w.task, s.value.s, topic, false)
	w.fail(err)
	return operator.Suppression[K, V]{Store: s.ref.decl.Name, Key: key, Value: value, Wait: s.u.limit.Milliseconds(), MaxRecords: s.o.maxRecords, MaxBytes: s.o.maxBytes, StopFull: s.o.stopFull}
}
