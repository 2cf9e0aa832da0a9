package kolk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/exactlyonce"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/rebalance"
	"github.com/kolkstreams/kolk/store/badgerstore"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// instance is an App that runs: its clients, its membership and its workers.
type instance struct {
	c      *Config
	graph  *engine.Graph
	log    *slog.Logger
	status *status
	ctx    context.Context // ends when the instance has failed or is about to stop
	cancel context.CancelFunc
	fatal  chan error // the first error that ends the instance

	dir      *stateDir
	client   *kgo.Client // shared: admin requests and offsets
	adm      *kadm.Client
	cluster  string
	topics   *topics
	reader   *changelog.Reader
	fencer   *exactlyonce.Fencer
	budget   *state.Budget
	workers  []*worker
	group    *kgo.Client
	balancer *rebalance.Balancer
	pulse    *pulse
	purger   *purger // of repartition topics
	expired  *purger // of changelogs
	retainer *retainer
	globals  *globals // nil if there are none

	// What one worker may stage for a commit, and one task may keep committed in memory, in bytes.
	stagingLimit, pendingLimit, heldLimit int64

	onDecode, onProcess, onProduce engine.Policy

	mu      sync.Mutex
	member  string // the member id under which the tasks were assigned
	valid   bool   // the membership holds
	parts   map[string]map[int32]bool
	tasks   map[rebalance.Task]*task
	reaches map[rebalance.Task]int64           // local state of tasks that do not run here
	leaving map[rebalance.Task]<-chan struct{} // of tasks that were dropped: closed when they are
	openers sync.WaitGroup
	ending  bool          // no task is opened any more
	ended   chan struct{} // closed when the tasks are closed, or have had their time for it
}

// How long the first answer of a broker may take.
const connectWithin = time.Minute

// start connects, checks what is there against the topology, and joins the group.
func start(ctx context.Context, a *App) (_ *instance, err error) {
	c := &a.config
	in := &instance{c: c, graph: a.graph, log: c.Logger, status: a.status, fatal: make(chan error, 1),
		parts: make(map[string]map[int32]bool), tasks: make(map[rebalance.Task]*task), reaches: make(map[rebalance.Task]int64),
		leaving: make(map[rebalance.Task]<-chan struct{}), ended: make(chan struct{}), purger: newPurger(), expired: newPurger(), retainer: newRetainer(),
		onDecode: engine.PolicyOf(c.OnDecodeError), onProcess: engine.PolicyOf(c.OnProcessError), onProduce: engine.PolicyOf(c.OnProduceError)}
	in.ctx, in.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			in.release()
		}
	}()
	if in.dir, err = openStateDir(c); err != nil {
		return nil, err
	}
	if in.client, err = kgo.NewClient(in.options("admin")...); err != nil {
		return nil, fmt.Errorf("kolk: make a client: %w", err)
	}
	in.adm = kadm.NewClient(in.client)
	if err := in.connect(); err != nil {
		return nil, err
	}
	err = in.patiently(in.ctx, "topics", func() (err error) {
		in.topics, err = a.find(in.ctx, in.adm, in.retainer)
		return err
	})
	if err != nil {
		return nil, err
	}
	in.fencer = &exactlyonce.Fencer{Client: in.client, Prefix: c.Application + "-", Timeout: c.TransactionTimeout}
	if in.reader, err = changelog.NewReader(changelog.Config{Opts: in.options("restore"), Stalled: in.stalled}); err != nil {
		return nil, err
	}
	in.share()
	if err := in.openGlobals(); err != nil {
		return nil, err
	}
	if err := in.openWorkers(); err != nil { // which ends what a former process with this StateDir left open
		return nil, err
	}
	if err := in.patiently(in.ctx, "offsets", func() error { return in.checkOffsets(in.ctx) }); err != nil {
		return nil, err
	}
	if err := in.join(); err != nil {
		return nil, err
	}
	go in.purge()
	return in, nil
}

// options are those of every client.
func (in *instance) options(name string) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(in.c.Brokers...),
		kgo.ClientID(in.c.Application + "-" + in.dir.process + "-" + name),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.MetadataMaxAge(time.Minute),
		kgo.RetryBackoffFn(func(failures int) time.Duration {
			return min(20*time.Millisecond<<min(failures, 10), time.Second)
		}),
		kgo.WithLogger(clientLogger{in.log.With("client", name)}),
	}
	if in.c.Rack != "" {
		opts = append(opts, kgo.Rack(in.c.Rack))
	}
	return append(opts, in.c.Kafka...)
}

// workerOptions are those of a worker's consumer. Control records are kept, because they move the position.
func (in *instance) workerOptions(index int) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.FetchMaxBytes(8 << 20), kgo.FetchMaxPartitionBytes(1 << 20), kgo.FetchMaxWait(500 * time.Millisecond),
	}, append(in.options(fmt.Sprintf("worker-%d", index)),
		kgo.MetadataMinAge(20*time.Millisecond), // also the wait for markers of the last transaction
		kgo.ProducerBatchMaxBytesFn(in.topics.batchLimit),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepControlRecords())...)
}

// connect waits for the first answer.
func (in *instance) connect() error {
	ctx, cancel := context.WithTimeout(in.ctx, connectWithin)
	defer cancel()
	for logged := false; ; {
		meta, err := in.adm.BrokerMetadata(ctx)
		if err == nil {
			in.cluster = meta.Cluster
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: tried %v for %v, last: %w; check Config.Brokers, and TLS and SASL options in Config.Kafka", ErrUnreachable, in.c.Brokers, connectWithin, err)
		}
		if !logged {
			in.log.Warn("no broker answers yet", "brokers", in.c.Brokers, "error", err)
			logged = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// patiently calls f again while its error is one that passes: a new cluster takes a while to have a group coordinator, and brokers restart.
func (in *instance) patiently(ctx context.Context, what string, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	for {
		err := f()
		if err == nil || !passes(err) {
			return err
		}
		in.log.Debug("not available yet", "what", what, "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// share divides the memory budget. A quarter is for what stores keep in memory, as Go's collector lets a heap grow to twice what is in use; of that a quarter
// for what waits for a checkpoint. Another quarter is for the memtables of the backends, for which the same holds.
func (in *instance) share() {
	in.budget = state.NewBudget(in.c.Memory / 4)
	in.stagingLimit = max(1<<20, in.c.Memory/8/int64(in.c.Workers))
	var tasks int64
	for _, s := range in.graph.Subs {
		if s.Stateful() {
			tasks += int64(s.Tasks(in.c.Application, in.topics.counts))
		}
	}
	in.pendingLimit = max(1<<20, in.c.Memory/8/max(1, tasks))
	in.heldLimit = in.budget.Limit() / 4 / max(1, tasks)
}

func (in *instance) openWorkers() error {
	for i := range in.c.Workers {
		w, err := newWorker(in, i)
		if err != nil {
			return err
		}
		in.workers = append(in.workers, w)
	}
	return nil
}

// fail ends the instance with its first error.
func (in *instance) fail(err error) {
	if err == nil {
		return
	}
	select {
	case in.fatal <- err:
		in.log.Error("stopping", "error", err)
	default:
		in.log.Error("further error while stopping", "error", err)
	}
}

// stop ends the instance: with commit it commits what is done and hands the tasks over, else it drops what is not committed.
func (in *instance) stop(commit bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), in.c.CloseTimeout)
	defer cancel()
	in.cancel() // ends the openers
	in.mu.Lock()
	in.ending = true
	in.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in.openers.Wait()
		var all sync.WaitGroup
		for _, w := range in.workers {
			all.Go(func() { w.post(func() { w.finish(ctx, commit) }); <-w.done })
		}
		all.Wait()
		in.mu.Lock()
		defer in.mu.Unlock()
		for _, t := range in.tasks {
			t.shut() // those that no worker had taken over yet
		}
	}()
	var late error
	select {
	case <-ended:
	case <-ctx.Done():
		late = fmt.Errorf("kolk: not everything was committed and closed within Config.CloseTimeout, %v; what is missing is processed again at the next start", in.c.CloseTimeout)
		for _, w := range in.workers {
			w.cancel()
		}
		in.mu.Lock()
		for _, t := range in.tasks {
			t.cancel()
		}
		in.mu.Unlock()
		select { // user code that hangs must not keep Run from returning
		case <-ended:
		case <-time.After(5 * time.Second):
		}
	}
	close(in.ended)
	in.release()
	return late
}

// release closes what the instance holds: the membership first, so that others can take over at once.
func (in *instance) release() {
	in.cancel()
	if in.group != nil {
		in.group.Close()
	}
	for _, w := range in.workers {
		w.cancel()
		w.wake()
	}
	for _, w := range in.workers {
		select {
		case <-w.done:
			w.driver.Close()
		case <-time.After(5 * time.Second):
			in.log.Error("a worker does not end: user code does not return", "worker", w.index)
			go func() {
				<-w.done
				w.driver.Close()
			}()
		}
	}
	in.globals.close()
	if in.reader != nil {
		in.reader.Close()
	}
	if in.client != nil {
		in.client.Close()
	}
	if in.dir != nil {
		in.dir.close()
	}
}

// stalled is called while a restore stands still: a dead instance's transaction may be open on the changelog.
func (in *instance) stalled(ctx context.Context, topic string, partition int32, position, end int64) {
	fenced, err := in.fencer.Fence(ctx, []exactlyonce.TopicPartition{{Topic: topic, Partition: partition}})
	if len(fenced) > 0 || err != nil {
		in.log.Info("restore waits for an open transaction", "topic", topic, "partition", partition, "position", position, "end", end, "fenced", fenced, "error", err)
	}
}

// fetchFailed decides about an input that cannot be read.
func (in *instance) fetchFailed(t *task, input int, partition int32, err error) {
	topic := t.input(input)
	switch {
	case isOutOfRange(err):
		in.fail(fmt.Errorf("task %s: input %s/%d: the next record to read, %d, does not exist on the broker: it was deleted before it was read, or the topic was made anew (%w); set the group's offset to where to go on, and start once with Config.AllowMovedOffsets",
			t.id(), topic, partition, t.Position(input), err))
	case isGone(err):
		in.fail(&TopicError{Topic: topic, Problem: fmt.Sprintf("it was deleted while task %s reads it (%v)", t.id(), err), Remedy: "create it again; if its records are lost, reset the application"})
	case isDenied(err):
		in.fail(&TopicError{Topic: topic, Problem: fmt.Sprintf("task %s may not read it (%v)", t.id(), err), Remedy: "grant READ on the topic"})
	default:
		in.log.Warn("fetch failed; the client tries again", "task", t.id(), "topic", topic, "partition", partition, "error", err)
	}
}

// diskError adds what to do to an error of a local store.
func diskError(err error) error {
	if errors.Is(err, badgerstore.ErrDiskFull) {
		return fmt.Errorf("%w: %w; free space, or give a larger disk: nothing is lost, the state is read from the changelog", ErrStateDir, err)
	}
	return fmt.Errorf("%w: %w; nothing is lost: remove the folder, and the state is read from the changelog", ErrStateDir, err)
}
