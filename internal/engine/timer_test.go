package engine_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
)

// ticking is a world with a timer that notes its calls.
func ticking(t *testing.T, every int64, kind engine.ClockKind, fired *[]int64) *world {
	return newWorld(t, 1, func(w *world) {
		w.build = func(w *world, task *engine.Task) error {
			_, err := task.Every(every, kind, w.operator(), func(now int64) error {
				*fired = append(*fired, now)
				return nil
			})
			return err
		}
	})
}

func TestStreamTimers(t *testing.T) {
	for _, c := range []struct {
		every       int64
		times, want []int64
	}{
		{10, []int64{0, 5, 9, 10, 11, 100}, []int64{0, 10, 100}},
		{10, []int64{7, 8, 9, 12, 12, 19, 20}, []int64{7, 12, 20}},
		{10, []int64{25, 3, 29, 30}, []int64{25, 30}},
		{1, []int64{0, 0, 1, 5}, []int64{0, 1, 5}},
		{10, []int64{math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64, math.MaxInt64}, []int64{math.MaxInt64 - 1}},
		{math.MaxInt64, []int64{3, math.MaxInt64, math.MaxInt64}, []int64{3}},
	} {
		var fired []int64
		w := ticking(t, c.every, engine.StreamClock, &fired)
		for i, at := range c.times {
			w.add(0, int64(i), fmt.Sprintf("k=v@%d", at))
			w.run()
		}
		if !slices.Equal(fired, c.want) {
			t.Errorf("every %d, records at %d: fired at %d, not %d", c.every, c.times, fired, c.want)
		}
	}
}

func TestWallTimers(t *testing.T) {
	var fired []int64
	w := ticking(t, 10, engine.WallClock, &fired)
	start := w.wall
	for _, step := range []int64{0, 3, 3, 4, 100, 9, 1} {
		w.wall += step
		if err := w.Punctuate(w.wall); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int64{start + 10, start + 110, start + 120}; !slices.Equal(fired, want) {
		t.Errorf("fired at %d, not %d", fired, want)
	}
	if w.NextWall() != start+130 {
		t.Errorf("next at %d", w.NextWall())
	}
	if !w.Moved() {
		t.Error("a timer does not count as work to commit")
	}

	fired = nil
	w.wall -= 10_000 // the clock is put back
	for range 3 {
		if err := w.Punctuate(w.wall); err != nil {
			t.Fatal(err)
		}
		w.wall += 10
	}
	if want := []int64{start + 120 - 10_000 + 10, start + 120 - 10_000 + 20}; !slices.Equal(fired, want) {
		t.Errorf("fired at %d after the clock was put back, not %d", fired, want)
	}
}

func TestNoWallTimer(t *testing.T) {
	var fired []int64
	w := ticking(t, 10, engine.StreamClock, &fired)
	if w.NextWall() != math.MaxInt64 {
		t.Errorf("next at %d", w.NextWall())
	}
}

func TestTimersAfterTheirRecord(t *testing.T) {
	w := newWorld(t, 1, func(w *world) {
		w.build = func(w *world, task *engine.Task) error {
			_, err := task.Every(10, engine.StreamClock, w.operator(), func(now int64) error {
				task.Emit("ticks", -1, nil, nil, now, nil)
				return nil
			})
			return err
		}
	})
	w.add(0, 0, "k=1@3", "k=2@12")
	w.run()
	equal(t, "sent", w.took(), []string{"out/-1 k=1@3", "ticks/-1 =@3", "out/-1 k=2@12", "ticks/-1 =@12"})
}

func TestTimersThatStopAndStart(t *testing.T) {
	var fired []string
	var again func(task *engine.Task, n *engine.Node, name string) error
	again = func(task *engine.Task, n *engine.Node, name string) error {
		var tm *engine.Timer
		tm, err := task.Every(10, engine.StreamClock, n, func(now int64) error {
			fired = append(fired, fmt.Sprintf("%s@%d", name, now))
			tm.Stop()
			return again(task, n, name+"'") // one that replaces itself must not loop
		})
		return err
	}
	w := newWorld(t, 1, func(w *world) {
		w.build = func(w *world, task *engine.Task) error { return again(task, w.operator(), "a") }
	})
	w.add(0, 0, "k=v@1", "k=v@2", "k=v@30")
	w.run()
	equal(t, "fired", fired, []string{"a@1", "a'@2", "a''@30"})
	if n := engine.TimerCount(w.Task); n > 2 {
		t.Errorf("%d timers are kept", n)
	}
}

func TestTimerInterval(t *testing.T) {
	w := newWorld(t, 1, nil)
	for _, every := range []int64{0, -1, math.MinInt64} {
		if _, err := w.Every(every, engine.WallClock, w.operator(), nil); err == nil || !strings.Contains(err.Error(), "at least 1 ms") {
			t.Errorf("every %d: %v", every, err)
		}
	}
}

// A restart or an abort brings no calls that an undisturbed run would not have had.
func TestTimersGoOn(t *testing.T) {
	times := []int64{4, 8, 12, 13, 14, 25, 26}
	var want []int64
	w := ticking(t, 10, engine.StreamClock, &want)
	for i, at := range times {
		w.add(0, int64(i), fmt.Sprintf("k=v@%d", at))
	}
	w.run()

	for cut := range times {
		var fired []int64
		w := ticking(t, 10, engine.StreamClock, &fired)
		w.Start(0, 0, 0, engine.Meta{PartitionTime: -1})
		add := func(from, to int) {
			for i := from; i < to; i++ {
				w.add(0, int64(i), fmt.Sprintf("k=v@%d", times[i]))
			}
			w.run()
		}
		add(0, cut)
		w.commit()
		kept := slices.Clone(fired)
		add(cut, len(times))
		if err := w.Rewind(); err != nil {
			t.Fatal(err)
		}
		fired = slices.Clone(kept)
		add(cut, len(times))
		if !slices.Equal(fired, want) {
			t.Errorf("rewound to record %d: fired at %d, not %d", cut, fired, want)
		}

		fired = kept
		meta, err := engine.DecodeMeta(w.cutAfterRewind(t))
		if err != nil {
			t.Fatal(err)
		}
		w = ticking(t, 10, engine.StreamClock, &fired)
		w.Start(0, int64(cut), int64(cut), meta)
		add(cut, len(times))
		if !slices.Equal(fired, want) {
			t.Errorf("restarted at record %d: fired at %d, not %d", cut, fired, want)
		}
	}
}

// cutAfterRewind is the metadata of the first input as of the last commit.
func (w *world) cutAfterRewind(t *testing.T) string {
	t.Helper()
	if err := w.Rewind(); err != nil {
		t.Fatal(err)
	}
	return w.Cuts(nil)[0].Metadata
}

func TestTimerThatFails(t *testing.T) {
	boom := errors.New("boom")
	build := func(w *world, task *engine.Task) error {
		_, err := task.Every(10, engine.StreamClock, w.operator(), func(int64) error { return boom })
		return err
	}
	w := newWorld(t, 1, func(w *world) { w.build = build })
	w.add(0, 0, "k=v@1")
	_, err := w.Process(0)
	if failed, ok := errors.AsType[*engine.RecordError](err); !ok || !errors.Is(err, boom) || failed.Topic != "" || failed.Node != "operator" {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(fmt.Sprint(err), "in a timer") {
		t.Errorf("text %q", err)
	}
	if _, again := w.Process(0); again != err {
		t.Errorf("a failed task went on: %v", again)
	}
	if err := w.Punctuate(0); err == nil {
		t.Error("a failed task punctuated")
	}

	w = newWorld(t, 1, func(w *world) {
		w.build = build
		w.env.OnProcess = engine.Policy{Kind: engine.DeadLetter, Topic: "dead"}
	})
	w.add(0, 0, "k=v@1")
	w.run() // there is no record to send
	equal(t, "sent", w.took(), []string{"out/-1 k=v@1"})
	if len(w.drops) != 1 || w.drops[0].Reason != "skipped" || w.drops[0].Topic != "" {
		t.Errorf("drops %+v", w.drops)
	}
}
