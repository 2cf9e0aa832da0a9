package engine

import (
	"fmt"
	"math"
)

// ClockKind is the kind of time a timer follows.
type ClockKind uint8

// The two kinds of time.
const (
	StreamClock ClockKind = iota
	WallClock
)

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
func (t *Task) Every(every int64, kind ClockKind, n *Node, f func(now int64) error) (*Timer, error) {
	if every < 1 {
		return nil, fmt.Errorf("a timer's interval must be at least 1 ms, not %d", every)
	}
	tm := &Timer{every: every, kind: kind, node: n, f: f}
	if kind == WallClock {
		tm.due = saturate(t.env.Wall(), every)
	} else {
		t.due = min(t.due, tm.due)
	}
	t.timers = append(t.timers, tm)
	return tm, nil
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
	for i := 0; i < len(t.timers); i++ { // a timer may start others
		tm := t.timers[i]
		if tm.kind != kind || tm.stopped || tm.due > now {
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
