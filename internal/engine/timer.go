package engine

import (
	"fmt"
	"math"
	"slices"
)

// ClockKind is the kind of time a timer follows.
type ClockKind uint8

// The two kinds of time.
const (
	StreamClock ClockKind = iota
	WallClock
)

// noTimer is when a timer is due that is never due again.
const noTimer = math.MaxInt64

// Timer is a running schedule.
type Timer struct {
	every, due int64 // ms
	kind       ClockKind
	node       *Node
	f          func(now int64) error
	stopped    bool
}

// Stop ends the schedule.
func (tm *Timer) Stop() { tm.stopped = true }

// Every calls f as time passes. A timer of stream time is first due when stream time is known, then on multiples of every since 1970; one of
// wall time first after every. Missed times are made up for by one call. every is in ms, at least 1.
//
// A timer that an operator starts as it is made goes on with the multiples if the task's stream time is known already, from a commit: so a
// restart or rewind brings no calls that an undisturbed run would not have had.
func (t *Task) Every(every int64, kind ClockKind, n *Node, f func(now int64) error) (*Timer, error) {
	if every < 1 {
		return nil, fmt.Errorf("a timer's interval must be at least 1 ms, not %d", every)
	}
	tm := &Timer{every: every, kind: kind, node: n, f: f}
	if kind == WallClock {
		tm.due = saturate(t.env.Wall(), every)
	} else {
		if t.wiring {
			tm.resume(t.streamTime)
		}
		t.due = min(t.due, tm.due)
	}
	if slices.ContainsFunc(t.timers, isStopped) { // into a new slice, as fire may be on its way through the old one
		t.timers = slices.DeleteFunc(slices.Clone(t.timers), isStopped)
	}
	t.timers = append(t.timers, tm)
	return tm, nil
}

func isStopped(tm *Timer) bool { return tm.stopped }

// resume makes a timer of stream time due as if it had run up to a time.
func (tm *Timer) resume(streamTime int64) {
	tm.due = 0
	if streamTime >= 0 {
		tm.due = boundary(streamTime, tm.every)
	}
}

// resumeTimers is resume for all timers of stream time.
func (t *Task) resumeTimers() {
	t.due = noTimer
	for _, tm := range t.timers {
		if tm.kind == StreamClock {
			tm.resume(t.streamTime)
			t.due = min(t.due, tm.due)
		}
	}
}

// saturate is a + b without overflow; both are at least 0.
func saturate(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Punctuate fires what is due by the wall clock, ms.
func (t *Task) Punctuate(wall int64) (err error) {
	if t.failed != nil {
		return t.failed
	}
	defer t.caught("process", &err)
	t.pin()
	t.fire(WallClock, wall)
	return nil
}

// NextWall is when the next timer of wall time is due, ms; the largest time if there is none.
func (t *Task) NextWall() int64 {
	next := int64(noTimer)
	for _, tm := range t.timers {
		if tm.kind == WallClock && !tm.stopped {
			next = min(next, tm.due)
		}
	}
	return next
}

func (t *Task) fire(kind ClockKind, now int64) {
	for _, tm := range t.timers { // those that a timer starts come next time, so that one that replaces itself cannot loop
		if tm.kind != kind || tm.stopped {
			continue
		}
		if kind == WallClock && tm.due > saturate(now, tm.every) {
			tm.due = now + tm.every // the clock was put back
		}
		if tm.due > now || tm.due == noTimer {
			continue
		}
		if kind == StreamClock {
			tm.due = boundary(now, tm.every)
		} else {
			missed := (now - tm.due) / tm.every
			tm.due = saturate(tm.due+missed*tm.every, tm.every)
		}
		t.moved = true
		t.timed(now)
		t.call(tm, now)
	}
	if kind == StreamClock {
		t.due = noTimer
		for _, tm := range t.timers {
			if tm.kind == StreamClock && !tm.stopped {
				t.due = min(t.due, tm.due)
			}
		}
	}
}

func (t *Task) call(tm *Timer, now int64) {
	var err error
	if t.Guarded(tm.node) {
		t.Guard(tm.node, &t.rec, func() { err = tm.f(now) })
	} else {
		t.at = tm.node
		err = tm.f(now)
	}
	if err != nil {
		t.Fail("process", tm.node, &t.rec, err)
	}
}
