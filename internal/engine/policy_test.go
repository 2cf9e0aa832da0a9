package engine_test

import (
	"errors"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
)

// failing drops records whose value is "drop" and fails those whose value is "fail".
func failing(w *world, r *engine.Rec, key, value string) {
	switch value {
	case "drop":
		w.Drop(w.Counter(w.operator(), "late"), r)
		w.Drop(w.Counter(w.operator(), "late"), r) // as for two windows
	case "fail":
		w.Fail("process", w.operator(), r, errBad)
	default:
		w.Emit("out", -1, r.RawKey, r.RawValue, r.Time, r.Headers)
	}
}

func TestPolicies(t *testing.T) {
	stop, skip, dead := engine.Policy{Kind: engine.Stop}, engine.Policy{Kind: engine.Skip}, engine.Policy{Kind: engine.DeadLetter, Topic: "dead"}
	for _, c := range []struct {
		name  string
		value string
		set   func(w *world)
		sent  []string
		drops []string
		err   bool
	}{
		{"unset stops", "fail", func(*world) {}, nil, nil, true},
		{"the application's", "fail", func(w *world) { w.env.OnProcess = skip }, nil, []string{"skipped"}, false},
		{"the node's wins", "fail", func(w *world) { w.env.OnProcess = skip; w.operator().OnError = stop }, nil, nil, true},
		{"dead letter", "fail", func(w *world) { w.operator().OnError = dead }, []string{"dead/0 k=fail@7"}, []string{"skipped"}, false},
		{"decode stops", "bad", func(w *world) { w.env.OnProcess = skip }, nil, nil, true},
		{"decode skips", "bad", func(w *world) { w.env.OnDecode = skip }, nil, []string{"skipped"}, false},
		{"decode to dead letters", "bad", func(w *world) { w.nodes[0].OnError = dead }, []string{"dead/0 k=bad@7"}, []string{"skipped"}, false},
		{"drops pass", "drop", func(*world) {}, nil, []string{"late", "late"}, false},
		{"a drop to dead letters goes once", "drop", func(w *world) { w.operator().OnDrop = []engine.DropRule{{Policy: dead}} }, []string{"dead/0 k=drop@7"}, []string{"late", "late"}, false},
		{"a drop for another reason", "drop", func(w *world) { w.operator().OnDrop = []engine.DropRule{{Policy: stop, Reasons: []string{"expired"}}} }, nil, []string{"late", "late"}, false},
		{"a drop stops", "drop", func(w *world) {
			w.operator().OnDrop = []engine.DropRule{{Policy: stop, Reasons: []string{"expired", "late"}}}
		}, nil, []string{"late"}, true},
		{"the last rule wins", "drop", func(w *world) {
			w.operator().OnDrop = []engine.DropRule{{Policy: stop}, {Policy: skip, Reasons: []string{"late"}}}
		}, nil, []string{"late", "late"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, func(w *world) { w.process = failing; c.set(w) })
			w.add(0, 0, "k="+c.value+"@7")
			_, err := w.Process(0)
			if c.err != (err != nil) {
				t.Fatalf("error %v", err)
			}
			if c.err {
				failed, ok := errors.AsType[*engine.RecordError](err)
				if !ok || failed.Topic != "topic0" || failed.Partition != 3 || failed.Offset != 0 || failed.Task != "2_3" {
					t.Errorf("error %v", err)
				}
			}
			equal(t, "sent", w.took(), c.sent)
			var reasons []string
			for _, d := range w.drops {
				reasons = append(reasons, d.Reason)
				if d.Task != "2_3" || d.Topic != "topic0" || d.Partition != 3 || string(d.Key) != "k" || string(d.Value) != c.value || d.Time != 7 {
					t.Errorf("drop %+v", d)
				}
			}
			equal(t, "drops", reasons, c.drops)
			var count int64
			for _, counter := range w.Counters() {
				count += counter.Count()
			}
			if count != int64(len(c.drops)) {
				t.Errorf("%d counted", count)
			}
		})
	}
}

func TestDeadLetterHeaders(t *testing.T) {
	var told []string
	w := newWorld(t, 1, func(w *world) {
		w.process = failing
		w.operator().OnError = engine.Policy{Kind: engine.DeadLetter, Topic: "dead"}
		w.env.DeadLettered = func(node string, err error) { told = append(told, node+": "+err.Error()) }
	})
	r := rec(12, "k=fail@7")
	r.Headers = []engine.Header{{Key: "mine", Value: []byte("1")}}
	w.Add(0, []engine.Record{r}, 13, 13)
	w.run()
	var got []string
	for _, h := range w.last {
		got = append(got, h.Key+"="+string(h.Value))
	}
	equal(t, "headers", got, []string{"mine=1", "__streams.errors.exception=*errors.errorString", "__streams.errors.message=cannot be decoded",
		"__streams.errors.topic=topic0", "__streams.errors.partition=3", "__streams.errors.offset=12", "kolk.node=operator", "kolk.reason=skipped"})
	equal(t, "told", told, []string{"operator: cannot be decoded"})
}

func TestDeadLetterOfNullKey(t *testing.T) {
	w := newWorld(t, 1, func(w *world) {
		w.process = failing
		w.env.OnProcess = engine.Policy{Kind: engine.DeadLetter, Topic: "dead"}
	})
	w.Add(0, []engine.Record{{Value: []byte("fail"), Time: 7}}, 1, 1)
	w.run()
	equal(t, "sent", w.took(), []string{"dead/-1 =fail@7"})
}

// What an aborted transaction sent to a dead letter topic is sent again.
func TestDeadLettersAfterRewind(t *testing.T) {
	w := newWorld(t, 1, func(w *world) {
		w.process = failing
		w.operator().OnDrop = []engine.DropRule{{Policy: engine.Policy{Kind: engine.DeadLetter, Topic: "dead"}}}
	})
	for range 2 {
		w.add(0, 0, "k=drop@7")
		w.run()
		equal(t, "sent", w.took(), []string{"dead/0 k=drop@7"})
		if err := w.Rewind(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordsThatCannotBeWritten(t *testing.T) {
	dead := engine.Policy{Kind: engine.DeadLetter, Topic: "dead"}
	open := func(set func(*world)) *world {
		w := newWorld(t, 1, set)
		w.refuse = func(topic, value string) bool { return topic == "out" || value == "never" }
		return w
	}
	w := open(nil)
	w.add(0, 0, "k=v@1")
	if _, err := w.Process(0); !errors.Is(err, errBad) {
		t.Errorf("error %v", err)
	}
	w = open(func(w *world) { w.env.OnProduce = dead })
	w.add(0, 0, "k=v@1")
	w.run()
	equal(t, "sent", w.took(), []string{"dead/0 k=v@1"})
	w.add(0, 1, "k=never@1") // the dead letter topic does not take it either
	_, err := w.Process(0)
	if failed, ok := errors.AsType[*engine.RecordError](err); !ok || failed.Stage != "produce" || !errors.Is(err, errBad) {
		t.Errorf("error %v", err)
	}
}
