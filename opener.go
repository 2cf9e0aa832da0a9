package kolk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/exactlyonce"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/badgerstore"
	"github.com/kolkstreams/kolk/store/memstore"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// open opens a task in the background and hands it to its worker. The order matters: first the stable input offsets, which waits for open
// transactions of a former owner; then the ends of the changelogs, which hold at least all that belongs to those offsets; then everything up to there.
func (in *instance) open(t *task) {
	in.openers.Go(func() {
		defer func() {
			close(t.opened)
			if t.orphan.Load() {
				t.shut()
			}
		}()
		stopped := context.AfterFunc(in.ctx, t.cancel)
		defer stopped() // a task that runs is closed after its last commit
		began := time.Now()
		o := opener{in: in, task: t, ctx: t.ctx}
		err := o.run()
		if err != nil {
			if t.ctx.Err() == nil {
				in.fail(fmt.Errorf("task %s: open: %w", t.id(), err))
			}
			return
		}
		in.log.Info("task opened", "task", t.id(), "worker", t.worker.index, "restored", o.restored, "took", time.Since(began).Round(time.Millisecond))
		t.worker.post(func() {
			if t.ctx.Err() != nil || t.closed.Load() {
				return // it is being dropped
			}
			t.worker.start(t)
			in.status.task(t.id(), t.worker.index, TaskRunning)
		})
	})
}

// opener opens one task.
type opener struct {
	in       *instance
	task     *task
	ctx      context.Context
	offsets  map[exactlyonce.TopicPartition]exactlyonce.CommittedOffset
	metas    []engine.Meta // by input
	saved    engine.Saved
	parts    []changelog.Part // by slot, what is to be read
	restored int64
}

func (o *opener) run() error {
	if o.task.after != nil {
		select {
		case <-o.task.after:
		case <-o.ctx.Done():
			return o.ctx.Err()
		}
	}
	if err := o.committed(); err != nil {
		return err
	}
	o.protect()
	if err := o.backends(); err != nil {
		return err
	}
	if err := o.fits(); err != nil {
		return err
	}
	var err error
	if o.parts, err = o.plan(); err != nil {
		stale, ok := errors.AsType[*staleError](err)
		if !ok {
			return err
		}
		if err = o.wipe(stale.why); err == nil {
			o.parts, err = o.plan()
		}
		if err != nil {
			return err
		}
	}
	err = o.in.bound(o.ctx, "task "+o.task.id(), func() (err error) {
		o.task.Task, err = engine.Open(o.task.sub, o.task.key.Partition, o.task.env())
		return err
	})
	if err != nil {
		return err
	}
	if err := o.restore(); err != nil {
		return err
	}
	copy(o.task.durable, o.task.applied)
	if err := o.task.retained(); err != nil {
		return err
	}
	return o.start()
}

// bound calls f again while a serde cannot be told its topic, which is an outage of whom it asks.
func (in *instance) bound(ctx context.Context, subject string, f func() error) error {
	subject = "serdes of " + subject
	defer in.status.notice(Notice{Subject: subject})
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := f()
		if _, ok := errors.AsType[*state.Unbound](err); !ok || ctx.Err() != nil {
			return err
		}
		in.status.notice(Notice{Subject: subject, Problem: err.Error(), Remedy: "look whether the schema registry, or what else the serde asks, answers and knows the topic; it is asked again until it does"})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// committed reads the stable offsets of the task's inputs.
func (o *opener) committed() error {
	t := o.task
	parts := make([]exactlyonce.TopicPartition, 0, len(t.parts))
	for _, i := range t.parts {
		parts = append(parts, exactlyonce.TopicPartition{Topic: t.input(i), Partition: t.key.Partition})
	}
	var err error
	o.offsets, err = o.in.stableOffsets(o.ctx, parts, t)
	if err != nil {
		return err
	}
	o.metas = make([]engine.Meta, len(t.sub.Inputs))
	for i := range o.metas {
		o.metas[i].PartitionTime = -1
	}
	for _, i := range t.parts {
		c := o.offsets[exactlyonce.TopicPartition{Topic: t.input(i), Partition: t.key.Partition}]
		if m, err := engine.DecodeMeta(c.Metadata); err == nil {
			o.metas[i] = m
		}
	}
	return nil
}

// stableOffsets reads committed offsets that no transaction holds. A dead owner's transaction is ended, by the id that the last offset
// names or by what is open on the changelogs.
func (in *instance) stableOffsets(ctx context.Context, parts []exactlyonce.TopicPartition, t *task) (map[exactlyonce.TopicPartition]exactlyonce.CommittedOffset, error) {
	began, logged := time.Now(), false
	subject := "inputs of task " + t.id()
	defer in.status.notice(Notice{Subject: subject})
	return exactlyonce.StableOffsets(ctx, in.client, in.c.Application, parts, exactlyonce.StableOptions{
		TopicID: in.topics.id,
		Fence: func(ctx context.Context, unstable map[exactlyonce.TopicPartition]exactlyonce.CommittedOffset) error {
			if time.Since(began) >= in.c.TransactionTimeout+timeoutsLate {
				// Neither a fence nor its timeout has ended it. More fences would only hit producers that have gone on.
				in.status.notice(Notice{Subject: subject, Problem: "a transaction that does not end holds their offsets",
					Remedy: "look for hanging transactions on __consumer_offsets: kafka-transactions.sh find-hanging, then abort; the task starts as soon as it is gone"})
				return nil
			}
			fenced, err := in.fencer.Fence(ctx, in.written(t))
			if err == nil && len(fenced) == 0 {
				fenced, err = in.fenceLast(ctx, unstable)
			}
			if !logged || len(fenced) > 0 || err != nil {
				logged = true
				in.log.Info("offsets are held by an open transaction", "task", t.id(), "partitions", len(unstable), "fenced", fenced, "error", err)
			}
			return err
		},
		Report: func(err error) { in.log.Debug("offsets not available yet", "error", err) },
	})
}

// timeoutsLate is how long after a transaction's timeout brokers end it at the latest: they look every 10 s by default.
const timeoutsLate = 15 * time.Second

// written are the partitions that the owner of a task writes: its changelogs.
func (in *instance) written(t *task) (out []exactlyonce.TopicPartition) {
	for _, d := range t.sub.Stores {
		if d.Source == "" {
			out = append(out, exactlyonce.TopicPartition{Topic: t.log(d), Partition: t.key.Partition})
		}
	}
	return out
}

// fenceLast ends the transaction of the producer that committed the offsets last: a task without stores has no changelog to look at.
func (in *instance) fenceLast(ctx context.Context, unstable map[exactlyonce.TopicPartition]exactlyonce.CommittedOffset) (fenced []string, err error) {
	var faults []error
	seen := make(map[string]bool)
	for _, c := range unstable {
		m, err := engine.DecodeMeta(c.Metadata)
		if err != nil || m.TransactionalID == "" || seen[m.TransactionalID] {
			continue
		}
		seen[m.TransactionalID] = true
		done, err := in.fencer.FenceID(ctx, m.TransactionalID)
		if err != nil {
			faults = append(faults, err)
		}
		if done {
			fenced = append(fenced, m.TransactionalID)
		}
	}
	return fenced, errors.Join(faults...)
}

// backends opens what the task's stores are kept in.
func (o *opener) backends() error {
	t := o.task
	onDisk := 0
	for _, d := range t.sub.Stores {
		if d.InMemory {
			if t.memory == nil {
				t.memory = memstore.New()
			}
		} else {
			onDisk++
		}
	}
	if onDisk == 0 {
		return nil
	}
	return o.openDisk()
}

func (o *opener) openDisk() error {
	t, in := o.task, o.in
	dir := in.dir.taskDir(t.sub.Owner, t.key.Partition)
	log := in.log.With("task", t.id(), "dir", dir)
	open := func() (*badgerstore.Store, error) {
		return badgerstore.Open(dir, badgerstore.Config{Memory: in.memtables(t.sub), MinFree: in.c.MinFreeDisk, Logger: log})
	}
	s, err := open()
	if errors.Is(err, badgerstore.ErrCorrupt) {
		log.Warn("the local store is damaged; it is removed and read from the changelog", "error", err)
		if err = badgerstore.Wipe(dir); err == nil {
			s, err = open()
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStateDir, err)
	}
	t.disk = s
	if why := s.Opened(); why.Wiped {
		log.Warn("the local store cannot be trusted; it is read from the changelog", "reason", why.Reason)
	}
	if o.saved, err = engine.DecodeSaved(t.disk.Data()); err != nil {
		return o.wipe(err.Error())
	}
	t.dated = time.UnixMilli(o.saved.At)
	if why := o.stale(); why != "" {
		return o.wipe(why)
	}
	return nil
}

// wipe empties the task's folder: the state is read from the changelogs.
func (o *opener) wipe(why string) error {
	dir := o.in.dir.taskDir(o.task.sub.Owner, o.task.key.Partition)
	o.in.log.Warn("the local store is not used; it is read from the changelog", "task", o.task.id(), "dir", dir, "reason", why)
	if err := o.task.disk.Close(false); err != nil {
		o.in.log.Warn("store did not close", "task", o.task.id(), "error", err)
	}
	o.task.disk, o.saved = nil, engine.Saved{}
	if err := badgerstore.Wipe(dir); err != nil {
		return fmt.Errorf("%w: %w", ErrStateDir, err)
	}
	return o.openDisk()
}

// stale says why the local store cannot be topped up from the changelogs; empty if it can.
func (o *opener) stale() string {
	t, in := o.task, o.in
	if o.saved.Stores == nil {
		return ""
	}
	if o.saved.Cluster != in.cluster {
		return fmt.Sprintf("it belongs to cluster %s, this is %s", o.saved.Cluster, in.cluster)
	}
	for _, d := range t.sub.Stores {
		if d.InMemory {
			continue
		}
		part, ok := o.saved.Stores[d.Full()]
		if !ok {
			return "it was made without store " + d.Full()
		}
		if id := topicID(in.topics.id(t.log(d))); part.TopicID != id {
			return "the topic " + t.log(d) + " is not the one that it was written to"
		}
		if age := time.Since(time.UnixMilli(o.saved.At)); age > in.topics.tombstoneLife(t.log(d)) {
			return fmt.Sprintf("its last checkpoint is %v old, and deletes may be gone from %s since", age.Round(time.Minute), t.log(d))
		}
	}
	for name := range o.saved.Stores {
		if _, known := t.prints[name]; !known {
			return "it holds store " + name + ", which the topology has not"
		}
	}
	return ""
}

// memtables is a task's share of the memory that backends write into. If all that it has is in segments, the large ones of which come with their own, little will do.
func (in *instance) memtables(sub *engine.Sub) int64 {
	share := in.c.Memory / 4 / int64(max(1, in.stateful()))
	if !slices.ContainsFunc(sub.Stores, func(d *state.Decl) bool { return !d.InMemory && !d.Segmented }) {
		share = min(share, 16<<20)
	}
	return share
}

// stateful is how many tasks with stores this instance has.
func (in *instance) stateful() (n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, t := range in.tasks {
		if t.sub.Stateful() {
			n++
		}
	}
	return n
}

// fits compares the stores with those that wrote the state.
func (o *opener) fits() error {
	t, in := o.task, o.in
	for _, i := range t.parts {
		for name, was := range o.metas[i].Hashes {
			is, ok := t.prints[name]
			if !ok {
				continue // a store that is gone leaves its changelog behind
			}
			if log, ok := o.logOf(name); ok && !in.c.AllowMovedOffsets && !engine.SameLog(was, in.topics.id(log)) {
				return fmt.Errorf("%w: store %q: its changelog %s was deleted and made anew, so what was counted before is gone from it; reset the application's offsets, internal topics and StateDir together, or start once with Config.AllowMovedOffsets to go on with what the changelog holds",
					ErrIncompatible, name, log)
			}
			if diff := engine.Differ(o.saved.Print[name], was, is); diff != "" {
				return fmt.Errorf("%w: store %q: %s; go back, or declare the store with store.Version(n+1), which starts it empty under a new name", ErrIncompatible, name, diff)
			}
		}
	}
	return nil
}

// logOf is the changelog of a store, by its full name; false if it is a source topic.
func (o *opener) logOf(store string) (string, bool) {
	for _, d := range o.task.sub.Stores {
		if d.Full() == store && d.Source == "" {
			return o.task.log(d), true
		}
	}
	return "", false
}

// start tells the task where its inputs go on.
func (o *opener) start() error {
	t, in := o.task, o.in
	var ends kadm.ListedOffsets
	err := in.patiently(o.ctx, "ends of the inputs", func() (err error) {
		ends, err = in.adm.ListCommittedOffsets(o.ctx, o.inputNames()...)
		return err
	})
	if err != nil {
		return fmt.Errorf("ends of the inputs: %w", err)
	}
	for _, i := range t.parts {
		topic, p := t.input(i), t.key.Partition
		next := o.offsets[exactlyonce.TopicPartition{Topic: topic, Partition: p}].Offset
		if next < 0 {
			err := in.patiently(o.ctx, "beginning of an input", func() (err error) {
				next, err = in.beginning(o.ctx, topic, p, t.sub.Inputs[i].Start)
				return err
			})
			if err != nil {
				return err
			}
			if s := t.sub.Inputs[i].Start; s.Latest || s.Back > 0 {
				t.Skip()
			}
		}
		end := int64(-1)
		if l, ok := ends.Lookup(topic, p); ok && l.Err == nil {
			end = l.Offset
		}
		t.Start(i, next, end, o.metas[i])
	}
	return nil
}

func (o *opener) inputNames() (names []string) {
	for _, i := range o.task.parts {
		names = append(names, o.task.input(i))
	}
	return names
}

// beginning is where an input without committed offset begins.
func (in *instance) beginning(ctx context.Context, topic string, p int32, at engine.Start) (int64, error) {
	if at.Back > 0 && !at.Latest {
		found, err := in.adm.ListOffsetsAfterMilli(ctx, time.Now().UnixMilli()-at.Back, topic)
		if l, ok := found.Lookup(topic, p); err == nil && ok {
			if l.Err == nil {
				return l.Offset, nil
			}
			err = l.Err
		}
		return 0, fmt.Errorf("offset of %s/%d %v ago: %w", topic, p, time.Duration(at.Back)*time.Millisecond, err)
	}
	start, end, err := in.reader.End(ctx, topic, p)
	if err != nil {
		return 0, fmt.Errorf("beginning of input: %w", err)
	}
	if at.Latest {
		return end, nil
	}
	return start, nil
}

// plan says what is to be read for each store, by slot.
func (o *opener) plan() ([]changelog.Part, error) {
	t, in := o.task, o.in
	parts := make([]changelog.Part, len(t.sub.Stores))
	for slot, d := range t.sub.Stores {
		topic := t.log(d)
		part := changelog.Part{Topic: topic, Partition: t.key.Partition, From: changelog.FromStart, ID: in.topics.id(topic)}
		var start, end int64
		err := in.patiently(o.ctx, "ends of a changelog", func() (err error) {
			start, end, err = in.reader.End(o.ctx, topic, t.key.Partition)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("store %q: %w", d.Name, err)
		}
		part.End = end
		if d.Source != "" {
			// The source topic is the changelog: what lies past the committed offset is input yet to come.
			part.End = max(start, min(end, o.offsets[exactlyonce.TopicPartition{Topic: topic, Partition: t.key.Partition}].Offset))
		}
		if s, ok := o.saved.Stores[d.Full()]; ok && !d.InMemory {
			part.From = s.Next
			switch {
			case s.Next < start && expires(d):
				part.From = start // what is gone from it has expired
			case s.Next < start:
				return nil, &staleError{fmt.Sprintf("it goes up to offset %d of %s/%d, which begins at %d now", s.Next, topic, t.key.Partition, start)}
			case s.Next > end:
				return nil, &staleError{fmt.Sprintf("it goes up to offset %d of %s/%d, which ends at %d: the log lost records", s.Next, topic, t.key.Partition, end)}
			}
		}
		parts[slot] = part
	}
	return parts, nil
}

// staleError says why the local store does not fit its changelogs.
type staleError struct{ why string }

// Error is why.
func (e *staleError) Error() string { return e.why }

// restore brings every store up to the end of its changelog: those on disk first, by a bulk load if the disk is empty.
func (o *opener) restore() error {
	t := o.task
	for slot, part := range o.parts {
		t.next[slot] = max(part.From, 0)
		t.applied[slot] = t.next[slot]
	}
	if err := o.restoreDisk(); err != nil {
		return err
	}
	for slot, d := range t.sub.Stores {
		if d.InMemory {
			if err := o.read(slot, nil); err != nil {
				return err
			}
		}
	}
	t.noteReach()
	return nil
}

func (o *opener) restoreDisk() (err error) {
	t := o.task
	var loader state.Loader
	if t.disk != nil && t.disk.Data() == nil {
		if loader, err = t.disk.Load(); err != nil {
			return diskError(err)
		}
		defer func() {
			if loader != nil {
				copy(t.next, t.applied) // the rows that were read are thrown away: a checkpoint must not say that they are there
				err = errors.Join(err, loader.Abort())
			}
		}()
	}
	for slot, d := range t.sub.Stores {
		if !d.InMemory && !d.NoLoad {
			if err := o.read(slot, loader); err != nil {
				return err
			}
		}
	}
	if loader != nil {
		data, err := t.saved(t.next)
		if err != nil {
			return err
		}
		done := loader
		loader = nil
		if err := done.Finish(data); err != nil {
			return diskError(err)
		}
		copy(t.applied, t.next)
		t.dated = time.Now()
		if o.restored > 0 {
			// What had expired by the end of its changelog was loaded all the same. It goes now, so that nobody counts it.
			if err := t.checkpointNow(); err != nil {
				return err
			}
		}
	}
	for slot, d := range t.sub.Stores {
		if !d.InMemory && d.NoLoad {
			if err := o.read(slot, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// version is the version of a changelog record's layout, as its header says; 0 without one.
func version(headers []kgo.RecordHeader) byte {
	for _, h := range slices.Backward(headers) {
		if h.Key == engine.VersionHeader && len(h.Value) == 1 {
			return h.Value[0]
		}
	}
	return 0
}

// read restores one store: through the loader if there is one, else in memory, with a checkpoint whenever the memory's share is full.
func (o *opener) read(slot int, loader state.Loader) error {
	t, in, part := o.task, o.in, o.parts[slot]
	if part.End <= max(part.From, 0) {
		t.next[slot] = max(t.next[slot], part.End)
		return nil
	}
	d := t.sub.Stores[slot]
	p := in.status.restoring(t.id(), d.Name)
	stop := in.watch(p)
	take := func(recs []changelog.Record) error {
		for i := range recs {
			r := &recs[i]
			var err error
			if d.Upgrade != nil && r.Value != nil {
				if r.Value, err = d.Upgrade(state.Logged{Value: r.Value, Version: version(r.Headers), At: r.Timestamp, Offset: r.Offset, Topic: part.Topic, Partition: part.Partition}); err != nil {
					return fmt.Errorf("offset %d: %w", r.Offset, err)
				}
			}
			if loader != nil {
				err = t.Load(loader, slot, r.Key, r.Value, r.Timestamp)
			} else {
				err = t.Restore(slot, r.Key, r.Value, r.Timestamp)
			}
			if err != nil {
				return err
			}
		}
		o.restored += int64(len(recs))
		if len(recs) > 0 {
			t.next[slot] = recs[len(recs)-1].Offset + 1
		}
		if loader == nil {
			if _, pending, _ := t.Staged(); pending > in.pendingLimit {
				return t.checkpointNow()
			}
		}
		return nil
	}
	next, err := in.reader.Restore(o.ctx, part, take, p.p)
	for errors.Is(err, changelog.ErrTruncated) && expires(d) {
		// What comes first on the log expires first: it was deleted while it was read.
		var start int64
		if start, _, err = in.reader.End(o.ctx, part.Topic, part.Partition); err == nil {
			part.From = min(start, part.End)
			next, err = in.reader.Restore(o.ctx, part, take, p.p)
		}
	}
	stop()
	if err != nil {
		return fmt.Errorf("restore store %q from %s: %w", d.Name, part, err)
	}
	t.next[slot] = next
	return nil
}

// watch tells the hook of a restore's progress until the result is called.
func (in *instance) watch(p *storeProgress) (stop func()) {
	if in.c.Hooks.OnRestore == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(in.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			in.c.Hooks.restore(p.read())
			select {
			case <-tick.C:
			case <-ctx.Done():
				in.c.Hooks.restore(p.read())
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}
