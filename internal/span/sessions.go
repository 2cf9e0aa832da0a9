package span

import (
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
)

// Sessions is what a window.SessionSpec says. It is comparable.
type Sessions struct {
	declared bool
	retains  bool // Retain was called
	limits   bool // MaxLength was called
	gap      time.Duration
	grace    time.Duration
	retain   time.Duration
	limit    time.Duration
}

// NewSessions makes sessions.
func NewSessions(gap time.Duration) Sessions { return Sessions{declared: true, gap: gap} }

// WithGrace changes the grace.
func (s Sessions) WithGrace(d time.Duration) Sessions { s.grace = d; return s }

// WithRetention sets the retention.
func (s Sessions) WithRetention(d time.Duration) Sessions { s.retain, s.retains = d, true; return s }

// WithLimit sets the greatest length.
func (s Sessions) WithLimit(d time.Duration) Sessions { s.limit, s.limits = d, true; return s }

// Gap is the longest pause within a session, in ms.
func (s Sessions) Gap() int64 { return s.gap.Milliseconds() }

// Grace is how far stream time may pass a session's end plus its gap before the session is closed, in ms.
func (s Sessions) Grace() int64 { return s.grace.Milliseconds() }

// Limit is the greatest length of a session in ms, and whether there is one.
func (s Sessions) Limit() (ms int64, ok bool) { return s.limit.Milliseconds(), s.limits }

// Retention is how long a session is kept after its end, in ms.
func (s Sessions) Retention() int64 {
	if s.retains {
		return s.retain.Milliseconds()
	}
	return s.least()
}

func (s Sessions) least() int64 { return s.Gap() + s.Grace() }

// Faults are what is wrong with the declaration.
func (s Sessions) Faults() []state.Fault {
	var f faults
	if !s.declared {
		f.add("make one with window.Sessions", "the sessions are the zero SessionSpec")
		return f
	}
	f.duration("the sessions' gap", s.gap, 1)
	f.duration("the sessions' grace", s.grace, 0)
	f.sum("the sessions' gap and grace", s.least())
	if s.limits {
		f.duration("the sessions' greatest length", s.limit, 1)
	}
	if s.retains {
		f.retention(s.retain, s.least(), "the gap plus the grace")
	}
	return f
}

// Shape is the sessions in words, without grace and retention: "sessions(30m0s)", "sessions(30m0s,max=24h0m0s)".
func (s Sessions) Shape() string {
	switch {
	case !s.declared:
		return "undeclared"
	case s.limits:
		return fmt.Sprintf("sessions(%v,max=%v)", s.gap, s.limit)
	}
	return fmt.Sprintf("sessions(%v)", s.gap)
}

// String is the sessions in words: "sessions(30m0s), grace 1m0s".
func (s Sessions) String() string { return trimmings(s.Shape(), s.grace, s.retain, s.retains) }

// Join is what a window.JoinSpec says. It is comparable.
type Join struct {
	declared             bool
	before, after, grace time.Duration
}

// NewJoin makes a join's window.
func NewJoin(before, after time.Duration) Join {
	return Join{declared: true, before: before, after: after}
}

// WithBefore changes how much older the right record may be.
func (j Join) WithBefore(d time.Duration) Join { j.before = d; return j }

// WithAfter changes how much younger the right record may be.
func (j Join) WithAfter(d time.Duration) Join { j.after = d; return j }

// WithGrace changes the grace.
func (j Join) WithGrace(d time.Duration) Join { j.grace = d; return j }

// Before is how much older the right record may be than the left one, in ms. It may be negative: then it must be younger.
func (j Join) Before() int64 { return j.before.Milliseconds() }

// After is how much younger the right record may be than the left one, in ms. It may be negative: then it must be older.
func (j Join) After() int64 { return j.after.Milliseconds() }

// Grace is how much longer an unmatched record waits for a late partner, in ms.
func (j Join) Grace() int64 { return j.grace.Milliseconds() }

// Retention is how long records are kept for their partners, in ms: both times together, as in Kafka Streams, but for negative ones, by which no record
// may go earlier.
func (j Join) Retention() int64 {
	return Add(Add(max(0, j.Before()), max(0, j.After())), j.Grace())
}

// Faults are what is wrong with the declaration.
func (j Join) Faults() []state.Fault {
	var f faults
	if !j.declared {
		f.add("make one with window.Within or window.Following", "the join's window is the zero JoinSpec")
		return f
	}
	whole := true
	for _, d := range []struct {
		what string
		d    time.Duration
	}{{"the join's time before", j.before}, {"the join's time after", j.after}} {
		if d.d%time.Millisecond != 0 {
			f.duration(d.what, d.d.Abs(), 0)
			whole = false
		}
	}
	switch {
	case !whole:
	case j.before < 0 && j.after < 0:
		f.add("one of the two may be negative, not both", "the join takes only records that are both older and younger: before %v, after %v", j.before, j.after)
	case Add(j.Before(), j.After()) < 0:
		f.add("the sum of before and after must not be negative", "the join's window ends before it starts: before %v, after %v", j.before, j.after)
	}
	f.duration("the join's grace", j.grace, 0)
	if len(f) == 0 && j.Retention() > longest {
		f.add(fmt.Sprintf("give times that are %s together at most", ms(longest)), "the join's window overflows: before %v, after %v and grace %v", j.before, j.after, j.grace)
	}
	return f
}

// Shape is the join's window in words, without grace.
func (j Join) Shape() string {
	if !j.declared {
		return "undeclared"
	}
	return fmt.Sprintf("before(%v),after(%v)", j.before, j.after)
}

// String is the join's window in words: "before(0s),after(10m0s), grace 1m0s".
func (j Join) String() string { return trimmings(j.Shape(), j.grace, 0, false) }
