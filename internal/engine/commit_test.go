package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
)

// summing appends each value to the row of its key, and counts what it has seen in a clock of its own.
func summing(w *world, r *engine.Rec, key, value string) {
	sum := w.store.get(key) + value
	w.store.put(key, sum)
	c := w.Clock("sums")
	*c = max(*c, r.Time)
	w.Emit("out", -1, []byte(key), []byte(sum), *c, nil)
}

func TestCommit(t *testing.T) {
	w := newWorld(t, 1, func(w *world) { w.process = summing; w.env.TransactionalID = "tx" })
	w.Start(0, 0, 0, engine.Meta{PartitionTime: -1})
	if w.Moved() {
		t.Error("moved before the first record")
	}
	w.add(0, 0, "a=1@5", "b=2@9", "a=3@7")
	w.run()
	w.RequestCommit()
	if !w.Moved() || !w.WantsCommit() {
		t.Error("nothing to commit")
	}
	cut := w.Cuts(map[string]uint64{"rows": 77})
	m, err := engine.DecodeMeta(cut[0].Metadata)
	if err != nil {
		t.Fatal(err)
	}
	if len(cut) != 1 || cut[0].Next != 3 || m.PartitionTime != 9 || m.Clocks["sums"] != 9 || m.Hashes["rows"] != 77 || m.TransactionalID != "tx" {
		t.Errorf("cut %+v: %+v", cut, m)
	}
	dirty, _, _ := w.Staged()
	equal(t, "staged", w.commit(), []string{"rows a=13@7", "rows b=2@7"})
	after, pending, _ := w.Staged()
	if dirty != 2 || after != 0 || pending != 2 || w.Moved() || w.WantsCommit() {
		t.Errorf("dirty %d, then %d, pending %d", dirty, after, pending)
	}
}

// Where an input begins behind records that are not read is committed without a record, and still is after a transaction that failed.
func TestSkip(t *testing.T) {
	w := newWorld(t, 1, func(w *world) { w.process = summing })
	w.Start(0, 7, 7, engine.Meta{PartitionTime: -1})
	w.Skip()
	if !w.Moved() {
		t.Error("nothing to commit")
	}
	if err := w.Rewind(); err != nil {
		t.Fatal(err)
	}
	if next := w.Cuts(nil)[0].Next; !w.Moved() || next != 7 {
		t.Errorf("after a failed commit: moved %v, next %d", w.Moved(), next)
	}
	w.commit()
	if w.Moved() {
		t.Error("something to commit after the commit")
	}
}

func TestBeforeCommit(t *testing.T) {
	w := newWorld(t, 1, func(w *world) {
		w.build = func(w *world, task *engine.Task) error {
			for _, name := range []string{"first", "second"} {
				task.BeforeCommit(func() {
					w.store.put(name, w.store.get("first"))
					task.Emit("out", -1, nil, []byte(name), 0, nil)
				})
			}
			return nil
		}
	})
	equal(t, "staged", w.commit(), []string{"rows first=@0", "rows second=@0"})
	equal(t, "sent", w.took(), []string{"out/-1 =first@0", "out/-1 =second@0"})
}

func TestFlushThatFails(t *testing.T) {
	w := newWorld(t, 1, func(w *world) { w.process = summing })
	w.add(0, 0, "a=1@5")
	w.run()
	err := w.Flush(func(*state.Decl, []byte, []byte, int64) error { return errBad })
	if !errors.Is(err, errBad) || !strings.Contains(err.Error(), `task 2_3: store "rows"`) {
		t.Errorf("error %v", err)
	}
}

// Whatever is committed and rewound in between, the task ends up with what one undisturbed run has.
func TestRewind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var texts [2][]string
		for i := range texts {
			for range rapid.IntRange(0, 8).Draw(rt, "records") {
				texts[i] = append(texts[i], fmt.Sprintf("%s=%d@%d", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key"), rapid.IntRange(0, 9).Draw(rt, "value"), rapid.IntRange(0, 20).Draw(rt, "time")))
			}
		}
		feed := func(w *world) {
			for i, all := range texts {
				at := w.Position(i)
				w.add(i, at, all[at:]...)
			}
		}
		straight := newWorld(t, 2, func(w *world) { w.process = summing })
		feed(straight)
		straight.run()
		want, wantRows := straight.took(), straight.commit()

		w := newWorld(t, 2, func(w *world) { w.process = summing })
		for i := range texts {
			w.Start(i, 0, int64(len(texts[i])), engine.Meta{PartitionTime: -1})
		}
		var committed []string
		rows := map[string]string{}
		commit := func() {
			committed = append(committed, w.took()...)
			for _, r := range w.commit() {
				key, _, _ := strings.Cut(r, "=")
				rows[key] = r
			}
		}
		feed(w)
		for {
			did, err := w.Process(0)
			if err != nil {
				rt.Fatal(err)
			}
			if !did {
				break
			}
			switch rapid.IntRange(0, 4).Draw(rt, "then") {
			case 0:
				commit()
			case 1:
				if err := w.Rewind(); err != nil {
					rt.Fatal(err)
				}
				w.took()
				feed(w)
			}
		}
		commit()
		if !slices.Equal(committed, want) {
			rt.Fatalf("committed %q\nwant %q", committed, want)
		}
		for _, r := range wantRows {
			key, rest, _ := strings.Cut(r, "=")
			value, _, _ := strings.Cut(rest, "@")
			if got := w.store.get(strings.TrimPrefix(key, "rows ")); got != value {
				rt.Fatalf("row %s is %q, not %q", key, got, value)
			}
		}
		if w.StreamTime() != straight.StreamTime() || *w.Clock("sums") != *straight.Clock("sums") {
			rt.Fatalf("stream time %d, clock %d", w.StreamTime(), *w.Clock("sums"))
		}
	})
}

func TestRewindAfterFailure(t *testing.T) {
	failed := false
	w := newWorld(t, 1, func(w *world) {
		w.process = func(w *world, r *engine.Rec, key, value string) {
			summing(w, r, key, value)
			if value == "2" && !failed {
				failed = true
				panic("once")
			}
		}
	})
	w.add(0, 0, "a=1@5")
	w.run()
	w.commit()
	w.add(0, 1, "a=2@50")
	if _, err := w.Process(0); err == nil {
		t.Fatal("no error")
	}
	if err := w.Rewind(); err != nil {
		t.Fatal(err)
	}
	if w.Position(0) != 1 || w.StreamTime() != 5 || w.Clocks()["sums"] != 5 || w.store.get("a") != "1" || w.Moved() {
		t.Errorf("position %d, stream time %d, clocks %v, row %q", w.Position(0), w.StreamTime(), w.Clocks(), w.store.get("a"))
	}
	w.add(0, 1, "a=2@50")
	w.run()
	equal(t, "staged", w.commit(), []string{"rows a=12@50"})
}

func TestClocksComeBack(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.Start(0, 4, 4, engine.Meta{PartitionTime: 30, Clocks: map[string]int64{"x": 20, "y": 7}})
	w.Start(1, 9, 9, engine.Meta{PartitionTime: 10, Clocks: map[string]int64{"x": 25}})
	if w.StreamTime() != 30 || *w.Clock("x") != 25 || *w.Clock("y") != 7 || *w.Clock("z") != -1 {
		t.Errorf("stream time %d, clocks %v", w.StreamTime(), w.Clocks())
	}
	*w.Clock("z") = 3
	if err := w.Rewind(); err != nil {
		t.Fatal(err)
	}
	if *w.Clock("x") != 25 || *w.Clock("z") != -1 {
		t.Errorf("clocks %v after a rewind", w.Clocks())
	}
	for i, c := range w.Cuts(nil) {
		m, err := engine.DecodeMeta(c.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		if m.PartitionTime != []int64{30, 10}[i] || m.Clocks["x"] != 25 || c.Next != []int64{4, 9}[i] {
			t.Errorf("input %d: %+v, %+v", i, c, m)
		}
	}
}

func TestClose(t *testing.T) {
	var closed []string
	w := newWorld(t, 1, func(w *world) {
		w.build = func(w *world, task *engine.Task) error {
			task.OnClose(func() error { closed = append(closed, "first"); return errBad })
			task.OnClose(func() error { closed = append(closed, "second"); panic("in close") })
			task.OnClose(func() error { closed = append(closed, "third"); return nil })
			return nil
		}
	})
	if err := w.Rewind(); err != nil { // operators are made anew, whatever the old ones say
		t.Fatal(err)
	}
	equal(t, "closed", closed, []string{"first", "second", "third"})
	closed = nil
	if err := w.Close(); !errors.Is(err, errBad) {
		t.Errorf("error %v", err)
	}
	equal(t, "closed", closed, []string{"first", "second", "third"})
}

func TestOpenThatFails(t *testing.T) {
	open := func(build func(*engine.Task) error) error {
		_, err := engine.Open(&engine.Sub{Inputs: []*engine.Input{{Topic: engine.Topic{Name: "orders"}, Node: &engine.Node{}}}, Build: build}, 0, engine.Env{})
		return err
	}
	if err := open(func(*engine.Task) error { return errBad }); !errors.Is(err, errBad) {
		t.Errorf("error %v", err)
	}
	if err := open(func(*engine.Task) error { return nil }); err == nil || !strings.Contains(err.Error(), "nothing reads input orders") {
		t.Errorf("error %v", err)
	}
	if err := open(func(*engine.Task) error { panic("in init") }); err == nil || !strings.Contains(err.Error(), "in init") {
		t.Errorf("error %v", err)
	}
}
