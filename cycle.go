package kolk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kolkstreams/kolk/exactlyonce"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// commit ends what was done since the last commit: see package exactlyonce. It says whether the tasks may go on.
func (w *worker) commit() bool { return w.commitWithin(w.ctx) }

func (w *worker) commitWithin(ctx context.Context) bool {
	defer func() {
		w.began = time.Now()
		w.timer.Reset(w.in.c.CommitEvery)
	}()
	if !w.moved() && w.driver.OpenSince().IsZero() && w.driver.Err() == nil {
		w.checkpoints() // of what was committed before
		return true
	}
	for _, t := range w.tasks {
		if err := t.Prepare(); err != nil {
			w.failed(t, err)
			return false
		}
	}
	if t, err := w.protect(); err != nil {
		if w.ctx.Err() != nil || passes(err) || errors.Is(err, context.DeadlineExceeded) {
			w.in.log.Warn("commit put off", "worker", w.index, "error", err)
			return w.abort()
		}
		w.failed(t, err)
		return false
	}
	return w.endedAs(w.driver.Commit(ctx), true)
}

// protect comes before records of long ago go to changelogs. If it fails it says for which task.
func (w *worker) protect() (*task, error) {
	ctx, cancel := context.WithTimeout(w.ctx, w.in.c.TransactionTimeout/2)
	defer cancel()
	for _, t := range w.tasks {
		if err := t.protected(ctx); err != nil {
			return t, err
		}
	}
	return nil, nil
}

// abort ends the transaction without effect.
func (w *worker) abort() bool { return w.endedAs(w.driver.Abort(w.ctx), false) }

// endedAs deals with what came of a commit or an abort.
func (w *worker) endedAs(out exactlyonce.Outcome, committing bool) bool {
	if w.rolled != nil {
		err := w.rolled
		w.rolled = nil
		w.in.fail(err)
		w.refused = true
		return false
	}
	if committing && out.Kind != exactlyonce.Nothing {
		w.in.c.Hooks.commit(w.index, out.Total, out.Err)
	}
	switch out.Kind {
	case exactlyonce.Nothing:
		return true
	case exactlyonce.Committed:
		w.replays = 0
		w.slow = slowRecord{}
		w.in.status.count(1, 0)
		w.news = true
		w.in.status.notice(Notice{Subject: w.subject()})
		w.checkpoints()
		return true
	case exactlyonce.Aborted:
		return w.replay(out, committing)
	case exactlyonce.Rejected:
		return w.rejected(out)
	case exactlyonce.Refused:
		// The group has given the tasks to others, or is about to: it will say so.
		// What is fetched meanwhile must follow on what was taken back, or the records between would be lost.
		w.fetchAgain(out.Reopened)
		w.refused, w.silent = true, time.Now()
		w.in.log.Warn("commit refused by the group; waiting for it to assign again", "worker", w.index, "error", out.Err)
		return false
	case exactlyonce.Fatal:
		err := out.Err
		if errors.Is(err, exactlyonce.ErrSharedID) || errors.Is(err, kerr.FencedInstanceID) {
			err = fmt.Errorf("%w: %w", ErrDuplicateInstance, err)
		}
		w.refused = true
		w.in.fail(fmt.Errorf("worker %d: %w", w.index, err))
		return false
	}
	w.refused = true // abandoned: the worker was told to give up
	return false
}

func (w *worker) subject() string { return fmt.Sprintf("worker %d", w.index) }

// replay reads the inputs again from the last commit.
func (w *worker) replay(out exactlyonce.Outcome, committing bool) bool {
	if out.TimedOut && w.timedOut() {
		return false
	}
	if committing {
		if w.replays++; w.replays >= 5 {
			w.in.status.notice(Notice{Subject: w.subject(), Problem: fmt.Sprintf("%d commits in a row failed, the last with: %v", w.replays, out.Err), Remedy: "look at the brokers; nothing is lost, records are processed again"})
		}
	}
	w.fetchAgain(out.Reopened)
	return true
}

// fetchAgain consumes from the last commit on. A client that was opened anew consumes nothing yet.
func (w *worker) fetchAgain(reopened bool) {
	for _, t := range w.tasks {
		if !reopened {
			w.forget(t)
		}
		for _, i := range t.parts {
			delete(w.paused, route{t, i})
		}
		w.consume(t)
	}
}

// rejected deals with a record that the broker does not take. State must not be lost, so a changelog record always stops the application; the
// policy for a sink may let it go on: then records of that size are not sent again.
func (w *worker) rejected(out exactlyonce.Outcome) bool {
	w.fetchAgain(out.Reopened)
	e, ok := errors.AsType[*exactlyonce.ProduceError](out.Err)
	if ok && errors.Is(e.Err, kerr.MessageTooLarge) {
		for _, t := range w.tasks {
			for _, o := range t.sub.Outputs {
				if o.Full(w.in.c.Application) == e.Topic && !o.Repartition && t.ErrorPolicy(o.Node, "produce").Kind != engine.Stop {
					w.sink.tooLarge[e.Topic] = e.RecordSize
					w.in.log.Warn("the broker refuses a record; records of this size will be dropped", "topic", e.Topic, "bytes", e.RecordSize, "node", o.Node.Name)
					return true
				}
			}
		}
	}
	w.refused = true
	if !ok {
		w.in.fail(fmt.Errorf("worker %d: %w", w.index, out.Err))
		return false
	}
	r := &RecordError{Stage: "produce", Topic: e.Topic, Partition: e.Partition, Offset: -1, Err: e}
	for _, t := range w.tasks {
		for slot, d := range t.sub.Stores {
			if t.log(d) == e.Topic {
				r.Task, r.Node = t.id(), t.sub.Stores[slot].Name
			}
		}
		for _, o := range t.sub.Outputs {
			if o.Full(w.in.c.Application) == e.Topic {
				r.Task, r.Node = t.id(), o.Node.Name
			}
		}
	}
	w.in.fail(r)
	return false
}

// noteSlow remembers the record that was being processed when the commit became due, if it has taken long since.
func (w *worker) noteSlow(t *task) {
	late := time.Now().UnixMilli() - w.rang.Load()
	if w.rang.Load() == 0 || late < w.in.c.TransactionTimeout.Milliseconds()/4 {
		return
	}
	topic, offset := t.Last()
	if w.slow.topic == topic && w.slow.offset == offset && w.slow.task == t.id() {
		return
	}
	w.slow = slowRecord{task: t.id(), topic: topic, offset: offset}
}

// timedOut counts the timeouts of transactions on one record. The second one ends the application, with the record's name: it would never get through.
func (w *worker) timedOut() bool {
	if w.slow.topic == "" {
		return false
	}
	if w.slow.times++; w.slow.times < 2 {
		return false
	}
	w.refused = true
	_, partition, _ := cutTask(w.slow.task)
	w.in.fail(&RecordError{Stage: "process", Task: w.slow.task, Topic: w.slow.topic, Partition: partition, Offset: w.slow.offset,
		Err: fmt.Errorf("its processing took so long that the transaction timed out, twice; make it faster, or raise Config.TransactionTimeout above %v", w.in.c.TransactionTimeout)})
	return true
}

func cutTask(id string) (sub int, partition int32, err error) {
	_, err = fmt.Sscanf(id, "%d_%d", &sub, &partition)
	return sub, partition, err
}

// checkpoints begins those that are due: by time, because the committed bytes have passed their share of the memory, or because the stores hold too much of
// what only a checkpoint lets them forget.
func (w *worker) checkpoints() {
	for _, t := range w.tasks {
		_, pending, held := t.Staged()
		over := w.in.budget.Over()
		crowded := over > 0 && held > w.in.heldLimit
		if pending > 4*w.in.pendingLimit || crowded && over > w.in.budget.Limit()/8 {
			// The disk is slower than the commits: memory must not pay for it.
			if err := t.settle(true); err != nil {
				w.in.fail(fmt.Errorf("task %s: %w", t.id(), diskError(err)))
				return
			}
		}
		if pending > w.in.pendingLimit || crowded || time.Since(t.froze) >= w.in.c.CheckpointEvery {
			if err := t.checkpoint(); err != nil {
				w.in.fail(fmt.Errorf("task %s: %w", t.id(), diskError(err)))
				return
			}
		}
	}
}

// Partitions implements exactlyonce.Participant: where the tasks write to their own partitions. Outputs go to any partition and join the
// transaction as they are written.
func (w *worker) Partitions() []exactlyonce.TopicPartitions {
	byTopic := make(map[string][]int32)
	for _, t := range w.tasks {
		for _, d := range t.sub.Stores {
			if d.Source == "" {
				byTopic[t.log(d)] = append(byTopic[t.log(d)], t.key.Partition)
			}
		}
	}
	out := make([]exactlyonce.TopicPartitions, 0, len(byTopic))
	for topic, ps := range byTopic {
		out = append(out, exactlyonce.TopicPartitions{Topic: topic, Partitions: ps})
	}
	slices.SortFunc(out, func(a, b exactlyonce.TopicPartitions) int {
		if a.Topic < b.Topic {
			return -1
		}
		return 1
	})
	return out
}

// Stage implements exactlyonce.Participant.
func (w *worker) Stage(produce func(*kgo.Record)) error {
	for _, t := range w.tasks {
		if err := t.stage(produce); err != nil {
			return err
		}
	}
	return nil
}

// Offsets implements exactlyonce.Participant.
func (w *worker) Offsets() (out []exactlyonce.Offset) {
	for _, t := range w.tasks {
		if t.Moved() {
			out = append(out, t.offsets()...)
		}
	}
	return out
}

// Committed implements exactlyonce.Participant.
func (w *worker) Committed() {
	for _, t := range w.tasks {
		if err := t.committed(); err != nil {
			w.rolled = errors.Join(w.rolled, err)
		}
	}
}

// Rollback implements exactlyonce.Participant.
func (w *worker) Rollback() {
	for _, t := range w.tasks {
		if err := t.rollback(); err != nil {
			w.rolled = errors.Join(w.rolled, err)
		}
	}
}

// release hands tasks over: after a commit of all that the worker has done, or without one where they are not this member's own any more.
func (w *worker) release(ctx context.Context, tasks []*task, commit bool) {
	running := false
	for _, t := range tasks {
		running = running || slices.Contains(w.tasks, t)
	}
	if running {
		if commit && !w.refused {
			w.commitWithin(ctx)
		} else if w.moved() || !w.driver.OpenSince().IsZero() {
			w.abort()
		}
	}
	for _, t := range tasks {
		w.drop(t)
	}
}

// handOver is the time that the commit of a revocation has. Under exactly-once that is as much as it takes: offsets that come too late are
// refused, and how a transaction has ended must be known before the worker goes on.
func (w *worker) handOver(ctx context.Context) context.Context {
	if w.in.c.Guarantee == ExactlyOnce {
		return w.ctx
	}
	return ctx
}

// resumeGroup goes on after the group has spoken.
func (w *worker) resumeGroup() {
	if w.refused && w.in.ctx.Err() == nil && w.driver.Err() != nil {
		w.driver.Resume()
		w.refused, w.silent = false, time.Time{}
	}
}

// askGroup makes the group speak if it has not for longer than a session: it may have answered for a member that it did not mean, and without a
// rebalance the worker would wait for ever.
func (w *worker) askGroup() {
	if w.refused && !w.silent.IsZero() && time.Since(w.silent) >= w.in.c.SessionTimeout {
		w.silent = time.Now()
		w.in.group.ForceRebalance()
	}
}

// finish ends the worker: with commit everything that was processed is committed first.
func (w *worker) finish(ctx context.Context, commit bool) {
	w.release(ctx, slices.Clone(w.tasks), commit)
	w.report(true)
	w.quit = true
}
