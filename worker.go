package kolk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kolkstreams/kolk/exactlyonce"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/twmb/franz-go/pkg/kgo"
)

// worker is a goroutine that owns some tasks and one client: it consumes their partitions directly and produces in transactions of its own.
// Nothing but functions is handed to it by other goroutines; between two records it looks whether there are any.
type worker struct {
	in     *instance
	index  int
	driver *exactlyonce.Driver
	sink   *sink
	ctx    context.Context // ends when the worker must give up
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	commands []func()
	poll     context.CancelFunc // ends the poll that waits
	awake    bool               // somebody woke the worker since it last looked
	ended    bool

	interrupt atomic.Bool // something other than records wants attention
	timer     *time.Timer // sets interrupt when a commit is due
	rang      atomic.Int64

	quit    bool
	refused bool
	silent  time.Time // since when the group is waited for, which has refused a commit; zero if it is not
	stuck   bool      // no task could take a record, though some have
	paused  map[route]bool
	tasks   []*task
	routes  map[string]map[int32]route
	buffer  []engine.Record
	now     atomic.Int64 // the clock, ms, read once a loop; openers ask for it too
	born    time.Time    // what uptime counts from
	began   time.Time    // of what the next commit ends
	told    time.Time    // when Health was last told
	news    bool         // there was a commit since
	records int64
	slow    slowRecord
	rolled  error // what went wrong in a rollback
	replays int
	asking  bool      // the brokers are being asked whether idle tasks are at the ends of their inputs
	askFrom time.Time // not before
}

// route says where a partition's records go.
type route struct {
	task  *task
	input int
}

// slowRecord is the record on which a transaction timed out last.
type slowRecord struct {
	task   string
	topic  string
	offset int64
	times  int
}

const (
	pollRecords  = 5000
	pauseAbove   = 10000    // records that wait in a task's queue; fetching goes on below half of it
	pauseBytes   = 16 << 20 // the same in bytes
	runLength    = 256      // records of one task before the next one's turn
	reportEvery  = time.Second
	tellEvery    = 250 * time.Millisecond // Health
	longestSleep = time.Second
)

func newWorker(in *instance, index int) (*worker, error) {
	w := &worker{in: in, index: index, done: make(chan struct{}), routes: make(map[string]map[int32]route), paused: make(map[route]bool), born: time.Now(), began: time.Now()}
	w.now.Store(time.Now().UnixMilli())
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.timer = time.AfterFunc(in.c.CommitEvery, func() {
		w.rang.Store(time.Now().UnixMilli())
		w.interrupt.Store(true)
	})
	driver, err := exactlyonce.Open(in.ctx, exactlyonce.Config{
		Group: in.c.Application, InstanceID: in.c.InstanceID, TransactionalID: w.transactionalID(), Guarantee: exactlyonce.Guarantee(in.c.Guarantee),
		Timeout: in.c.TransactionTimeout, Client: in.workerOptions(index), Identity: w.identity, TopicID: in.topics.id, Logger: in.log.With("worker", index),
	}, w)
	if err != nil {
		w.timer.Stop()
		w.cancel()
		return nil, fmt.Errorf("worker %d: %w", index, err)
	}
	w.driver = driver
	w.sink = &sink{ctx: w.ctx, driver: driver, topics: in.topics, tooLarge: make(map[string]int), turn: rand.Int32()}
	go w.run()
	return w, nil
}

// identity is the guard of the commit cycle: the instance's membership, as long as no task is held that it does not cover.
func (w *worker) identity() (exactlyonce.Identity, bool) {
	id, ok := w.in.identity()
	for _, t := range w.tasks {
		ok = ok && !t.gone.Load()
	}
	return id, ok
}

// transactionalID is the same after a restart, so that it ends what the former process left open.
func (w *worker) transactionalID() string {
	return fmt.Sprintf("%s-%s-%d", w.in.c.Application, w.in.dir.process, w.index)
}

// wall is the clock as of this loop, ms.
func (w *worker) wall() int64 { return w.now.Load() }

// post hands f to the worker's goroutine. It returns false if that has ended.
func (w *worker) post(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return false
	}
	w.commands = append(w.commands, f)
	w.wakeLocked()
	return true
}

// do is post that waits, until ctx ends at the latest: user code that hangs must not hang others.
func (w *worker) do(ctx context.Context, f func()) {
	ran := make(chan struct{})
	if !w.post(func() { defer close(ran); f() }) {
		return
	}
	select {
	case <-ran:
	case <-w.done:
	case <-ctx.Done():
	}
}

// wake makes the worker look around.
func (w *worker) wake() {
	w.mu.Lock()
	w.wakeLocked()
	w.mu.Unlock()
}

func (w *worker) wakeLocked() {
	w.awake = true
	w.interrupt.Store(true)
	if w.poll != nil {
		w.poll()
	}
}

func (w *worker) take() []func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.commands
	w.commands, w.awake = nil, false
	return c
}

func (w *worker) run() {
	defer func() {
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
		w.timer.Stop()
		close(w.done)
	}()
	for {
		w.interrupt.Store(false)
		for _, f := range w.take() {
			f()
		}
		if w.quit || w.ctx.Err() != nil {
			return
		}
		w.now.Store(time.Now().UnixMilli())
		w.settle()
		w.punctuate()
		w.askIdle()
		if w.commitDue() {
			w.commit()
		}
		w.askGroup()
		w.report(false)
		w.fetch()
		w.process()
	}
}

// settle ends checkpoints that were applied meanwhile, and begins those that are due.
func (w *worker) settle() {
	for _, t := range w.tasks {
		if err := t.settle(false); err != nil {
			w.in.fail(fmt.Errorf("task %s: %w", t.id(), diskError(err)))
			return
		}
	}
}

func (w *worker) punctuate() {
	if w.refused {
		return
	}
	for _, t := range w.tasks {
		if t.NextWall() > w.wall() {
			continue
		}
		if err := t.Punctuate(w.wall()); err != nil {
			w.failed(t, err)
			return
		}
	}
}

// moved says whether there is anything to commit.
func (w *worker) moved() bool {
	for _, t := range w.tasks {
		if t.Moved() {
			return true
		}
	}
	return false
}

func (w *worker) commitDue() bool {
	if w.refused {
		return false
	}
	for _, t := range w.tasks {
		if t.WantsCommit() {
			return true
		}
	}
	if time.Since(w.began) >= w.in.c.CommitEvery {
		return true
	}
	return w.full()
}

// full says that more is staged than the memory budget gives this worker.
func (w *worker) full() bool {
	var dirty int64
	for _, t := range w.tasks {
		d, _, _ := t.Staged()
		dirty += d
	}
	return dirty > w.in.stagingLimit
}

// fetch polls the client, and waits as long as there is nothing else to do.
func (w *worker) fetch() {
	wait := w.idle()
	var ctx context.Context
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(w.ctx, wait)
		w.mu.Lock()
		w.poll = cancel
		if w.awake {
			cancel()
		}
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			w.poll = nil
			w.mu.Unlock()
			cancel()
		}()
	}
	w.add(w.driver.Client().PollRecords(ctx, pollRecords))
	w.now.Store(time.Now().UnixMilli())
}

// idle is how long a poll may wait; 0 if records wait to be processed.
func (w *worker) idle() time.Duration {
	if w.refused || len(w.tasks) == 0 {
		return longestSleep
	}
	wait := longestSleep
	if w.moved() || !w.driver.OpenSince().IsZero() {
		wait = min(wait, w.in.c.CommitEvery-time.Since(w.began))
	}
	if w.news {
		wait = min(wait, tellEvery-time.Since(w.told))
	}
	wait = w.untilIdle(wait)
	for _, t := range w.tasks {
		if next := t.NextWall(); next < w.wall()+wait.Milliseconds() {
			wait = time.Duration(next-w.wall()) * time.Millisecond
		}
		for _, i := range t.parts {
			if t.Buffered(i) > 0 {
				if !w.stuck {
					return 0
				}
				wait = min(wait, max(time.Millisecond, min(w.in.c.MaxIdle, 20*time.Millisecond)))
			}
		}
	}
	return max(wait, 0)
}

// add queues what was fetched.
func (w *worker) add(fs kgo.Fetches) {
	fs.EachPartition(func(p kgo.FetchTopicPartition) {
		r, ok := w.routes[p.Topic][p.Partition]
		if p.Err != nil {
			w.fetchFailed(r, ok, p)
		}
		if !ok || len(p.Records) == 0 {
			return
		}
		recs := w.buffer[:0]
		for _, k := range p.Records {
			if k.Attrs.IsControl() {
				continue
			}
			e := engine.Record{Key: k.Key, Value: k.Value, Time: k.Timestamp.UnixMilli(), Offset: k.Offset}
			for _, h := range k.Headers {
				e.Headers = append(e.Headers, engine.Header{Key: h.Key, Value: h.Value})
			}
			recs = append(recs, e)
		}
		position := p.Records[len(p.Records)-1].Offset + 1
		r.task.Add(r.input, recs, position, p.LastStableOffset)
		w.stuck = false
		clear(recs)
		w.buffer = recs
		if r.task.Buffered(r.input) > pauseAbove || r.task.BufferedBytes(r.input) > pauseBytes {
			w.driver.Client().PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
			w.paused[r] = true
		}
	})
}

// fetchFailed looks at an error of fetching. The client retries what passes by itself; what is left is a person's to decide.
func (w *worker) fetchFailed(r route, ours bool, p kgo.FetchTopicPartition) {
	if !ours || errors.Is(p.Err, context.Canceled) || errors.Is(p.Err, context.DeadlineExceeded) || errors.Is(p.Err, kgo.ErrClientClosed) {
		return
	}
	w.in.fetchFailed(r.task, r.input, p.Partition, p.Err)
}

// process takes records through the tasks, in turns, until there are none, or something else wants attention.
func (w *worker) process() {
	if w.refused {
		return
	}
	w.stuck = true
	wall := w.wall()
	for progress := true; progress; {
		progress = false
		for _, t := range w.tasks {
			for range runLength {
				did, err := t.Process(wall)
				if err != nil {
					w.failed(t, err)
					return
				}
				if !did {
					break
				}
				progress, w.stuck = true, false
				w.records++
				if t.WantsCommit() {
					w.interrupt.Store(true)
				}
				if w.interrupt.Load() {
					w.noteSlow(t)
					return
				}
			}
			w.resume(t)
			if progress && (w.driver.Err() != nil || w.full()) {
				w.began = time.Time{} // commit, or abort, now
				return
			}
		}
	}
}

// resume goes on fetching what was paused for a queue that has become short.
func (w *worker) resume(t *task) {
	for _, i := range t.parts {
		r := route{t, i}
		if w.paused[r] && t.Buffered(i) < pauseAbove/2 && t.BufferedBytes(i) < pauseBytes/2 {
			delete(w.paused, r)
			w.driver.Client().ResumeFetchPartitions(map[string][]int32{t.input(i): {t.key.Partition}})
		}
	}
}

// failed deals with a task that could not go on: nothing of the transaction remains, and the application stops.
func (w *worker) failed(t *task, err error) {
	w.abort()
	if isBroken(err) {
		err = diskError(err)
	}
	w.in.fail(err)
	w.refused = true // until the application has stopped
}

// consume fetches a task's inputs from where it stands.
func (w *worker) consume(t *task) {
	add := make(map[string]map[int32]kgo.Offset)
	for _, i := range t.parts {
		add[t.input(i)] = map[int32]kgo.Offset{t.key.Partition: kgo.NewOffset().At(t.Position(i))}
	}
	w.driver.Client().AddConsumePartitions(add)
}

// forget ends the fetching of a task's inputs.
func (w *worker) forget(t *task) {
	remove := make(map[string][]int32)
	for _, i := range t.parts {
		remove[t.input(i)] = append(remove[t.input(i)], t.key.Partition)
		if w.paused[route{t, i}] {
			delete(w.paused, route{t, i})
			w.driver.Client().ResumeFetchPartitions(map[string][]int32{t.input(i): {t.key.Partition}})
		}
	}
	w.driver.Client().RemoveConsumePartitions(remove)
}

// start takes over a task that was opened.
func (w *worker) start(t *task) {
	w.tasks = append(w.tasks, t)
	for _, i := range t.parts {
		byPartition := w.routes[t.input(i)]
		if byPartition == nil {
			byPartition = make(map[int32]route)
			w.routes[t.input(i)] = byPartition
		}
		byPartition[t.key.Partition] = route{t, i}
	}
	w.consume(t)
	w.report(true)
}

// drop takes a task from the worker, without a commit.
func (w *worker) drop(t *task) {
	for i, other := range w.tasks {
		if other == t {
			w.tasks = append(w.tasks[:i:i], w.tasks[i+1:]...)
			w.forget(t)
			for _, in := range t.parts {
				delete(w.routes[t.input(in)], t.key.Partition)
			}
			break
		}
	}
	t.shut()
}

// report tells Health, about four times a second.
func (w *worker) report(now bool) {
	if !now && time.Since(w.told) < tellEvery {
		return
	}
	w.told, w.news = time.Now(), false
	for _, t := range w.tasks {
		w.in.status.report(t.health(), t.Placements())
	}
	w.in.status.count(0, w.records)
	w.records = 0
}
