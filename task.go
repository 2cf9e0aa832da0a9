package kolk

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/exactlyonce"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/rebalance"
	"github.com/twmb/franz-go/pkg/kgo"
)

// task is an engine task with what connects it to Kafka and to the disk. After it was opened it belongs to its worker's goroutine.
type task struct {
	*engine.Task
	key    rebalance.Task
	sub    *engine.Sub
	worker *worker
	ctx    context.Context // ends when the task is closed; while it is being opened, when it is to be dropped
	cancel context.CancelFunc
	after  <-chan struct{} // closed when the same task has let go of its folder, which it may have had here before; nil if it has not
	opened chan struct{}   // closed when the opener has ended
	ended  chan struct{}   // closed when everything is closed
	gone   atomic.Bool     // it is not this member's any more: nothing may be committed with it
	orphan atomic.Bool     // its opener closes it, because nobody waits for that

	parts  []int         // the inputs that have this partition
	disk   state.Backend // nil if no store is on disk
	memory state.Backend
	prints map[string]string // by store, what its state looks like
	hashes map[string]uint64

	next       []int64       // by store: the first changelog offset that is not in the store
	staged     []*kgo.Record // by store: the last record of this commit
	pending    chan error    // of the checkpoint that is being applied; nil if there is none
	freezing   *engine.Checkpoint
	rows       int // of that checkpoint
	froze      time.Time
	dated      time.Time // when the last checkpoint says it was made
	applied    []int64   // next, as of the last checkpoint
	durable    []int64   // next, as of the last checkpoint that is finished
	closed     atomic.Bool
	reach      atomic.Int64 // how many changelog records the local store holds, for the assignment
	closedIdle time.Time    // when the wall clock last moved stream time
}

func newTask(w *worker, key rebalance.Task, sub *engine.Sub) *task {
	ctx, cancel := context.WithCancel(context.Background())
	t := &task{key: key, sub: sub, worker: w, ctx: ctx, cancel: cancel, opened: make(chan struct{}), ended: make(chan struct{}), froze: time.Now(),
		prints: make(map[string]string), hashes: make(map[string]uint64)}
	for i, in := range sub.Inputs {
		if key.Partition < w.in.topics.count(in.Full(w.in.c.Application)) {
			t.parts = append(t.parts, i)
		}
	}
	for _, d := range sub.Stores {
		t.prints[d.Full()] = engine.Print(d)
		t.hashes[d.Full()] = engine.Hash(t.prints[d.Full()])
		if d.Source == "" {
			t.hashes[d.Full()] |= engine.LogHash(w.in.topics.id(t.log(d)))
		}
	}
	t.next = make([]int64, len(sub.Stores))
	t.applied = make([]int64, len(sub.Stores))
	t.durable = make([]int64, len(sub.Stores))
	t.staged = make([]*kgo.Record, len(sub.Stores))
	return t
}

func (t *task) id() string { return t.key.String() }

// input is the full name of an input topic.
func (t *task) input(i int) string { return t.sub.Inputs[i].Full(t.worker.in.c.Application) }

// log is the topic that a store is restored from.
func (t *task) log(d *state.Decl) string {
	if d.Source != "" {
		return d.Source
	}
	return changelog.Changelog(t.worker.in.c.Application, d.Name, d.Version)
}

// saved describes the task's stores as of next, for a checkpoint.
func (t *task) saved(next []int64) ([]byte, error) {
	in := t.worker.in
	s := engine.Saved{Cluster: in.cluster, At: time.Now().UnixMilli(), Stores: make(map[string]engine.SavedPart), Inputs: make(map[string]string), Print: t.prints}
	for slot, d := range t.sub.Stores {
		if !d.InMemory {
			s.Stores[d.Full()] = engine.SavedPart{TopicID: topicID(in.topics.id(t.log(d))), Next: next[slot]}
		}
	}
	for _, i := range t.parts {
		s.Inputs[t.input(i)] = topicID(in.topics.id(t.input(i)))
	}
	data, err := s.Encode()
	if err != nil {
		return nil, fmt.Errorf("task %s: describe the checkpoint: %w", t.id(), err)
	}
	return data, nil
}

func topicID(id [16]byte) string { return hex.EncodeToString(id[:]) }

// stage hands the dirty entries of all stores to the producer, as changelog records.
func (t *task) stage(produce func(*kgo.Record)) error {
	slot := make(map[*state.Decl]int, len(t.sub.Stores))
	for i, d := range t.sub.Stores {
		slot[d] = i
	}
	out := t.worker.sink
	return t.Flush(func(d *state.Decl, key, value []byte, at int64) error {
		if d.Source != "" {
			return nil // its records are in the source topic already
		}
		r := out.record(t.log(d), t.key.Partition, key, value, at, engine.LogHeaders(d, value))
		t.staged[slot[d]] = r
		produce(r)
		return nil
	})
}

// offsets are those of the inputs that have this partition.
func (t *task) offsets() []exactlyonce.Offset {
	cuts := t.Cuts(t.hashes)
	out := make([]exactlyonce.Offset, 0, len(t.parts))
	for _, i := range t.parts {
		out = append(out, exactlyonce.Offset{Topic: t.input(i), Partition: t.key.Partition, Next: cuts[i].Next, LeaderEpoch: -1, Metadata: cuts[i].Metadata})
	}
	return out
}

// committed moves the stores' positions past what the transaction wrote.
func (t *task) committed() error {
	for slot, r := range t.staged {
		if r != nil {
			t.next[slot], t.staged[slot] = r.Offset+1, nil
		}
	}
	for slot, d := range t.sub.Stores {
		for i, in := range t.sub.Inputs {
			if d.Source != "" && in.Full(t.worker.in.c.Application) == d.Source {
				t.next[slot] = t.Next(i)
			}
		}
	}
	for _, i := range t.parts {
		if t.sub.Inputs[i].Repartition {
			t.worker.in.purger.committed(t.input(i), t.key.Partition, t.Next(i))
		}
	}
	if err := t.Committed(); err != nil {
		return err
	}
	return t.retained()
}

// rollback goes back to the last commit.
func (t *task) rollback() error {
	clear(t.staged)
	return t.Rewind()
}

// checkpoint begins to write what is committed to the backends, in the background. It does nothing while one is under way.
func (t *task) checkpoint() error {
	if t.pending != nil || len(t.sub.Stores) == 0 {
		return nil
	}
	c, err := t.freeze()
	if err != nil || c == nil {
		return err
	}
	done := make(chan error, 1)
	t.pending, t.freezing = done, c
	go func() {
		began := time.Now()
		err := c.Apply()
		t.worker.in.c.Hooks.checkpoint(t.id(), t.rows, time.Since(began), err)
		done <- err
		t.worker.wake()
	}()
	return nil
}

// freeze takes what is committed; nil if there is nothing since the last checkpoint.
func (t *task) freeze() (*engine.Checkpoint, error) {
	data, err := t.saved(t.next)
	if err != nil {
		return nil, err
	}
	c, err := t.Freeze(data)
	if err != nil {
		return nil, err
	}
	t.froze = time.Now()
	if c.Empty() {
		moved := false
		for slot := range t.next {
			moved = moved || t.next[slot] != t.applied[slot]
		}
		if !moved && !t.ageing() {
			return nil, nil
		}
	}
	t.dated = time.Now()
	t.rows = c.Rows()
	copy(t.applied, t.next)
	return c, nil
}

// ageing says that the last checkpoint is so old that the local store would soon not be trusted, though nothing has changed since: deletes
// are kept on a changelog for a limited time.
func (t *task) ageing() bool {
	life := 24 * time.Hour
	for _, d := range t.sub.Stores {
		life = min(life, t.worker.in.topics.tombstoneLife(t.log(d)))
	}
	return t.disk != nil && time.Since(t.dated) > life/4
}

// settle ends a checkpoint that was applied. With wait it waits for one that is under way.
func (t *task) settle(wait bool) error {
	if t.pending == nil {
		return nil
	}
	var err error
	if wait {
		err = <-t.pending
	} else {
		select {
		case err = <-t.pending:
		default:
			return nil
		}
	}
	c := t.freezing
	t.pending, t.freezing = nil, nil
	if err != nil {
		return err
	}
	copy(t.durable, t.applied)
	t.expired()
	t.worker.in.log.Debug("checkpoint", "task", t.id(), "rows", t.rows)
	t.noteReach()
	return t.Applied(c)
}

func (t *task) noteReach() {
	var reach int64
	for _, n := range t.applied {
		reach += n
	}
	t.reach.Store(reach)
}

// checkpointNow writes what is committed and waits for it.
func (t *task) checkpointNow() error {
	if err := t.settle(true); err != nil {
		return err
	}
	if err := t.checkpoint(); err != nil {
		return err
	}
	return t.settle(true)
}

// shut ends the task. Dirty entries are dropped, committed ones are written; what goes wrong costs a replay of the changelog and is logged.
func (t *task) shut() {
	if t.closed.Swap(true) {
		return
	}
	defer close(t.ended)
	for _, d := range t.sub.Stores {
		t.worker.in.retainer.closed(t.log(d), t.key.Partition)
	}
	log := t.worker.in.log.With("task", t.id())
	clean := true
	if t.Task != nil {
		if err := t.Close(); err != nil {
			log.Warn("processor did not close", "error", err)
		}
		if err := t.checkpointNow(); err != nil {
			clean = false
			log.Warn("checkpoint at close failed; what it lacks will be read from the changelog", "error", err)
		}
		t.Release()
		if t.disk != nil && clean {
			t.worker.in.dir.setReach(t.sub.Owner, t.key.Partition, t.reach.Load())
		}
	}
	t.cancel()
	for _, b := range []state.Backend{t.disk, t.memory} {
		if b != nil {
			if err := b.Close(clean); err != nil {
				log.Warn("store did not close", "error", err)
			}
		}
	}
}

// health is what the worker reports of the task.
func (t *task) health() TaskHealth {
	h := TaskHealth{Task: t.id(), Worker: t.worker.index, ClosedIdle: t.closedIdle, Dropped: make(map[string]int64)}
	for _, i := range t.parts {
		h.Lag += t.Lag(i)
	}
	if at := t.StreamTime(); at >= 0 {
		h.StreamTime = time.UnixMilli(at)
	}
	for slot, s := range t.Stores() {
		st := s.Stats()
		h.Stores = append(h.Stores, StoreHealth{Name: t.sub.Stores[slot].Name, Entries: st.Entries, Bytes: st.Bytes, Pending: st.Pending, Expected: t.sub.Stores[slot].Expected})
	}
	for _, c := range t.Counters() {
		h.Dropped[c.Reason] += c.Count()
	}
	for _, m := range t.AllMisses() {
		h.Misses = append(h.Misses, Misses{Join: m.Node, Cause: processor.Reason(m.Cause), Records: m.Count})
	}
	return h
}

// env is what the engine task gets.
func (t *task) env() engine.Env {
	in := t.worker.in
	c := in.c
	return engine.Env{
		App: c.Application, Context: t.ctx, Log: in.log, Output: t.worker.sink, Partitions: in.topics.partitions,
		Disk: t.disk, Memory: t.memory, Budget: in.budget, Wall: t.worker.wall,
		OnDecode: in.onDecode, OnProcess: in.onProcess, OnProduce: in.onProduce,
		MaxIdle: idleMillis(c.MaxIdle), MaxAhead: c.MaxAhead.Milliseconds(), CloseIdle: c.CloseIdle.Milliseconds(), TransactionalID: t.worker.transactionalID(), Globals: in.globals.byStore(),
		Dropped: dropHook(c.Hooks.OnDrop), Missed: dropHook(c.Hooks.OnMiss), DeadLettered: c.Hooks.OnDeadLetter,
	}
}

func idleMillis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

func dropHook(f func(Drop)) func(engine.Drop) {
	if f == nil {
		return nil
	}
	return func(d engine.Drop) {
		f(Drop{Task: d.Task, Node: d.Node, Reason: processor.Reason(d.Reason), Time: time.UnixMilli(d.Time),
			Source: processor.Metadata{Topic: d.Topic, Partition: d.Partition, Offset: d.Offset}})
	}
}

// isBroken says that a store's backend failed.
func isBroken(err error) bool {
	_, ok := errors.AsType[state.Broken](err)
	return ok
}
