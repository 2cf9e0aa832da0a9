package topology_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/memstore"
	"github.com/kolkstreams/kolk/topology"
)

// null stands for a null key or value.
const null = "∅"

// world drives the tasks of a topology by hand, all on partition 0 unless told.
type world struct {
	t          *testing.T
	graph      *engine.Graph
	env        engine.Env
	tasks      []*engine.Task
	partition  int32
	counts     map[string]int32 // partitions by topic; 1 for others
	next       map[string]int64 // offsets
	queue      []emitted        // on their way to readers
	sent       map[string][]emitted
	changelogs map[string][]emitted // by store
	drops      []string
	wall       int64
	held       string    // a topic whose records go to late instead of to its readers
	late       []emitted // these
}

type emitted struct {
	topic      string
	key, value []byte
	at         int64
	headers    []engine.Header
	partition  int32
}

// String writes a record as key=value@time.
func (e emitted) String() string { return fmt.Sprintf("%s=%s@%d", text(e.key), text(e.value), e.at) }

// text shows bytes; eight that are no text are an int64.
func text(b []byte) string {
	switch {
	case b == nil:
		return null
	case len(b) == 8 && (b[0] == 0 || b[0] == 0xff):
		return fmt.Sprint(int64(binary.BigEndian.Uint64(b)))
	}
	return string(b)
}

// build is a topology that must be right.
func build(t *testing.T, declare func(b *topology.Builder)) *topology.Topology {
	t.Helper()
	b := topology.New()
	declare(b)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// run starts the tasks of a topology.
func run(t *testing.T, declare func(b *topology.Builder), change ...func(*world)) *world {
	t.Helper()
	return start(t, build(t, declare), change...)
}

// start is run for a topology that was built.
func start(t *testing.T, top *topology.Topology, change ...func(*world)) *world {
	t.Helper()
	w := &world{t: t, graph: engine.GraphOf(top), counts: map[string]int32{}, next: map[string]int64{}, sent: map[string][]emitted{},
		changelogs: map[string][]emitted{}}
	w.env = engine.Env{App: "app", Context: context.Background(), Log: slog.New(slog.DiscardHandler), Output: w,
		Partitions: func(topic string) int32 {
			if n, ok := w.counts[topic]; ok {
				return n
			}
			return 1
		},
		Wall:    func() int64 { return w.wall },
		Dropped: func(d engine.Drop) { w.drops = append(w.drops, d.Node+" "+d.Reason) }}
	for _, c := range change {
		c(w)
	}
	for _, sub := range w.graph.Subs {
		env := w.env
		env.Disk, env.Memory = memstore.New(), memstore.New()
		task, err := engine.Open(sub, w.partition, env)
		if err != nil {
			t.Fatal(err)
		}
		for i := range sub.Inputs {
			task.Start(i, 0, 0, engine.Meta{PartitionTime: -1})
		}
		w.tasks = append(w.tasks, task)
	}
	t.Cleanup(func() {
		for _, task := range w.tasks {
			if err := task.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	})
	return w
}

// Emit makes the world the sink of all tasks.
func (w *world) Emit(topic string, partition int32, key, value []byte, at int64, headers []engine.Header) error {
	e := emitted{topic, bytes.Clone(key), bytes.Clone(value), at, slices.Clone(headers), partition}
	w.sent[topic] = append(w.sent[topic], e)
	if topic == w.held {
		w.late = append(w.late, e)
		return nil
	}
	w.queue = append(w.queue, e)
	return nil
}

// try sends records, each as key=value@time, and returns the first error.
func (w *world) try(topic string, records ...string) error {
	for _, text := range records {
		head, at, _ := strings.Cut(text, "@")
		key, value, _ := strings.Cut(head, "=")
		e := emitted{topic: topic, key: data(key), value: data(value)}
		if _, err := fmt.Sscan(at, &e.at); err != nil {
			w.t.Fatalf("record %q: %v", text, err)
		}
		if err := w.give(e); err != nil {
			return err
		}
	}
	return nil
}

func data(s string) []byte {
	if s == null {
		return nil
	}
	return []byte(s)
}

func (w *world) give(e emitted) error {
	w.queue = append(w.queue, e)
	return w.settle()
}

// settle hands on what was sent until there is nothing to do.
func (w *world) settle() error {
	for len(w.queue) > 0 {
		if err := w.deliver(0); err != nil {
			return err
		}
	}
	return nil
}

// deliver hands on one of the records that are on their way.
func (w *world) deliver(i int) error {
	e := w.queue[i]
	w.queue = slices.Delete(w.queue, i, i+1)
	for _, task := range w.tasks {
		for i, in := range task.Sub.Inputs {
			if in.Full("app") != e.topic {
				continue
			}
			offset := w.next[e.topic]
			w.next[e.topic]++
			task.Add(i, []engine.Record{{Key: e.key, Value: e.value, Headers: e.headers, Time: e.at, Offset: offset}}, offset+1, offset+1)
			for {
				did, err := task.Process(w.wall)
				if err != nil {
					return err
				}
				if !did {
					break
				}
			}
		}
	}
	return nil
}

// send is try for records that must go well.
func (w *world) send(topic string, records ...string) {
	w.t.Helper()
	if err := w.try(topic, records...); err != nil {
		w.t.Fatal(err)
	}
}

// commit ends a transaction.
func (w *world) commit() {
	w.t.Helper()
	for _, task := range w.tasks {
		if err := task.Prepare(); err != nil {
			w.t.Fatal(err)
		}
		if err := w.settle(); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, task := range w.tasks {
		err := task.Flush(func(d *state.Decl, key, value []byte, at int64) error {
			w.changelogs[d.Full()] = append(w.changelogs[d.Full()], emitted{"", bytes.Clone(key), bytes.Clone(value), at, nil, 0})
			return nil
		})
		if err == nil {
			err = task.Committed()
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// took are the records that were written to a topic since the last call.
func (w *world) took(topic string) string {
	out := make([]string, len(w.sent[topic]))
	for i, e := range w.sent[topic] {
		out[i] = e.String()
	}
	delete(w.sent, topic)
	return strings.Join(out, " ")
}

// wants fails the test unless these records were written to a topic since the last look.
func (w *world) wants(topic, records string) {
	w.t.Helper()
	if got := w.took(topic); got != records {
		w.t.Errorf("%s got %s, want %s", topic, got, records)
	}
}

// logged fails the test unless these records went to a store's changelog since the last look.
func (w *world) logged(store, records string) {
	w.t.Helper()
	var got []string
	for _, e := range w.changelogs[store] {
		got = append(got, e.String())
	}
	delete(w.changelogs, store)
	if got := strings.Join(got, " "); got != records {
		w.t.Errorf("changelog of %s got %s, want %s", store, got, records)
	}
}

// dropped fails the test unless these records were dropped since the last look, each as "node reason".
func (w *world) dropped(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.drops, want) {
		w.t.Errorf("dropped %q, want %q", w.drops, want)
	}
	w.drops = nil
}
