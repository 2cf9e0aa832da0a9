package operator

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/window"
)

// InWindow is a key in a window, from times in ms.
func InWindow[K comparable](k K, start, end int64) window.Key[K] {
	return window.Of(k, time.UnixMilli(start), time.UnixMilli(end))
}

// own is the stream time of one node, by which it judges lateness: the largest time of the records that have reached it. It is committed, so
// a restart or move forgets nothing.
type own struct{ at *int64 }

func ownTime(t *engine.Task, store string) own { return own{t.Clock(store + ":time")} }

// pace lets the node's time go on while the task is idle. due and run may be nil.
func (o own) pace(t *engine.Task, n *engine.Node, due func() int64, run func(*engine.Rec)) {
	t.Pace(engine.Pace{Node: n, Clock: o.at, Due: due, Run: run})
}

// observe takes a record's time in and says whether stream time moved.
func (o own) observe(at int64) bool {
	if at <= *o.at {
		return false
	}
	*o.at = at
	return true
}

// Windowed is an aggregate per key and window. Several streams may feed it.
type Windowed[K comparable, A any] struct {
	// Rows is the store, and Store its name.
	Rows  state.Windows[K, A]
	Store string
	Spec  span.Windows
	// Old says that old values are wanted.
	Old bool
	// Next takes every update.
	Next engine.Receive[window.Key[K], Change[A]]
	// Final takes the last value of each window once it is closed; nil if nobody wants it.
	Final engine.Receive[window.Key[K], A]

	task  *engine.Task
	time  own
	final *finals[K, A]
}

// NewWindowed completes w for a task.
func NewWindowed[K comparable, A any](t *engine.Task, n *engine.Node, w Windowed[K, A]) *Windowed[K, A] {
	w.task, w.time = t, ownTime(t, w.Store)
	grace := w.Spec.Grace()
	if w.Final != nil {
		w.final = newWindowFinals(t, n, &w)
	}
	w.final.pace(w.time, t, n, grace)
	return &w
}

// observe moves stream time to that of a record, and sends the results of what it closes. They are sent before the record changes anything: the
// window it opens may make the store forget those that it closes.
func (w *Windowed[K, A]) observe(r *engine.Rec) (closed int64) {
	moved := w.time.observe(r.Time)
	closed = w.final.closed(span.Sub(*w.time.at, w.Spec.Grace()))
	if moved && w.final != nil {
		w.final.upTo(r, closed)
	}
	return closed
}

// opened tells the final results of a window that has a value now.
func (w *Windowed[K, A]) opened(end int64) {
	if w.final != nil {
		w.final.opened(end)
	}
}

// step makes an update of one window from the one before. It is what Modify calls, and so reads its arguments from the fields beside it.
type step[K comparable, V, A any] struct {
	fold   Fold[K, V, A]
	old    bool
	apart  bool // old values must not share memory with new ones
	isNull func(A) bool

	key    K
	value  V
	time   int64 // of the record
	c      Change[A]
	at     int64 // of the new entry
	seeded bool  // if there is no entry, seed is what the window begins with, a copy of what the window from seedStart holds
	seed   A

	seedStart int64
}

func newStep[K comparable, V, A any](fold Fold[K, V, A], old bool) *step[K, V, A] {
	return &step[K, V, A]{fold: fold, old: old, apart: !immutable(reflect.TypeFor[A]()), isNull: IsNull[A]()}
}

// start is an aggregate of no values.
func (s *step[K, V, A]) start() (a A) {
	if s.fold.Start != nil {
		return s.fold.Start()
	}
	return a
}

// isNil says whether an aggregate is null.
func (s *step[K, V, A]) isNil(a A) bool { return s.isNull != nil && s.isNull(a) }

// put sets what the next call of update works with.
func (s *step[K, V, A]) put(k K, v V, at int64) {
	s.key, s.value, s.time, s.seeded, s.c = k, v, at, false, Change[A]{}
}

func (s *step[K, V, A]) update(was A, wasAt int64, ok bool) (A, int64, bool) {
	s.at = s.time
	switch {
	case ok:
		s.at = max(s.time, wasAt)
		if s.old && !s.apart {
			s.c.Old, s.c.HasOld = was, true
		}
		s.c.New = s.fold.Add(s.key, s.value, was)
	case s.seeded:
		if s.old && !s.apart {
			s.c.Old, s.c.Began = s.seed, true
		}
		s.c.New = s.fold.Add(s.key, s.value, s.seed)
	case s.fold.First != nil:
		s.c.New = s.fold.First(s.value)
	default:
		if s.old {
			s.c.Old, s.c.Began = s.start(), true
		}
		s.c.New = s.fold.Add(s.key, s.value, s.start())
	}
	s.c.HasNew = !s.isNil(s.c.New)
	return s.c.New, s.at, s.c.HasNew
}

// Feed is the operator of one stream that feeds windows of a fixed place in time. Its node is the one to blame for the functions in fold.
func Feed[K comparable, V, A any](w *Windowed[K, A], n *engine.Node, fold Fold[K, V, A]) engine.Receive[K, V] {
	if w.Spec.Kind() == span.Sliding {
		return slide(w, n, fold)
	}
	t := w.task
	noKeys := t.Counter(n, string(processor.NullKey))
	u := newUpdate(w, n, fold)
	return func(r *engine.Rec, k K, v V) {
		if r.NullKey {
			t.Drop(noKeys, r)
			return
		}
		closed := w.observe(r)
		start, advance, count := w.Spec.Starts(r.Time)
		for range count {
			end := w.Spec.End(start)
			if end <= closed {
				t.Drop(u.late, r)
			} else {
				u.put(k, v, r.Time)
				if !u.apply(r, start, end) {
					return
				}
			}
			start += advance
		}
	}
}

// update applies steps to the windows of one stream.
type update[K comparable, V, A any] struct {
	*step[K, V, A]
	w             *Windowed[K, A]
	node          *engine.Node
	late, expired *engine.Counter
	begins        int64 // start of the window
	ends          int64
	admitted      bool
	run           func(*engine.Rec) bool
}

func newUpdate[K comparable, V, A any](w *Windowed[K, A], n *engine.Node, fold Fold[K, V, A]) *update[K, V, A] {
	t := w.task
	u := &update[K, V, A]{step: newStep(fold, w.Old), w: w, node: n, late: t.Counter(n, string(processor.Late)), expired: t.Counter(n, string(processor.Expired))}
	modify := u.step.update
	u.run = guarded(t, n, func() { u.admitted = w.Rows.Modify(u.key, u.begins, modify) })
	return u
}

// apply updates one window and sends the update on. It returns false if a function failed: the policy has dealt with the record then.
func (u *update[K, V, A]) apply(r *engine.Rec, start, end int64) bool {
	w := u.w
	u.begins, u.ends = start, end
	if u.old && u.apart {
		// The aggregate may be changed in place, so the old one is read on its own.
		if u.c.Old, _, u.c.HasOld = w.Rows.Lookup(u.key, start); !u.c.HasOld && u.seeded {
			u.c.Old, _, u.c.Began = w.Rows.Lookup(u.key, u.seedStart)
		}
	}
	if !u.run(r) {
		return false
	}
	if !u.admitted {
		w.task.Drop(u.expired, r)
		return true
	}
	w.opened(end)
	u.send(r, u.at)
	return true
}

// send sends the update on.
func (u *update[K, V, A]) send(r *engine.Rec, at int64) {
	c, was := u.c, r.Time
	r.Time = at
	u.w.Next(r, InWindow(u.key, u.begins, u.ends), c)
	r.Time = was
}

// never is a time that does not come.
const never = math.MaxInt64

// WindowRows opens a window store of the task for operators.
func WindowRows[K comparable, V any](t *engine.Task, store string) (state.Windows[K, V], error) {
	rows, ok := t.StoreNamed(store).(state.Windows[K, V])
	if !ok {
		return nil, fmt.Errorf("store %q is not one of the task's window stores", store)
	}
	return rows, nil
}

// SessionRows opens a session store of the task for operators.
func SessionRows[K comparable, V any](t *engine.Task, store string) (state.Sessions[K, V], error) {
	rows, ok := t.StoreNamed(store).(state.Sessions[K, V])
	if !ok {
		return nil, fmt.Errorf("store %q is not one of the task's session stores", store)
	}
	return rows, nil
}
