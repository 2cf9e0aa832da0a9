package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
)

// disk notes what is done to it.
type disk struct {
	state.Backend
	calls []string
	err   error
}

func (d *disk) Apply(batches []state.Batch, data []byte) error {
	rows := 0
	for _, b := range batches {
		rows += len(b.Rows)
	}
	d.calls = append(d.calls, fmt.Sprintf("apply %d rows, %q", rows, data))
	return d.err
}

func (d *disk) Switch() { d.calls = append(d.calls, "switch") }

func TestCheckpoint(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		back, memory := &disk{}, &disk{}
		w := newWorld(t, 1, func(w *world) {
			w.process = summing
			w.env.Disk, w.env.Memory = back, memory
		})
		w.Sub.Stores[0].InMemory = inMemory
		w.add(0, 0, "a=1@5", "b=2@9")
		w.run()
		w.commit()
		c, err := w.Freeze([]byte("to 2"))
		if err != nil || c.Empty() {
			t.Fatalf("freeze: %v, empty %v", err, c.Empty())
		}
		w.add(0, 2, "a=3@7")
		w.run() // while the checkpoint is written
		if err := c.Apply(); err != nil {
			t.Fatal(err)
		}
		if err := w.Applied(c); err != nil {
			t.Fatal(err)
		}
		want, wantMemory := []string{`apply 2 rows, "to 2"`, "switch"}, []string(nil)
		if inMemory {
			want, wantMemory = []string{`apply 0 rows, "to 2"`, "switch"}, []string{`apply 2 rows, ""`, "switch"}
		}
		equal(t, "disk", back.calls, want)
		equal(t, "memory", memory.calls, wantMemory)
		if w.store.applied["a"] != "1" || w.store.get("a") != "13" {
			t.Errorf("applied %v, now %q", w.store.applied, w.store.get("a"))
		}
	}
}

func TestCheckpointThatFails(t *testing.T) {
	w := newWorld(t, 1, func(w *world) { w.env.Disk = &disk{err: errBad} })
	c, err := w.Freeze(nil)
	if err != nil || !c.Empty() {
		t.Fatalf("freeze: %v", err)
	}
	if err := c.Apply(); !errors.Is(err, errBad) || !strings.Contains(err.Error(), "task 2_3: checkpoint") {
		t.Errorf("error %v", err)
	}
}

func TestRestore(t *testing.T) {
	w := newWorld(t, 1, nil)
	for _, r := range []struct{ key, value []byte }{{[]byte("a"), []byte("1")}, {nil, []byte("x")}, {[]byte("b"), []byte("2")}, {[]byte("a"), nil}, {[]byte{}, []byte("empty")}} {
		if err := w.Restore(0, r.key, r.value, 5); err != nil {
			t.Fatal(err)
		}
	}
	if a, b, empty := w.store.get("a"), w.store.get("b"), w.store.get(""); a != "" || b != "2" || empty != "empty" {
		t.Errorf("a %q, b %q, empty key %q", a, b, empty)
	}
	w.store.broken = errBad
	if err := w.Restore(0, []byte("a"), nil, 0); !errors.Is(err, errBad) {
		t.Errorf("error %v", err)
	}
}

func TestExpiry(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.Sub.Stores[0].TTL = 80 // looked at once per 10 ms of stream time
	task, err := engine.Open(w.Sub, 3, w.env)
	if err != nil {
		t.Fatal(err)
	}
	w.Task = task
	w.Start(0, 0, 0, engine.Meta{PartitionTime: -1})
	w.add(0, 0, "k=1@3", "k=2@9", "k=3@10", "k=4@8", "k=5@19", "k=6@45", "k=7@50")
	w.run()
	if want := []int64{10, 45, 50}; !cmp.Equal(want, w.store.expired) {
		t.Errorf("looked at %v, not %v", w.store.expired, want)
	}
	w.commit()
	w.store.expired = nil
	if err := w.Rewind(); err != nil {
		t.Fatal(err)
	}
	w.add(0, 7, "k=8@59", "k=9@60")
	w.run()
	if want := []int64{60}; !cmp.Equal(want, w.store.expired) {
		t.Errorf("after a rewind: looked at %v, not %v", w.store.expired, want)
	}
}

func TestSaved(t *testing.T) {
	s := engine.Saved{Cluster: "c", At: 5, Stores: map[string]engine.SavedPart{"rows-v2": {TopicID: "t", Next: 7}}, Inputs: map[string]string{"orders": "o"}, Print: map[string]string{"rows": "kind=keyvalue"}}
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := engine.DecodeSaved(b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s, got); d != "" {
		t.Error(d)
	}
	if got, err := engine.DecodeSaved(nil); err != nil || got.Stores != nil {
		t.Errorf("no data: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "x", `{"stores":[]}`, string(b[:len(b)-1])} {
		if _, err := engine.DecodeSaved([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
