package engine_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
)

// holder is an operator that holds each record back until its own time is wait past the record's, and then gives it to next.
type holder struct {
	clock *int64
	held  []int64
	wait  int64
	next  func(at int64)
	late  int
}

func hold(t *engine.Task, n *engine.Node, wait int64, next func(at int64)) *holder {
	h := &holder{clock: t.Clock(n.Name), wait: wait, next: next}
	t.Pace(engine.Pace{Node: n, Clock: h.clock,
		Due: func() int64 {
			if len(h.held) == 0 {
				return math.MaxInt64
			}
			return h.held[0] + h.wait
		},
		Run: func(*engine.Rec) { h.release() }})
	return h
}

func (h *holder) receive(at int64) {
	if at+h.wait <= *h.clock {
		h.late++
		return
	}
	*h.clock = max(*h.clock, at)
	h.held = append(h.held, at)
	slices.Sort(h.held)
	h.release()
}

func (h *holder) release() {
	for len(h.held) > 0 && h.held[0]+h.wait <= *h.clock {
		at := h.held[0]
		h.held = h.held[1:]
		h.next(at)
	}
}

// holding is a world whose operator is a holder, which sends to topic "out".
func holding(t *testing.T, inputs int, wait, closeIdle int64, change func(*world)) (*world, **holder) {
	h := new(*holder)
	w := newWorld(t, inputs, func(w *world) {
		w.env.CloseIdle = closeIdle
		w.build = func(w *world, task *engine.Task) error {
			*h = hold(task, w.operator(), wait, func(at int64) { task.Emit("out", 0, nil, fmt.Append(nil, at), *(*h).clock, nil) })
			return nil
		}
		w.process = func(w *world, r *engine.Rec, _, _ string) { (*h).receive(r.Time) }
		if change != nil {
			change(w)
		}
	})
	return w, h
}

// idle closes what is due at the world's wall clock, and says when more is.
func (w *world) idle() int64 {
	w.t.Helper()
	if _, err := w.CloseIdle(w.wall); err != nil {
		w.t.Fatal(err)
	}
	due, err := w.IdleDue(w.wall)
	if err != nil {
		w.t.Fatal(err)
	}
	return due
}

const notDue = math.MaxInt64

// An answer that is as of before the last record does not make the task idle since then.
func TestIdleSinceTheLastRecord(t *testing.T) {
	w, _ := holding(t, 1, 100, 30, nil)
	w.add(0, 0, "k=v@500")
	w.run()
	w.wall = 1100
	if due := w.idle(); due != 1200 {
		t.Fatalf("due at %d, want 1200", due)
	}
	asked := w.wall + 100
	w.wall = asked + 50
	w.add(0, 1, "k=v@560")
	w.run()
	if did, err := w.CloseIdle(asked); did || err != nil {
		t.Errorf("closed %v, %v", did, err)
	}
	if due, err := w.IdleDue(w.wall); due != w.wall+40 || err != nil {
		t.Errorf("due in %d ms, want 40; %v", due-w.wall, err)
	}
}

// Stream time goes on from where it was, by the time that has passed since the task became idle, when something is due and not before.
func TestIdle(t *testing.T) {
	w, h := holding(t, 1, 100, 30, nil)
	if due := w.idle(); due != notDue {
		t.Errorf("due at %d before the first record", due)
	}
	w.add(0, 0, "k=v@500")
	w.run()
	if due := w.idle(); due != 1100 { // held back for 100 ms; the wall is at 1000
		t.Errorf("due at %d, want 1100", due)
	}
	w.wall = 1099
	if w.idle(); w.StreamTime() != 500 || len(w.sent) > 0 {
		t.Errorf("a millisecond early: stream time %d, sent %q", w.StreamTime(), w.sent)
	}
	w.commit()
	w.wall = 1105 // the worker comes late
	if due := w.idle(); due != notDue {
		t.Errorf("due at %d with nothing held back", due)
	}
	if w.StreamTime() != 605 || *(*h).clock != 605 || !w.Moved() {
		t.Errorf("stream time %d, the operator's %d, moved %v", w.StreamTime(), *(*h).clock, w.Moved())
	}
	equal(t, "sent", w.took(), []string{"out/0 =500@605"})

	// With nothing held back time stands still, whatever the wall does.
	w.commit()
	w.wall += 1_000_000
	if due := w.idle(); due != notDue || w.StreamTime() != 605 || w.Moved() {
		t.Errorf("due %d, stream time %d, moved %v", due, w.StreamTime(), w.Moved())
	}
	// What comes late is the operator's to drop; a record ends the idle time, and the next one begins anew.
	w.add(0, 1, "k=v@505", "k=v@590")
	w.run()
	if (*h).late != 1 {
		t.Errorf("%d records were late, want 1", (*h).late)
	}
	if due := w.idle(); due != w.wall+85 {
		t.Errorf("due %d ms from now, want 85", due-w.wall)
	}
}

// Before CloseIdle has passed nothing happens, also if something would have been due long since.
func TestIdleNotBefore(t *testing.T) {
	w, _ := holding(t, 1, 10, 5000, nil)
	w.add(0, 0, "k=v@500")
	w.run()
	if due := w.idle(); due != 6000 {
		t.Errorf("due at %d, want 6000", due)
	}
	w.wall = 5999
	w.idle()
	equal(t, "sent early", w.took(), nil)
	w.wall = 6000
	w.idle()
	equal(t, "sent", w.took(), []string{"out/0 =500@5500"})
}

// A task is idle when all of its inputs are at their ends. One input that is behind, or has a record that waits, keeps it from that.
func TestIdleAllInputs(t *testing.T) {
	w, _ := holding(t, 2, 10, 20, func(w *world) { w.env.MaxIdle = 1 << 40 })
	w.add(0, 0, "k=v@500")
	w.add(1, 0, "k=v@501")
	w.run() // the second record waits for more of the first input
	if due := w.idle(); due != notDue || w.Buffered(1) != 1 {
		t.Fatalf("due %d with %d records that wait", due, w.Buffered(1))
	}
	w.add(0, 1, "k=v@502")
	w.run()
	if due := w.idle(); due != notDue { // that of input 0 waits now
		t.Fatalf("due %d", due)
	}
	w.wall += 1 << 40
	w.run()
	began := w.wall
	if due := w.idle(); due != began+20 {
		t.Errorf("due %d ms after the last record, want 20", due-began)
	}
	// The broker has more than was fetched.
	w.AtEnd(1, 3)
	w.wall += 50
	if due := w.idle(); due != notDue {
		t.Errorf("due at %d while an input is behind", due)
	}
	equal(t, "sent while an input is behind", w.took(), nil)
	// Only control records were there: it is at its end, and idle from now on.
	w.Add(1, nil, 3, 3)
	if due := w.idle(); due != w.wall+20 {
		t.Errorf("due %d ms from now, want 20", due-w.wall)
	}
	w.wall += 20
	w.idle()
	if n := len(w.took()); n != 3 {
		t.Errorf("%d records sent, want 3", n)
	}
}

// What idle time has done is committed with the offsets: a restart judges lateness as before, and an abort takes it back.
func TestIdleIsCommitted(t *testing.T) {
	w, h := holding(t, 1, 100, 30, nil)
	w.add(0, 0, "k=v@500")
	w.run()
	w.idle()
	w.commit()
	w.wall += 150
	w.idle()
	equal(t, "sent", w.took(), []string{"out/0 =500@650"})
	if err := w.Rewind(); err != nil {
		t.Fatal(err)
	}
	if w.StreamTime() != 500 || *(*h).clock != 500 {
		t.Errorf("after an abort: stream time %d, the operator's %d, want 500", w.StreamTime(), *(*h).clock)
	}
	(*h).held = []int64{500} // as its store would have it
	if due := w.idle(); due != w.wall+100 {
		t.Errorf("due %d ms after the abort, want 100", due-w.wall)
	}
	w.wall += 120
	w.idle()
	equal(t, "sent again", w.took(), []string{"out/0 =500@620"})
	w.commit()

	m, err := engine.DecodeMeta(w.Cuts(nil)[0].Metadata)
	if err != nil {
		t.Fatal(err)
	}
	if m.PartitionTime != 500 {
		t.Errorf("partition time %d, want that of the record", m.PartitionTime)
	}
	next, h2 := holding(t, 1, 100, 30, nil)
	next.Start(0, 1, 1, m)
	if next.StreamTime() != 620 || *(*h2).clock != 620 {
		t.Errorf("after a restart: stream time %d, the operator's %d, want 620", next.StreamTime(), *(*h2).clock)
	}
	next.add(0, 1, "k=v@515")
	next.run()
	if (*h2).late != 1 {
		t.Error("a record of before was not late after the restart")
	}
}

// An operator's time stands still while one before it holds something back: what that sends would come late.
func TestIdleChain(t *testing.T) {
	var first, second, aside *holder
	w := newWorld(t, 1, func(w *world) {
		nodes := []*engine.Node{{Name: "first"}, {Name: "map"}, {Name: "second"}, {Name: "aside"}}
		nodes[1].Parents, nodes[2].Parents = nodes[:1], nodes[1:2]
		w.env.CloseIdle = 1
		w.build = func(w *world, task *engine.Task) error { // children first, as the DSL makes them
			second = hold(task, nodes[2], 50, func(at int64) { task.Emit("second", 0, nil, fmt.Append(nil, at), *second.clock, nil) })
			first = hold(task, nodes[0], 100, func(at int64) { second.receive(at) })
			aside = hold(task, nodes[3], 10, func(at int64) { task.Emit("aside", 0, nil, fmt.Append(nil, at), *aside.clock, nil) })
			return nil
		}
		w.process = func(w *world, r *engine.Rec, _, _ string) { first.receive(r.Time); aside.receive(r.Time) }
	})
	w.add(0, 0, "k=v@1000", "k=v@1001", "k=v@1099")
	w.run()
	var at []int64
	for due := w.idle(); due != notDue; due = w.idle() {
		at = append(at, due-1000)
		w.wall = due
	}
	// What first lets go moves the time of second, as records do. The last of it comes when the time of first is 1199; only then does that of second go on.
	equal(t, "sent", w.took(), []string{"aside/0 =1000@1099", "aside/0 =1001@1099", "aside/0 =1099@1109", "second/0 =1000@1099", "second/0 =1001@1099", "second/0 =1099@1149"})
	if want := []int64{1, 2, 10, 100, 150}; !slices.Equal(at, want) {
		t.Errorf("due at %v ms of idle time, want %v", at, want)
	}
	if first.late+second.late+aside.late != 0 {
		t.Errorf("late: %d, %d, %d", first.late, second.late, aside.late)
	}
}

// Timers of stream time fire as it goes on, and so does the expiry of stores that have entries.
func TestIdleTimers(t *testing.T) {
	var fired []int64
	w := ticking(t, 100, engine.StreamClock, &fired)
	if due := w.idle(); due != notDue {
		t.Errorf("due at %d though it is off", due)
	}
	fired = nil
	w = newWorld(t, 1, func(w *world) {
		w.env.CloseIdle = 250
		w.build = func(w *world, task *engine.Task) error {
			_, err := task.Every(100, engine.StreamClock, w.operator(), func(now int64) error {
				fired = append(fired, now)
				return nil
			})
			return err
		}
	})
	w.add(0, 0, "k=v@50")
	w.run()
	for range 3 {
		w.wall = w.idle()
	}
	// They do so no more often than every 250 ms.
	if want := []int64{50, 300, 550}; !slices.Equal(fired, want) {
		t.Errorf("fired at %v, want %v", fired, want)
	}
}

// A store that breaks while it is asked what is due fails the task.
func TestIdleBrokenStore(t *testing.T) {
	w := newWorld(t, 1, func(w *world) {
		w.env.CloseIdle = 1
		w.build = func(w *world, task *engine.Task) error {
			clock := task.Clock("operator")
			task.Pace(engine.Pace{Node: w.operator(), Clock: clock, Due: func() int64 { w.store.check(); return notDue }, Run: func(*engine.Rec) {}})
			return nil
		}
		w.process = func(w *world, r *engine.Rec, _, _ string) { *w.Clock("operator") = r.Time }
	})
	w.add(0, 0, "k=v@50")
	w.run()
	w.store.broken = errBad
	_, err := w.IdleDue(w.wall)
	if _, broken := errors.AsType[state.Broken](err); !broken {
		t.Errorf("error %v, want that of the store", err)
	}
	if _, err = w.CloseIdle(w.wall); err == nil {
		t.Error("a task with a broken store goes on")
	}
}
