package kolk

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/internal/state"
)

// retainer sees to it that brokers keep what stores still need of their changelogs, and no more.
//
// Brokers remove records by their own clock, but stores go by event time. A windowed changelog keeps records for the store's retention and a day, so the
// state of a store whose event time is more than that day behind the clock would be deleted: in a replay of old records, or while an input stands still. Before event time
// is half of it behind, the broker's limit is taken off the topic. The owner of a partition deletes what has expired by event time, whatever the limit.
type retainer struct {
	mu    sync.Mutex
	spare map[string]int64 // by changelog: how far behind the clock event time may be, ms; a topic without limit has none
	logs  map[logPart]*aged
}

type logPart struct {
	topic     string
	partition int32
}

// aged is what is known of a store's changelog here.
type aged struct {
	old      changelog.Old
	keeps    int64 // ms of event time; negative for stores that expire nothing as a whole
	observed int64
	marks    []mark // ascending
}

// mark says that records before an offset are of entries that no later time than observed is needed for.
type mark struct{ offset, observed int64 }

// marksKept bounds the marks of a partition: one for each such part of the retention.
const marksKept = 4

func newRetainer() *retainer {
	return &retainer{spare: make(map[string]int64), logs: make(map[logPart]*aged)}
}

// found takes over how a changelog is configured.
func (r *retainer) found(topic string, d *state.Decl, t changelog.Topic) {
	limit := t.Retention
	if kindOf(d) == changelog.Versioned {
		limit = t.CompactionLag
	}
	if ages(d) && limit > 0 && limit < unlimited {
		r.spare[topic] = max(0, limit.Milliseconds()-d.Retention)
	}
}

// unlimited is the age from which on a limit is none.
const unlimited = 100 * 365 * 24 * time.Hour

// ages says whether a store's changelog is subject to the broker's limit of age.
func ages(d *state.Decl) bool { return d.Source == "" && kindOf(d) != changelog.KeyValue }

// expires says that what is gone from the beginning of a store's changelog has expired in the store.
func expires(d *state.Decl) bool { return ages(d) && kindOf(d) != changelog.Versioned }

// short says whether a limit must be taken off a changelog whose store has come to a time.
func (r *retainer) short(topic string, observed int64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	spare, limited := r.spare[topic]
	return limited && now.UnixMilli()-observed > spare/2
}

// lifted notes that a topic has no limit any more.
func (r *retainer) lifted(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.spare, topic)
}

// committed takes over how far a store has come: all its records are before next, and it has come to the time observed.
func (r *retainer) committed(topic string, partition int32, d *state.Decl, observed, next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := logPart{topic, partition}
	a := r.logs[p]
	if a == nil {
		a = &aged{old: changelog.Old{Topic: topic, Store: d.Name, Kind: kindOf(d)}, keeps: d.Retention + d.Beyond + 1} // join buffers also keep what is as old as the retention
		r.logs[p] = a
	}
	a.observed = observed
	if !expires(d) {
		return // the newest version of each key is needed, however old
	}
	if n := len(a.marks); n == 0 || observed-a.marks[n-1].observed > a.keeps/marksKept {
		a.marks = append(a.marks, mark{next, observed})
	}
	for len(a.marks) > 1 && observed-a.marks[1].observed >= a.keeps {
		a.marks = a.marks[1:]
	}
}

// deletable is the offset before which all records have expired. Those that are not in the local store yet, which ends at durable, are left: they are read again after a crash.
func (r *retainer) deletable(topic string, partition int32, durable int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.logs[logPart{topic, partition}]
	if a == nil || len(a.marks) == 0 || a.observed-a.marks[0].observed < a.keeps {
		return 0
	}
	return min(a.marks[0].offset, durable)
}

// closed forgets a partition.
func (r *retainer) closed(topic string, partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.logs, logPart{topic, partition})
}

// idle are the changelogs whose stores have fallen behind the clock since their last commit.
func (r *retainer) idle(now time.Time) (out []changelog.Old) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make(map[string]bool)
	for p, a := range r.logs {
		if spare, limited := r.spare[p.topic]; limited && !seen[p.topic] && now.UnixMilli()-a.observed > spare/2 {
			seen[p.topic] = true
			old := a.old
			old.At = time.UnixMilli(a.observed)
			out = append(out, old)
		}
	}
	return out
}

// protect takes the broker's limit off a changelog.
func (in *instance) protect(ctx context.Context, old changelog.Old) error {
	if err := changelog.Protect(ctx, in.client, old); err != nil {
		return err
	}
	in.retainer.lifted(old.Topic)
	in.log.Warn("event time is far behind the clock; the changelog's limit of age was taken off, so that the broker removes nothing that is still needed",
		"topic", old.Topic, "store", old.Store, "time", old.At)
	return nil
}

// protectIdle is protect where nothing old is about to be written. If it is not allowed Health says so: most of what is there may be needed no more.
func (in *instance) protectIdle(old changelog.Old) {
	ctx, cancel := context.WithTimeout(in.ctx, purgeEvery)
	defer cancel()
	err := in.protect(ctx, old)
	n := Notice{Subject: "changelog " + old.Topic}
	if err != nil && passes(err) {
		in.log.Info("a changelog's limit of age was not taken off", "topic", old.Topic, "error", err)
		return
	}
	if err != nil {
		n.Problem, n.Remedy = err.Error(), "set retention.ms of the topic to -1, min.compaction.lag.ms if its store is versioned"
		if e, ok := public(err).(*TopicError); ok {
			n.Problem, n.Remedy = e.Problem, e.Remedy
		}
	}
	in.status.notice(n)
}

// protect keeps what is to be restored: the application may have stood still for long. How far the stores have come is not known yet, but they
// are behind the newest record that was processed.
func (o *opener) protect() {
	t, newest := o.task, int64(-1)
	for _, m := range o.metas {
		newest = max(newest, m.PartitionTime)
	}
	for _, d := range t.sub.Stores {
		if newest >= 0 && ages(d) && o.in.retainer.short(t.log(d), newest, time.Now()) {
			o.in.protectIdle(changelog.Old{Topic: t.log(d), Store: d.Name, Kind: kindOf(d), At: time.UnixMilli(newest)})
		}
	}
}

// protected sees to it that the broker keeps what the task is about to write to its changelogs, whatever its age.
func (t *task) protected(ctx context.Context) error {
	in := t.worker.in
	for slot, d := range t.sub.Stores {
		if !ages(d) {
			continue
		}
		at, ok, err := t.Observed(slot)
		if err != nil {
			return err
		}
		if ok && in.retainer.short(t.log(d), at, time.Now()) {
			if err := in.protect(ctx, changelog.Old{Topic: t.log(d), Store: d.Name, Kind: kindOf(d), At: time.UnixMilli(at)}); err != nil {
				return fmt.Errorf("task %s: %w", t.id(), err)
			}
		}
	}
	return nil
}

// retained tells the retainer how far the stores have come.
func (t *task) retained() error {
	in := t.worker.in
	for slot, d := range t.sub.Stores {
		if !ages(d) {
			continue
		}
		at, ok, err := t.Observed(slot)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		in.retainer.committed(t.log(d), t.key.Partition, d, at, t.next[slot])
	}
	t.expired()
	return nil
}

// expired notes what may be deleted from the changelogs.
func (t *task) expired() {
	in := t.worker.in
	for slot, d := range t.sub.Stores {
		if upTo := in.retainer.deletable(t.log(d), t.key.Partition, t.durable[slot]); upTo > 0 {
			in.expired.committed(t.log(d), t.key.Partition, upTo)
		}
	}
}
