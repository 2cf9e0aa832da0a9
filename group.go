package kolk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kolkstreams/kolk/exactlyonce"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/rebalance"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The group client only keeps the membership: it neither fetches nor produces. Its callbacks put work on the workers' queues. They may run
// longer than a heartbeat; only a second rebalance meanwhile would evict the member, so a revocation has a deadline.
const (
	rebalanceTimeout = 60 * time.Second
	revokeWithin     = 30 * time.Second
)

func (in *instance) join() error {
	var err error
	subs := make([]rebalance.SubTopology, 0, len(in.graph.Subs))
	var topics []string
	for _, s := range in.graph.Subs {
		sub := rebalance.SubTopology{ID: s.ID, Fingerprint: subPrint(s), Stateful: s.Stateful()}
		for _, i := range s.Inputs {
			sub.Topics = append(sub.Topics, i.Full(in.c.Application))
		}
		topics = append(topics, sub.Topics...)
		subs = append(subs, sub)
		for p := range s.Tasks(in.c.Application, in.topics.counts) {
			if reach, ok := in.dir.reach(s.Owner, p); ok {
				in.reaches[rebalance.Task{Sub: s.ID, Partition: p}] = reach
			}
		}
	}
	in.balancer, err = rebalance.NewBalancer(rebalance.Config{Process: in.dir.process, Rack: in.c.Rack, Workers: in.c.Workers, SubTopologies: subs, Positions: in.positions, Logger: in.log})
	if err != nil {
		return fmt.Errorf("kolk: %w", err)
	}
	// Heartbeats tell the others of a rebalance: a dead instance's tasks go on elsewhere a session timeout and one of these intervals later, at most.
	in.pulse = &pulse{session: in.c.SessionTimeout, resumed: in.resumeWorkers}
	opts := append(in.options("group"), kgo.WithHooks(in.pulse),
		kgo.ConsumerGroup(in.c.Application), kgo.ConsumeTopics(topics...), kgo.DisableAutoCommit(), kgo.Balancers(in.balancer),
		kgo.SessionTimeout(in.c.SessionTimeout), kgo.RebalanceTimeout(rebalanceTimeout), kgo.HeartbeatInterval(min(time.Second, in.c.SessionTimeout/12)),
		kgo.OnPartitionsAssigned(in.assigned), kgo.OnPartitionsRevoked(in.revoked), kgo.OnPartitionsLost(in.lost))
	if in.c.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(in.c.InstanceID))
	}
	in.mu.Lock() // a callback must not run before group is set
	defer in.mu.Unlock()
	if in.group, err = kgo.NewClient(opts...); err != nil {
		return fmt.Errorf("kolk: join group %s: %w", in.c.Application, err)
	}
	in.group.PauseFetchTopics(topics...)
	go in.drain(in.group)
	in.status.settle()
	return nil
}

// subPrint is what two builds must have in common for a task of one to go on in the other: the stores' formats.
func subPrint(s *engine.Sub) uint64 {
	var print uint64 = 1
	for _, d := range s.Stores {
		for _, c := range []byte(d.Full()) {
			print = print*1099511628211 ^ uint64(c)
		}
		print = print*1099511628211 ^ engine.Hash(engine.Print(d))
	}
	return print
}

// drain looks at the group client's errors; nothing else arrives there.
func (in *instance) drain(group *kgo.Client) {
	for {
		fs := group.PollFetches(context.Background())
		if fs.IsClientClosed() {
			return
		}
		fs.EachError(func(_ string, _ int32, err error) {
			if errors.Is(err, kerr.FencedInstanceID) {
				in.fail(fmt.Errorf("%w: InstanceID %q was taken by another process: %w; give each instance an id of its own", ErrDuplicateInstance, in.c.InstanceID, err))
				return
			}
			if errors.Is(err, kerr.GroupAuthorizationFailed) || errors.Is(err, kerr.InconsistentGroupProtocol) || errors.Is(err, kerr.InvalidSessionTimeout) {
				in.fail(fmt.Errorf("kolk: join group %s: %w", in.c.Application, err))
				return
			}
			if s, ok := errors.AsType[*kgo.ErrGroupSession](err); ok {
				in.log.Warn("group session ended; joining again", "error", s)
			}
		})
	}
}

// identity is the membership under which the tasks were assigned, while it holds.
func (in *instance) identity() (exactlyonce.Identity, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.group == nil {
		return exactlyonce.Identity{}, false
	}
	member, generation := in.group.GroupMetadata()
	return exactlyonce.Identity{Member: member, Generation: generation}, in.valid && member != "" && member == in.member && in.pulse.holds()
}

// positions tells the assignment how far local state reaches.
func (in *instance) positions() map[rebalance.Task]int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make(map[rebalance.Task]int64, len(in.reaches)+len(in.tasks))
	for k, n := range in.reaches {
		out[k] = n
	}
	for k, t := range in.tasks {
		if t.sub.Stateful() {
			out[k] = max(out[k], t.reach.Load())
		}
	}
	return out
}

// assigned runs at every rebalance, also with nothing new. It returns at once: tasks are opened in the background.
func (in *instance) assigned(_ context.Context, group *kgo.Client, added map[string][]int32) {
	member, _ := group.GroupMetadata()
	in.mu.Lock()
	var foreign []*task
	if in.member != "" && in.member != member {
		// The client was evicted and joined anew without telling: what it holds may have been run by others meanwhile.
		for _, t := range in.tasks {
			t.gone.Store(true)
			foreign = append(foreign, t)
		}
		in.log.Warn("the group evicted this member; its tasks are opened anew", "was", in.member, "is", member)
	}
	in.member, in.valid = member, true
	for topic, ps := range added {
		for _, p := range ps {
			if n := in.topics.count(topic); p >= n {
				in.fail(&TopicError{Topic: topic, Problem: fmt.Sprintf("it has more partitions now than the %d that it had at the start: keys lie elsewhere than their state", n),
					Remedy: "for an application without state, start it again; else move to a new topic, or reset the application"})
			}
			if in.parts[topic] == nil {
				in.parts[topic] = make(map[int32]bool)
			}
			in.parts[topic][p] = true
		}
	}
	in.mu.Unlock()
	in.dropAll(foreign, false)

	a := in.balancer.Assignment()
	if err := a.Err(); err != nil {
		in.fail(fmt.Errorf("kolk: assignment: %w", err))
		return
	}
	if a.Rejoin { // the broker has repeated an assignment that is out of date, as it does for static members
		group.ForceRebalance()
	}
	in.mu.Lock()
	var wanted, fresh []rebalance.Task
	current := make(map[rebalance.Task]int)
	for k, t := range in.tasks {
		current[k] = t.worker.index
	}
	for _, s := range in.graph.Subs {
		for p := range s.Tasks(in.c.Application, in.topics.counts) {
			k := rebalance.Task{Sub: s.ID, Partition: p}
			if !in.owns(s, p) {
				continue
			}
			wanted = append(wanted, k)
			if in.tasks[k] == nil {
				fresh = append(fresh, k)
			}
		}
	}
	place := rebalance.Spread(wanted, len(in.workers), current)
	if in.ending {
		fresh = nil
	}
	for _, k := range fresh {
		t := newTask(in.workers[place[k]], k, in.sub(k.Sub))
		t.after = in.leaving[k]
		delete(in.leaving, k)
		in.tasks[k] = t
		in.status.task(t.id(), t.worker.index, TaskRestoring)
		in.open(t)
	}
	in.mu.Unlock()
	in.pulse.renew()
	in.resumeWorkers()
	in.status.group(true)
}

// resumeWorkers lets those go on that wait for the group to speak.
func (in *instance) resumeWorkers() {
	for _, w := range in.workers {
		w.post(w.resumeGroup)
	}
}

func (in *instance) sub(id int) *engine.Sub {
	for _, s := range in.graph.Subs {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// owns says whether all inputs of a task are assigned to this member; the lock is held.
func (in *instance) owns(s *engine.Sub, p int32) bool {
	any := false
	for _, i := range s.Inputs {
		topic := i.Full(in.c.Application)
		if p < in.topics.count(topic) {
			if !in.parts[topic][p] {
				return false
			}
			any = true
		}
	}
	return any
}

// revoked commits and hands over the tasks whose partitions go to others. The others never stop.
func (in *instance) revoked(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	in.dropAll(in.without(gone), true)
}

// lost drops all tasks: others may run them already. What is committed locally stays valid.
func (in *instance) lost(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
	in.mu.Lock()
	in.valid, in.member = false, ""
	in.mu.Unlock()
	in.log.Warn("the group does not count this member any more; its tasks are closed")
	in.dropAll(in.without(gone), false)
	in.mu.Lock()
	var rest []*task
	for _, t := range in.tasks {
		rest = append(rest, t)
	}
	in.mu.Unlock()
	in.dropAll(rest, false)
	in.status.group(false)
}

// without takes partitions out of what is assigned, and returns the tasks that need one of them.
func (in *instance) without(gone map[string][]int32) (tasks []*task) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for topic, ps := range gone {
		for _, p := range ps {
			delete(in.parts[topic], p)
		}
	}
	for k, t := range in.tasks {
		if !in.owns(t.sub, k.Partition) {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// dropAll takes tasks from their workers, after a commit or without, and waits. What is not done when the time is over can be committed no more,
// and is dropped as soon as the worker comes to it.
func (in *instance) dropAll(tasks []*task, commit bool) {
	if len(tasks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), revokeWithin)
	defer cancel()
	defer func() {
		for _, t := range tasks {
			t.gone.Store(true)
		}
	}()
	in.mu.Lock()
	ending := in.ending
	in.mu.Unlock()
	if ending { // the end of the instance commits and closes its tasks itself
		if commit {
			select {
			case <-in.ended:
			case <-ctx.Done():
			}
		}
		return
	}
	byWorker := make(map[*worker][]*task)
	for _, t := range tasks {
		select {
		case <-t.opened: // user code may be using its context
		default:
			t.cancel()
		}
		byWorker[t.worker] = append(byWorker[t.worker], t)
	}
	var all sync.WaitGroup
	for w, ts := range byWorker {
		all.Go(func() {
			opened := ts[:0:0]
			for _, t := range ts {
				select {
				case <-t.opened:
					opened = append(opened, t)
				case <-ctx.Done():
					t.orphan.Store(true)
					select {
					case <-t.opened: // and its opener may not have seen that
						t.shut()
					default:
					}
				}
			}
			w.do(ctx, func() { w.release(w.handOver(ctx), opened, commit) })
		})
	}
	all.Wait()
	in.mu.Lock()
	for _, t := range tasks {
		if in.tasks[t.key] == t {
			delete(in.tasks, t.key)
			in.leaving[t.key] = t.ended
		}
		if t.sub.Stateful() {
			in.reaches[t.key] = t.reach.Load()
		}
	}
	in.mu.Unlock()
	for _, t := range tasks {
		in.status.task(t.id(), t.worker.index, TaskClosed)
	}
}
