package operator

import (
	"reflect"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/window"
)

// Sessioned is an aggregate per key and session. Several streams may feed it.
type Sessioned[K comparable, A any] struct {
	// Rows is the store, and Store its name.
	Rows  state.Sessions[K, A]
	Store string
	Spec  span.Sessions
	// Old says that old values are wanted.
	Old bool
	// Next takes every update, and a delete for each session that became part of a longer one.
	Next engine.Receive[window.Key[K], Change[A]]
	// Final takes the value of each session once it is closed; nil if nobody wants it.
	Final engine.Receive[window.Key[K], A]

	task  *engine.Task
	time  own
	final *finals[K, A]
	apart bool // aggregates can be changed in place
}

// NewSessioned completes s for a task.
func NewSessioned[K comparable, A any](t *engine.Task, n *engine.Node, s Sessioned[K, A]) *Sessioned[K, A] {
	s.task, s.time, s.apart = t, ownTime(t, s.Store), !immutable(reflect.TypeFor[A]())
	if s.Final != nil {
		rows := s.Rows
		s.final = &finals[K, A]{node: n, task: t, next: s.Final, sent: t.Clock(s.Store), inclusive: 1,
			scan: func(after, at int64, visit func(k K, start, end int64, value A, entry int64)) {
				rows.Ending(max(0, after), at-1, func(k K, start, end int64, value A) bool {
					visit(k, start, end, value, end)
					return true
				})
			},
			first: rows.First}
	}
	s.final.pace(s.time, t, n, span.Add(s.Spec.Gap(), s.Spec.Grace()))
	return &s
}

// observe is that of Windowed. Sessions that end before closed are closed.
func (s *Sessioned[K, A]) observe(r *engine.Rec) (closed int64) {
	moved := s.time.observe(r.Time)
	closed = s.final.closed(span.Sub(*s.time.at, span.Add(s.Spec.Gap(), s.Spec.Grace())))
	if moved && s.final != nil {
		s.final.upTo(r, closed)
	}
	return closed
}

// was is a change from a session as it is stored.
func (s *Sessioned[K, A]) was(k K, x *session[A]) (c Change[A]) {
	switch {
	case !s.Old:
	case s.apart: // a function may have changed what was read before
		c.Old, c.HasOld = s.Rows.Lookup(k, x.start, x.end)
	default:
		c.Old, c.HasOld = x.value, true
	}
	return c
}

// SessionFold is how values are added to an aggregate, and how aggregates of sessions become one.
type SessionFold[K comparable, V, A any] struct {
	Fold[K, V, A]
	// Merge makes one aggregate of two; earlier is that of the earlier session. As in Kafka Streams it is called first with the aggregate of
	// no values as the earlier one, unless First is set.
	Merge func(k K, earlier, later A) A
}

// FeedSessions is the operator of one stream that feeds sessions. Its node is the one to blame for the functions in fold.
func FeedSessions[K comparable, V, A any](s *Sessioned[K, A], n *engine.Node, fold SessionFold[K, V, A]) engine.Receive[K, V] {
	t := s.task
	noKeys, late, expired := t.Counter(n, string(processor.NullKey)), t.Counter(n, string(processor.Late)), t.Counter(n, string(processor.Expired))
	cut := t.Misses(n, string(processor.Cut), "")
	m := &merger[K, V, A]{fold: fold, isNull: IsNull[A]()}
	m.limit, m.limited = s.Spec.Limit()
	found := func(start, end int64, value A) bool {
		if end >= m.closed {
			m.found = append(m.found, session[A]{start, end, value})
		}
		return true
	}
	run := guarded(t, n, m.merge)
	return func(r *engine.Rec, k K, v V) {
		if r.NullKey {
			t.Drop(noKeys, r)
			return
		}
		at, gap := r.Time, s.Spec.Gap()
		m.closed = s.observe(r)
		t.At(n)
		m.put(k, v, at)
		s.Rows.Find(k, max(0, span.Sub(at, gap)), span.Add(at, gap), found)
		near := len(m.found)
		m.choose()
		if m.end < m.closed {
			t.Drop(late, r)
			return
		}
		if near > 0 && len(m.found) == 0 {
			t.Miss(cut, r)
		}
		if !run(r) {
			return
		}
		t.At(n)
		headers := r.Headers
		r.Headers = nil // as in Kafka Streams: an update of a session is one of all its records
		for i := range m.found {
			x := &m.found[i]
			if m.replaced() { // the one session stays as it is, with another value
				break
			}
			c := s.was(k, x)
			s.Rows.Remove(k, x.start, x.end)
			r.Time = x.end
			s.Next(r, InWindow(k, x.start, x.end), c)
			r.Time = at
			t.At(n)
		}
		c := Change[A]{}
		if m.replaced() {
			c = s.was(k, &m.found[0])
		}
		c.New, c.HasNew = m.sum, m.isNull == nil || !m.isNull(m.sum)
		if !c.HasNew {
			s.Rows.Remove(k, m.start, m.end)
		} else if !s.Rows.Put(k, m.start, m.end, m.sum) {
			r.Headers = headers
			t.Drop(expired, r)
			return
		}
		if s.final != nil {
			s.final.opened(m.end)
		}
		r.Time = m.end
		s.Next(r, InWindow(k, m.start, m.end), c)
		r.Time, r.Headers = at, headers
	}
}

type session[A any] struct {
	start, end int64
	value      A
}

// merger makes one session of a record and those that it belongs to.
type merger[K comparable, V, A any] struct {
	fold    SessionFold[K, V, A]
	isNull  func(A) bool
	limit   int64
	limited bool

	closed     int64 // sessions that end before are closed: no record changes them
	key        K
	value      V
	at         int64
	found      []session[A]
	start, end int64
	sum        A
}

func (m *merger[K, V, A]) put(k K, v V, at int64) {
	clear(m.found)
	m.key, m.value, m.at, m.found, m.start, m.end = k, v, at, m.found[:0], at, at
}

// choose keeps those of the sessions found that become one with the record. Where there is a limit they may be too long together: first comes a
// session that the record lies in, then those before it, from the earliest on.
func (m *merger[K, V, A]) choose() {
	if !m.limited {
		for _, x := range m.found {
			m.start, m.end = min(m.start, x.start), max(m.end, x.end)
		}
		return
	}
	for _, x := range m.found {
		if x.start <= m.at && m.at <= x.end {
			m.start, m.end = x.start, x.end
			break
		}
	}
	kept := m.found[:0]
	for _, x := range m.found {
		if start, end := min(m.start, x.start), max(m.end, x.end); end-start <= m.limit || start == m.start && end == m.end {
			m.start, m.end = start, end
			kept = append(kept, x)
		}
	}
	clear(m.found[len(kept):])
	m.found = kept
}

// replaced says that the record only changes the value of the session [at, at].
func (m *merger[K, V, A]) replaced() bool {
	return len(m.found) == 1 && m.start == m.end
}

func (m *merger[K, V, A]) merge() {
	var sum A
	has := m.fold.First == nil
	if has && m.fold.Start != nil {
		sum = m.fold.Start()
	}
	for _, x := range m.found {
		if has {
			sum = m.fold.Merge(m.key, sum, x.value)
		} else {
			sum, has = x.value, true
		}
	}
	if has {
		m.sum = m.fold.Add(m.key, m.value, sum)
	} else {
		m.sum = m.fold.First(m.value)
	}
}
