package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
)

func TestRecordContext(t *testing.T) {
	var got []engine.Rec
	w := newWorld(t, 2, func(w *world) {
		w.env.MaxIdle = -1
		w.process = func(w *world, r *engine.Rec, key, value string) { got = append(got, *r) }
	})
	r := rec(7, "k=v@5")
	r.Headers = []engine.Header{{Key: "h", Value: []byte("1")}}
	w.Add(1, []engine.Record{r, {Value: []byte("w"), Time: 6, Offset: 9}}, 10, 10)
	w.run()
	if len(got) != 2 {
		t.Fatalf("%d records", len(got))
	}
	if a := got[0]; a.Time != 5 || a.NullKey || a.Input != 1 || a.Offset != 7 || string(a.RawKey) != "k" || string(a.RawValue) != "v" || len(a.Headers) != 1 {
		t.Errorf("first %+v", a)
	}
	if b := got[1]; !b.NullKey || b.RawKey != nil || b.Offset != 9 || b.Headers != nil {
		t.Errorf("second %+v", b)
	}
}

func TestFanOut(t *testing.T) {
	for n := range 5 {
		var calls []int
		var kids []engine.Receive[string, int]
		for i := range n {
			kids = append(kids, func(r *engine.Rec, k string, v int) { calls = append(calls, i*v) })
		}
		engine.FanOut(kids)(&engine.Rec{}, "k", 2)
		if len(calls) != n || n > 0 && calls[n-1] != 2*(n-1) {
			t.Errorf("%d children: calls %v", n, calls)
		}
	}
}

func TestPanicsAreErrorsOfTheNode(t *testing.T) {
	w := newWorld(t, 1, func(w *world) {
		w.process = func(w *world, r *engine.Rec, key, value string) {
			w.At(w.operator())
			panic(errBad)
		}
	})
	w.add(0, 4, "k=v@1")
	_, err := w.Process(0)
	failed, ok := errors.AsType[*engine.RecordError](err)
	if !ok || failed.Node != "operator" || failed.Offset != 4 || failed.Stage != "process" {
		t.Fatalf("error %v", err)
	}
	p, ok := errors.AsType[*engine.PanicError](err)
	if !ok || !errors.Is(err, errBad) || !strings.Contains(string(p.Stack), "process_test.go") {
		t.Errorf("panic %v", p)
	}
	if _, err := w.Process(0); err == nil {
		t.Error("went on after a failure")
	}
	if err := w.Prepare(); err == nil {
		t.Error("prepared a commit after a failure")
	}
	if err := w.Flush(nil); err == nil {
		t.Error("flushed after a failure")
	}
}

func TestPanicInDecoder(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.add(0, 4, "k=panic@1")
	_, err := w.Process(0)
	if failed, ok := errors.AsType[*engine.RecordError](err); !ok || failed.Node != "in0" || failed.Offset != 4 {
		t.Errorf("error %v", err)
	}
}

// Two guarded nodes, one above the other: each failure belongs to the node whose code failed.
func TestGuard(t *testing.T) {
	skip := engine.Policy{Kind: engine.Skip}
	child := &engine.Node{Name: "child", OnError: skip}
	w := newWorld(t, 1, func(w *world) {
		w.operator().OnError = skip
		w.process = func(w *world, r *engine.Rec, key, value string) {
			if !w.Guarded(w.operator()) || !w.Guarded(child) || w.Guarded(w.nodes[0]) {
				t.Error("wrong nodes are guarded")
			}
			ended := w.Guard(w.operator(), r, func() {
				if value == "above" {
					panic(value)
				}
				done := w.Guard(child, r, func() {
					if value == "below" {
						panic(value)
					}
					if value == "unguarded" {
						w.At(w.nodes[0])
						panic(value)
					}
					if value == "abort" {
						w.Abort(errBad)
					}
				})
				if done != (value == "fine") {
					t.Errorf("%s: child ended %v", value, done)
				}
				if value == "below" {
					w.Emit("out", -1, nil, []byte("parent goes on"), 0, nil)
				}
			})
			if ended != (value != "above") {
				t.Errorf("%s: parent ended %v", value, ended)
			}
		}
	})
	w.add(0, 0, "k=above@1", "k=below@1", "k=fine@1")
	w.run()
	var nodes []string
	for _, d := range w.drops {
		nodes = append(nodes, d.Node)
	}
	equal(t, "dropped at", nodes, []string{"operator", "child"})
	equal(t, "sent", w.took(), []string{"out/-1 =parent goes on@0"})

	w.add(0, 3, "k=unguarded@1")
	_, err := w.Process(0)
	if failed, ok := errors.AsType[*engine.RecordError](err); !ok || failed.Node != "in0" {
		t.Errorf("error %v", err)
	}
	if err := w.Rewind(); err != nil {
		t.Fatal(err)
	}
	w.add(0, 0, "k=abort@1")
	if _, err := w.Process(0); err != errBad {
		t.Errorf("error %v", err)
	}
}

func TestBrokenStore(t *testing.T) {
	w := newWorld(t, 1, func(w *world) {
		w.operator().OnError = engine.Policy{Kind: engine.Skip}
		w.process = func(w *world, r *engine.Rec, key, value string) {
			w.Guard(w.operator(), r, func() { w.store.get(key) })
		}
	})
	w.store.broken = errBad
	w.add(0, 0, "k=v@1")
	if _, err := w.Process(0); !errors.Is(err, errBad) || !strings.Contains(err.Error(), `task 2_3: store "rows" failed`) {
		t.Errorf("error %v", err)
	}
	if err := w.Rewind(); !errors.Is(err, errBad) {
		t.Errorf("rewound a task whose store is broken: %v", err)
	}
}

func TestErrorTexts(t *testing.T) {
	e := &engine.RecordError{Stage: "decode", Task: "0_1", Node: "orders", Topic: "orders", Partition: 1, Offset: 42, Err: errBad}
	if got := e.Error(); got != `decode at "orders", task 0_1, record orders/1@42: cannot be decoded` {
		t.Error(got)
	}
}
