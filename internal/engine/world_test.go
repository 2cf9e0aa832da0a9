package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
)

// world is a task with as many inputs as a test wants, one store "rows" and the clock in a variable. Its one operator calls process for each record.
type world struct {
	*engine.Task
	t     *testing.T
	nodes []*engine.Node // one per input, then the operator's
	env   engine.Env
	wall  int64
	sent  []string
	last  []engine.Header // headers of the last record sent
	drops []engine.Drop
	// refuse says which records the sink does not take.
	refuse func(topic, value string) bool
	store  *layers
	// process is the operator's function, build is called when operators are made.
	process func(w *world, r *engine.Rec, key, value string)
	build   func(w *world, t *engine.Task) error
}

var errBad = errors.New("cannot be decoded")

func newWorld(t *testing.T, inputs int, change func(*world)) *world {
	t.Helper()
	w := &world{t: t, wall: 1000, store: &layers{}}
	sub := &engine.Sub{ID: 2, Nodes: w.nodes, Stores: []*state.Decl{{Name: "rows", Open: func(e state.Env) state.Live { w.store.env = e; return w.store }}}}
	for i := range inputs {
		n := &engine.Node{Name: "in" + strconv.Itoa(i)}
		w.nodes = append(w.nodes, n)
		sub.Inputs = append(sub.Inputs, &engine.Input{Topic: engine.Topic{Name: "topic" + strconv.Itoa(i)}, Node: n})
	}
	w.nodes = append(w.nodes, &engine.Node{Name: "operator"})
	sub.Build = func(task *engine.Task) error {
		for i := range inputs {
			task.Read(i, &reader{w: w, task: task, node: w.nodes[i]})
		}
		if w.build != nil {
			return w.build(w, task)
		}
		return nil
	}
	w.env = engine.Env{App: "app", Context: context.Background(), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Output: w,
		Partitions: func(string) int32 { return 4 }, Wall: func() int64 { return w.wall }, Dropped: func(d engine.Drop) { w.drops = append(w.drops, d) }}
	if change != nil {
		change(w)
	}
	task, err := engine.Open(sub, 3, w.env)
	if err != nil {
		t.Fatal(err)
	}
	w.Task = task
	for i := range inputs {
		w.Start(i, 0, 0, engine.Meta{PartitionTime: -1})
	}
	return w
}

func (w *world) operator() *engine.Node { return w.nodes[len(w.nodes)-1] }

// Emit makes the world the task's sink.
func (w *world) Emit(topic string, partition int32, key, value []byte, at int64, headers []engine.Header) error {
	if w.refuse != nil && w.refuse(topic, string(value)) {
		return errBad
	}
	w.sent = append(w.sent, fmt.Sprintf("%s/%d %s=%s@%d", topic, partition, key, value, at))
	w.last = headers
	return nil
}

// reader decodes text: "bad" cannot be decoded, "panic" panics, times before 1970 are dropped.
type reader struct {
	w          *world
	task       *engine.Task
	node       *engine.Node
	key, value string
}

func (r *reader) Decode(in *engine.Record) (int64, bool) {
	switch {
	case string(in.Value) == "bad":
		r.task.Fail("decode", r.node, &engine.Rec{Input: slices.Index(r.w.nodes, r.node), Offset: in.Offset, Time: in.Time, RawKey: in.Key, RawValue: in.Value, Headers: in.Headers}, errBad)
		return 0, false
	case string(in.Value) == "panic":
		panic("decoder")
	case in.Time < 0:
		r.task.Drop(r.task.Counter(r.node, "no_time"), &engine.Rec{Input: slices.Index(r.w.nodes, r.node), Offset: in.Offset})
		return 0, false
	}
	r.key, r.value = string(in.Key), string(in.Value)
	return in.Time, true
}

func (r *reader) Process(rec *engine.Rec) {
	if r.w.process != nil {
		r.w.process(r.w, rec, r.key, r.value)
		return
	}
	r.task.Emit("out", -1, rec.RawKey, rec.RawValue, rec.Time, rec.Headers)
}

// rec makes a record of "key=value@time".
func rec(offset int64, text string) engine.Record {
	head, at, _ := strings.Cut(text, "@")
	key, value, _ := strings.Cut(head, "=")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		panic(err)
	}
	return engine.Record{Key: []byte(key), Value: []byte(value), Time: ms, Offset: offset}
}

// add gives an input records that follow each other from an offset, and nothing is left behind them.
func (w *world) add(input int, offset int64, texts ...string) {
	var recs []engine.Record
	for i, text := range texts {
		recs = append(recs, rec(offset+int64(i), text))
	}
	end := offset + int64(len(texts))
	w.Add(input, recs, end, end)
}

// run processes until the task has nothing to do.
func (w *world) run() {
	w.t.Helper()
	for {
		did, err := w.Process(w.wall)
		if err != nil {
			w.t.Fatal(err)
		}
		if !did {
			return
		}
	}
}

// commit is a commit that goes well. It returns what the store gave to the changelog.
func (w *world) commit() (staged []string) {
	w.t.Helper()
	if err := w.Prepare(); err != nil {
		w.t.Fatal(err)
	}
	err := w.Flush(func(d *state.Decl, key, value []byte, at int64) error {
		staged = append(staged, fmt.Sprintf("%s %s=%s@%d", d.Name, key, value, at))
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.Committed(); err != nil {
		w.t.Fatal(err)
	}
	return staged
}

func (w *world) took() []string {
	sent := w.sent
	w.sent = nil
	return sent
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// layers is a store of the simplest kind: text by text, every layer a map.
type layers struct {
	env                      state.Env
	dirty, committed, frozen map[string]*string
	applied                  map[string]string
	broken                   error
	expired                  []int64
}

func (l *layers) check() {
	if l.broken != nil {
		panic(state.Broken{Store: "rows", Err: l.broken})
	}
}

func (l *layers) get(key string) string {
	l.check()
	for _, m := range []map[string]*string{l.dirty, l.committed, l.frozen} {
		if v, ok := m[key]; ok {
			if v == nil {
				return ""
			}
			return *v
		}
	}
	return l.applied[key]
}

func (l *layers) put(key, value string) {
	l.check()
	if l.dirty == nil {
		l.dirty = map[string]*string{}
	}
	l.dirty[key] = &value
}

func (l *layers) Flush(write func(key, value []byte, at int64) error) error {
	l.check()
	for _, k := range sorted(l.dirty) {
		if err := write([]byte(k), []byte(*l.dirty[k]), l.env.Now()); err != nil {
			return err
		}
	}
	return nil
}

func (l *layers) Committed() {
	l.check()
	if l.committed == nil {
		l.committed = map[string]*string{}
	}
	for k, v := range l.dirty {
		l.committed[k] = v
	}
	l.dirty = nil
}

func (l *layers) Rollback() { l.check(); l.dirty = nil }

func (l *layers) Freeze() []state.Batch {
	var rows []state.Row
	l.check()
	l.frozen, l.committed = l.committed, nil
	for _, k := range sorted(l.frozen) {
		row := state.Row{Key: []byte(k)}
		if v := l.frozen[k]; v != nil {
			row.Value = []byte(*v)
		}
		rows = append(rows, row)
	}
	if rows == nil {
		return nil
	}
	return []state.Batch{{Slot: l.env.Slot, Rows: rows}}
}

func (l *layers) Applied() {
	for k, v := range l.frozen {
		if l.applied == nil {
			l.applied = map[string]string{}
		}
		l.applied[k] = *v
	}
	l.frozen = nil
}

func (l *layers) Restore(key, value []byte, at int64) error {
	l.check()
	if l.committed == nil {
		l.committed = map[string]*string{}
	}
	l.committed[string(key)] = nil
	if value != nil {
		v := string(value)
		l.committed[string(key)] = &v
	}
	return nil
}

func (l *layers) Load(to state.Loader, key, value []byte, at int64) error {
	return to.Put(l.env.Slot, key, value)
}

func (l *layers) Expire(streamTime int64, limit int) bool {
	l.check()
	l.expired = append(l.expired, streamTime)
	return false
}

func (l *layers) Close() {}

func (l *layers) Stats() state.Stats {
	return state.Stats{Dirty: int64(len(l.dirty)), Pending: int64(len(l.committed) + len(l.frozen))}
}

func sorted(m map[string]*string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
