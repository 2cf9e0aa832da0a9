package operator

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/span"
)

// Sliding windows exist for each different set of records that lie at most a difference d apart. A record at t makes, if they hold records that
// no other window holds together:
//
//	its left window    [t-d, t]
//	its right window   [t+1, t+1+d], if there are later records
//	the right window of the record before it, which t may be the first to be in
//
// and is added to every window that holds t. So what windows there are does not depend on the order of the records. Windows that would start
// before 1970 are replaced by [0, d].

// slide is the operator of one stream that feeds sliding windows.
func slide[K comparable, V, A any](w *Windowed[K, A], n *engine.Node, fold Fold[K, V, A]) engine.Receive[K, V] {
	s := &slider[K, V, A]{intake: newIntake[K, V](w.task, n), d: w.Spec.Size(), u: newUpdate(w, n, fold)}
	s.found = func(start int64, value A, at int64) bool {
		s.windows = append(s.windows, slideWindow[A]{start, value, at})
		return true
	}
	s.placed = guarded(w.task, n, func() { s.u.admitted = w.Rows.Modify(s.u.key, s.u.begins, s.place) })
	return s.receive
}

type slider[K comparable, V, A any] struct {
	*intake[V]
	d       int64
	u       *update[K, V, A]
	windows []slideWindow[A] // that the store has around the record
	found   func(start int64, value A, at int64) bool

	copied   A // what the record's right window begins with
	copiedAt int64
	placed   func(*engine.Rec) bool
}

// slideWindow is a window as it was before the record. at is the time of its last record.
type slideWindow[A any] struct {
	start int64
	value A
	at    int64
}

func (s *slider[K, V, A]) receive(r *engine.Rec, k K, v V) {
	if s.refuses(r, v) {
		return
	}
	u, w, t := s.u, s.u.w, r.Time
	closed := w.observe(r)
	if span.Add(t, s.d) < closed {
		w.task.Drop(u.late, r)
		return
	}
	w.task.At(u.node)
	clear(s.windows)
	s.windows = s.windows[:0]
	if t < s.d {
		w.Rows.Fetch(k, 0, span.Add(t, 1), false, s.found)
		s.early(r, k, v, closed)
		return
	}
	w.Rows.Fetch(k, max(0, span.Sub(t, 2*s.d)), span.Add(t, 1), true, s.found)
	s.usual(r, k, v, closed)
}

// usual is the way of a record at d or later. The windows are in descending order.
func (s *slider[K, V, A]) usual(r *engine.Rec, k K, v V, closed int64) {
	t := r.Time
	var left, right *slideWindow[A] // what the record's own windows begin with
	hasLeft, hasRight := false, false
	before := int64(-1) // the time of the record before this one
loop:
	for i := range s.windows {
		x := &s.windows[i]
		switch end := span.Add(x.start, s.d); {
		case x.start == t+1:
			hasRight = true
		case end > t:
			if right == nil {
				right = x
			}
			if !s.add(r, k, v, x.start, closed) {
				return
			}
		case end == t:
			hasLeft = true
			if !s.add(r, k, v, x.start, closed) {
				return
			}
			if x.at == t {
				return // a record of this time was here before: all windows exist
			}
			before = x.at
		default:
			left, before = x, x.at
			break loop
		}
	}
	if !s.rightOf(r, k, v, before, closed) {
		return
	}
	switch {
	case hasLeft:
	case before >= 0 && before+1 == t-s.d && t < closed:
		s.task.Drop(s.u.late, r)
	case before >= 0 && before+1 == t-s.d:
		// It is the right window of the record before, too, and has this one already. Kafka Streams sends its update twice, which harms nobody.
		if s.u.old {
			s.u.c.Old, s.u.c.HasOld, s.u.c.Began = s.u.c.New, s.u.c.HasNew, false
		}
		s.u.send(r, s.u.at)
	default:
		seeded := before >= 0 && before >= t-s.d && left != nil
		if !s.begin(r, k, v, t-s.d, seeded, left, closed) {
			return
		}
	}
	if !hasRight && right != nil && right.at > t {
		s.copy(r, k, v, right)
	}
}

// early is the way of a record before d. The windows are in ascending order.
func (s *slider[K, V, A]) early(r *engine.Rec, k K, v V, closed int64) {
	t := r.Time
	var combined, right *slideWindow[A]
	hasRight := false
	before := int64(-1)
	for i := range s.windows {
		x := &s.windows[i]
		switch {
		case x.start == 0:
			combined = x
			if x.at < t {
				before = x.at
			}
		case x.start <= t:
			right = x
			if !s.add(r, k, v, x.start, closed) {
				return
			}
		default:
			hasRight = true
		}
	}
	if right == nil && combined != nil && combined.at > t {
		right = combined // all it holds is later than the record
	}
	if !hasRight && right != nil && right.at > t {
		s.copy(r, k, v, right)
	}
	if s.rightOf(r, k, v, before, closed) {
		s.begin(r, k, v, 0, false, nil, closed)
	}
}

// rightOf makes the right window of the record before, if this record is in it and it is missing.
func (s *slider[K, V, A]) rightOf(r *engine.Rec, k K, v V, before, closed int64) bool {
	start := before + 1
	if before < 0 || span.Add(start, s.d) < r.Time {
		return true
	}
	for i := range s.windows {
		if s.windows[i].start == start {
			return true
		}
	}
	return s.begin(r, k, v, start, false, nil, closed)
}

// add adds the record to a window that exists.
func (s *slider[K, V, A]) add(r *engine.Rec, k K, v V, start, closed int64) bool {
	return s.begin(r, k, v, start, false, nil, closed)
}

// begin adds the record to a window, which begins with what seed holds if it is new.
func (s *slider[K, V, A]) begin(r *engine.Rec, k K, v V, start int64, seeded bool, seed *slideWindow[A], closed int64) bool {
	end := span.Add(start, s.d)
	if end < closed {
		s.task.Drop(s.u.late, r)
		return true
	}
	s.u.put(k, v, r.Time)
	if s.u.seeded = seeded; seeded {
		s.u.seed, s.u.seedStart = seed.value, seed.start
	}
	return s.u.apply(r, start, end)
}

// copy makes the record's right window, which holds what another window holds of later records.
func (s *slider[K, V, A]) copy(r *engine.Rec, k K, v V, from *slideWindow[A]) {
	u, start := s.u, r.Time+1
	u.put(k, v, r.Time)
	u.begins, u.ends = start, span.Add(start, s.d)
	s.copied, s.copiedAt = from.value, from.at
	if !s.placed(r) {
		return
	}
	if !u.admitted {
		s.task.Drop(u.expired, r)
		return
	}
	u.w.opened(u.ends)
	u.c = Change[A]{New: s.copied, HasNew: !u.isNil(s.copied)}
	u.send(r, s.copiedAt)
}

// place is what Modify calls to make a copy.
func (s *slider[K, V, A]) place(A, int64, bool) (A, int64, bool) {
	return s.copied, s.copiedAt, !s.u.isNil(s.copied)
}
