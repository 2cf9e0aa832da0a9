package topologytest

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

// Application is the id of the application whose topology is run: changelogs are named `app-<store>-changelog`.
const Application = "app"

// TB is what New needs of a *testing.T.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Driver runs one topology. It belongs to the test's goroutine.
type Driver struct {
	t     TB
	graph *engine.Graph
	opts  options
	start time.Time
	wall  int64 // ms

	count      map[string]int32 // partitions, by full topic name
	logs       map[string]*log
	changelogs map[string]*log // by the store's full name
	fresh      bool            // a topic that is read has new records
	offsets    map[place]cut   // committed
	tasks      []*task
	globals    []*global
	running    *task

	sends   int      // records sent by the test
	shown   int      // how many of them the tasks may see
	settled int      // how many of them are committed
	next    int64    // event time of the next record without one, ms
	pending []*entry // written by the open transaction
	drops   []Dropped
	kept    int // how many of the drops are committed
	aborts  int
	closing bool
	failed  bool
}

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

// cut is a committed offset with its metadata.
type cut struct {
	next     int64
	metadata string
}

// New starts a driver; the test ends it. A topology whose topics do not fit together fails the test.
func New(t TB, top *topology.Topology, opts ...Option) *Driver {
	t.Helper()
	d := &Driver{t: t, opts: options{partitions: 1, start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, logs: make(map[string]*log),
		changelogs: make(map[string]*log), offsets: make(map[place]cut)}
	for _, o := range opts {
		o.set(&d.opts)
	}
	d.start = d.opts.start
	d.wall, d.next = d.start.UnixMilli(), d.start.UnixMilli()
	if top == nil || engine.GraphOf(top) == nil {
		d.fail("topologytest: there is no topology: give New what Builder.Build returned, after looking at its error")
		return d
	}
	d.graph = engine.GraphOf(top)
	if d.opts.fault != "" {
		d.fail("topologytest: %s", d.opts.fault)
		return d
	}
	if !d.layout() || !d.openAll(true) {
		return d
	}
	t.Cleanup(d.close)
	return d
}

// layout works out all partition counts.
func (d *Driver) layout() bool {
	user := make(map[string]int32)
	for _, s := range d.graph.Subs {
		for _, in := range s.Inputs {
			if !in.Repartition {
				user[in.Name] = d.partitions(in.Name)
			}
		}
	}
	count, bad := engine.Layout(d.graph, Application, user)
	if len(bad) > 0 {
		text := ""
		for _, m := range bad {
			text += fmt.Sprintf("\n%s: %s; %s", m.Topic, m.Problem, m.Remedy)
		}
		d.fail("topologytest: the topics do not fit together:%s", text)
		return false
	}
	d.count = count
	return true
}

// partitions is the number of partitions of a topic, by full name.
func (d *Driver) partitions(topic string) int32 {
	if n, ok := d.count[topic]; ok {
		return n
	}
	if n, ok := d.opts.topics[topic]; ok {
		return n
	}
	return d.opts.partitions
}

// log is a topic, by full name. Topics come into being when they are first asked for.
func (d *Driver) log(topic string) *log {
	l := d.logs[topic]
	if l == nil {
		l = newLog(d.partitions(topic))
		d.logs[topic] = l
	}
	return l
}

// fail fails the test. A TB whose Fatalf returns gets a driver that does nothing any more.
func (d *Driver) fail(format string, args ...any) {
	d.t.Helper()
	d.failed = true
	d.t.Fatalf(format, args...)
}

// env is what a task gets.
func (d *Driver) env(disk, memory state.Backend) engine.Env {
	globals := make(map[string]*engine.Global, len(d.globals))
	for _, g := range d.globals {
		globals[g.Table.Store.Name] = g.Global
	}
	return engine.Env{App: Application, Context: context.Background(), Log: slog.New(slog.DiscardHandler), Output: (*sink)(d), Partitions: d.partitions,
		Disk: disk, Memory: memory, Wall: func() int64 { return d.wall }, MaxIdle: d.opts.maxIdle, MaxAhead: d.opts.maxAhead, CloseIdle: d.opts.closeIdle,
		TransactionalID: Application + "-test", Globals: globals, Dropped: d.dropped}
}

// sink takes what the tasks write.
type sink Driver

// Emit implements engine.Sink.
func (s *sink) Emit(topic string, partition int32, key, value []byte, at int64, headers []engine.Header) error {
	d := (*Driver)(s)
	l := d.log(topic)
	if int(partition) >= len(l.parts) {
		return fmt.Errorf("topic %s has %d partitions, there is no partition %d", topic, len(l.parts), partition)
	}
	d.pending = append(d.pending, l.append(partition, key, value, at, headers, d.cause()))
	d.fresh = true
	return nil
}

// cause is the record of the test that led to what is being done.
func (d *Driver) cause() int {
	if d.closing {
		return d.sends - 1
	}
	if d.running == nil {
		return -1
	}
	topic, offset := d.running.Last()
	if topic == "" {
		return -1
	}
	return d.logs[topic].parts[d.running.Partition][offset].input
}

func (d *Driver) dropped(x engine.Drop) {
	raw := Raw{Key: x.Key, Value: x.Value, Time: time.UnixMilli(x.Time).UTC(), Headers: headersOf(x.Headers), Partition: x.Partition, Input: d.cause()}
	d.drops = append(d.drops, Dropped{Raw: raw, Task: x.Task, Node: x.Node, Reason: reason(x.Reason)})
}

// view shows the open stores to readers.
type view Driver

// Stores implements state.View.
func (v *view) Stores(name string) (out []state.Live) {
	if g := (*Driver)(v).openGlobal(name); g != nil {
		return []state.Live{g.Live()}
	}
	for _, t := range v.tasks {
		for slot, decl := range t.Sub.Stores {
			if decl.Name == name {
				out = append(out, t.Stores()[slot])
			}
		}
	}
	return out
}

// Store opens a store for reading, over all partitions. It shows what is committed.
func (d *Driver) Store[R any](h store.Queryable[R]) R {
	d.t.Helper()
	decl := state.Of(h)
	if decl == nil {
		d.fail("topologytest: the store was never declared: use a handle of package store, or a table's Store method")
	} else if len((*view)(d).Stores(decl.Name)) == 0 {
		d.fail("topologytest: the topology has no store %q", decl.Name)
	} else {
		return decl.Read((*view)(d)).(R)
	}
	var none R
	return none
}

// At is the driver's start plus d, for event times.
func (d *Driver) At(after time.Duration) time.Time { return d.start.Add(after) }

// Advance moves the wall clock and fires what is due, each timer once. A task that waits for an input may go on. Stream time moves with records only, unless
// CloseIdle lets it go on: then what waits for it comes in turn, as the time passes.
func (d *Driver) Advance(by time.Duration) {
	d.t.Helper()
	if d.failed {
		return
	}
	until := d.wall + by.Milliseconds()
	for d.idle(until) {
		d.settle()
	}
	if d.failed {
		return
	}
	d.wall = until
	for _, t := range d.tasks {
		d.running = t
		if err := t.Punctuate(d.wall); err != nil {
			d.fail("topologytest: %v", err)
			return
		}
	}
	d.settle()
}

// idle moves the wall clock to where stream time goes on next without records, if that is not later than until, and does what is due then.
func (d *Driver) idle(until int64) bool {
	d.t.Helper()
	next := int64(math.MaxInt64)
	for _, t := range d.tasks {
		due, err := t.IdleDue(d.wall)
		if err != nil {
			d.fail("topologytest: %v", err)
			return false
		}
		next = min(next, due)
	}
	if d.failed || next > until {
		return false
	}
	d.wall = max(d.wall, next)
	for _, t := range d.tasks {
		d.running = t
		if _, err := t.CloseIdle(d.wall); err != nil {
			d.fail("topologytest: %v", err)
			return false
		}
	}
	return true
}
