package engine

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/kolkstreams/kolk/internal/state"
)

// Env is what a task gets from its process. It outlives the task.
type Env struct {
	App     string
	Context context.Context // ends when the task is closed
	Log     *slog.Logger
	Output  Sink
	// Partitions is the number of partitions of a topic; 0 if the topic is unknown.
	Partitions func(topic string) int32
	// Disk and Memory are the task's backends: Memory for stores declared InMemory, Disk for the others. Disk may be nil if there are none.
	Disk, Memory state.Backend
	Budget       *state.Budget
	// Wall is the clock, ms. It is asked at most once per loop of the worker.
	Wall func() int64
	// OnDecode, OnProcess and OnProduce hold for nodes without a policy of their own. Unset means Stop.
	OnDecode, OnProcess, OnProduce Policy
	MaxIdle                        int64 // ms to wait for an empty input; negative never waits
	MaxAhead                       int64 // ms past the wall clock that event times may be; 0 takes every time
	CloseIdle                      int64 // ms without records after which the wall clock moves stream time; 0 never
	TransactionalID                string
	// Globals are the open global tables of the process, by the names of their stores.
	Globals map[string]*Global
	// Dropped is told of every dropped record; may be nil.
	Dropped func(Drop)
	// Missed is told of every record for which a join finds nothing, with the cause; may be nil.
	Missed func(Drop)
	// DeadLettered is told of every record sent to a dead letter topic; may be nil.
	DeadLettered func(node string, err error)
}

// Sink is where a task's records go. Emit copies what it keeps. Partition -1 means any: the key is null. An error means that this one
// record cannot be written; the policy for such records decides.
type Sink interface {
	Emit(topic string, partition int32, key, value []byte, at int64, headers []Header) error
}

// Task is a sub-topology on one partition. It belongs to one goroutine.
type Task struct {
	ID        string
	Sub       *Sub
	Partition int32

	env    Env
	stores []state.Live
	byName map[string]int

	queues     []queue
	inputs     []string // their topics
	placements []*Placement
	streamTime int64
	expiry     []expiry
	clocks     map[string]*int64
	timers     []*Timer
	due        int64 // earliest stream time at which a timer is due
	paces      []*pace
	idle       idle
	beforeCut  []func()
	closers    []func() error
	expired    []func(key []byte)
	globals    []*GlobalReader

	rec      Rec
	at       *Node // whose user code runs, for errors
	counters map[counterKey]*Counter
	misses   map[missKey]*Misses
	bound    []boundSerde
	moved    bool  // something was done since the last commit
	skipped  bool  // an input begins behind records that are not read, which no commit says yet
	cut      bool  // a processor asked for a commit
	wiring   bool  // operators are being made
	saved    times // as of the last commit
	failed   error
}

// expiry is when a store with a TTL must next look for expired entries.
type expiry struct {
	slot         int
	bucket, next int64
}

// times is what a rewind goes back to.
type times struct {
	stream     int64
	partitions []int64
	next       []int64
	clocks     map[string]int64
}

// Open makes a task with its stores and operators. The stores are as of their backends' last checkpoint.
func Open(sub *Sub, partition int32, env Env) (*Task, error) {
	t := &Task{ID: sub.TaskID(partition), Sub: sub, Partition: partition, env: env, streamTime: -1,
		byName: make(map[string]int), clocks: make(map[string]*int64), counters: make(map[counterKey]*Counter), misses: make(map[missKey]*Misses),
		expired: make([]func([]byte), len(sub.Stores))}
	for slot, d := range sub.Stores {
		backend := env.Disk
		if d.InMemory {
			backend = env.Memory
		}
		t.byName[d.Name] = slot
		live, err := d.OpenAt(env.Context, LogTopic(env.App, d), state.Env{
			Slot: uint16(2 * slot), Backend: backend, Budget: env.Budget, Now: t.now, StreamTime: func() int64 { return t.streamTime },
			Drop: func(reason string) { t.Drop(t.Counter(t.at, reason), &t.rec) },
			Deleted: func(key []byte) {
				if f := t.expired[slot]; f != nil {
					f(key)
				}
			},
		})
		if err != nil {
			return nil, fmt.Errorf("task %s: store %q: %w", t.ID, d.Name, err)
		}
		t.stores = append(t.stores, live)
		if d.TTL > 0 {
			t.expiry = append(t.expiry, expiry{slot: slot, bucket: max(1, d.TTL/8)})
		}
	}
	t.queues = make([]queue, len(sub.Inputs))
	for i := range t.queues {
		t.queues[i] = queue{partitionTime: -1, idleSince: -1}
		t.inputs = append(t.inputs, sub.Inputs[i].Full(env.App))
		t.placements = append(t.placements, nil)
		if in := sub.Inputs[i]; in.Placed {
			t.placements[i] = &Placement{Topic: t.inputs[i], Own: in.Own}
		}
	}
	t.saved = t.times()
	if err := t.wire(); err != nil {
		return nil, err
	}
	return t, nil
}

// now is the time that a write to a store gets.
func (t *Task) now() int64 {
	if t.rec.Input < 0 {
		return max(t.streamTime, 0)
	}
	return t.rec.Time
}

// wire makes the operators anew.
func (t *Task) wire() (err error) {
	defer t.caught("open", &err)
	t.timers, t.beforeCut, t.closers, t.due, t.paces = nil, nil, nil, noTimer, nil
	t.idle.since = -1
	clear(t.expired)
	t.letGo()
	t.rec, t.at = Rec{Input: -1}, nil
	t.wiring = true
	defer func() { t.wiring = false }()
	if err := t.Sub.Build(t); err != nil {
		t.failed = fmt.Errorf("task %s: %w", t.ID, err)
		return t.failed
	}
	t.arrange()
	for i := range t.queues {
		if t.queues[i].reader == nil {
			t.failed = fmt.Errorf("task %s: nothing reads input %s", t.ID, t.Sub.Inputs[i].Name)
			return t.failed
		}
	}
	return nil
}

// LogTopic is the topic that a store's records are in: its changelog, or the user's topic that serves as one.
func LogTopic(app string, d *state.Decl) string {
	if d.Source != "" {
		return d.Source
	}
	return fmt.Sprintf("%s-%s-changelog", app, d.Full())
}

// boundSerde is a serde that was told its topic. It is kept, as operators are made anew after each rewind.
type boundSerde struct {
	topic    string
	key      bool
	from, to any
}

// Bound is what Bind returned when it was called before for a topic and a serde that is the same; else Bind is called.
func (t *Task) Bound(topic string, key bool, s any, same func(a, b any) bool, bind func() (any, error)) (any, error) {
	for _, b := range t.bound {
		if b.topic == topic && b.key == key && same(b.from, s) {
			return b.to, nil
		}
	}
	to, err := bind()
	if err != nil {
		return nil, &state.Unbound{Topic: topic, Key: key, Err: err}
	}
	t.bound = append(t.bound, boundSerde{topic, key, s, to})
	return to, nil
}

// Env is what the task got when it was opened.
func (t *Task) Env() *Env { return &t.env }

// Store is an open store.
func (t *Task) Store(d state.Declared) state.Live { return t.StoreNamed(state.Of(d).Name) }

// StoreNamed is the open store of that name; nil if the sub-topology has none.
func (t *Task) StoreNamed(name string) state.Live {
	if slot, ok := t.byName[name]; ok {
		return t.stores[slot]
	}
	return nil
}

// Stores are the open stores, by slot.
func (t *Task) Stores() []state.Live { return t.stores }

// Read registers the reader of an input. Build calls it once per input.
func (t *Task) Read(input int, r Reader) { t.queues[input].reader = r }

// OnExpired registers what is called with the encoded key of every entry that a store's bound removes.
func (t *Task) OnExpired(store string, f func(key []byte)) { t.expired[t.byName[store]] = f }

// BeforeCommit registers what is called before each commit, in order of registration: it may write stores and send records.
func (t *Task) BeforeCommit(f func()) { t.beforeCut = append(t.beforeCut, f) }

// OnClose registers what is called when the task is closed or its operators are made anew.
func (t *Task) OnClose(f func() error) { t.closers = append(t.closers, f) }

// Clock is a node's own stream time: the largest event time that the node has seen, ms, -1 before the first. It is committed with the
// offsets and survives restarts and moves. name must be unique in the sub-topology.
func (t *Task) Clock(name string) *int64 {
	c := t.clocks[name]
	if c == nil {
		c = new(int64)
		*c = -1
		t.clocks[name] = c
	}
	return c
}

// Topic is the topic in whose turn a record is; empty in a timer.
func (t *Task) Topic(r *Rec) string {
	if r.Input < 0 {
		return ""
	}
	return t.inputs[r.Input]
}

// StreamTime is the largest event time the task has taken in, ms; -1 before the first record.
func (t *Task) StreamTime() int64 { return t.streamTime }

// Emit sends a record to a topic.
func (t *Task) Emit(topic string, partition int32, key, value []byte, at int64, headers []Header) {
	t.moved = true
	if err := t.env.Output.Emit(topic, partition, key, value, at, headers); err != nil {
		t.Fail("produce", t.writer(topic), &t.rec, err)
	}
}

// writer is the node that writes a topic; that whose code runs if none is declared for it.
func (t *Task) writer(topic string) *Node {
	for _, out := range t.Sub.Outputs {
		if out.Full(t.env.App) == topic {
			return out.Node
		}
	}
	return t.at
}

// RequestCommit asks for a commit after the record being processed.
func (t *Task) RequestCommit() { t.cut = true }

// WantsCommit says whether a processor asked for a commit since the last one.
func (t *Task) WantsCommit() bool { return t.cut }

// Close ends the operators and drops what is not committed. What is committed can still be frozen. The backends are closed by their owner.
func (t *Task) Close() (err error) {
	err = t.unwire()
	defer t.caught("close", &err)
	t.letGo()
	for _, s := range t.stores {
		s.Rollback()
	}
	return err
}

// Release gives the memory of the stores back to the budget. It is the last call, after Close and the checkpoint that may follow it.
func (t *Task) Release() {
	t.letGo()
	for _, s := range t.stores {
		s.Close()
	}
}

// unwire calls all closers, whatever becomes of the ones before, and returns the first error.
func (t *Task) unwire() (first error) {
	closers := t.closers
	t.closers = nil
	for _, f := range closers {
		if err := t.closeOne(f); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (t *Task) closeOne(f func() error) (err error) {
	defer t.caught("close", &err)
	if err := f(); err != nil {
		return fmt.Errorf("task %s: close: %w", t.ID, err)
	}
	return nil
}
