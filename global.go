package kolk

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/badgerstore"
	"github.com/kolkstreams/kolk/store/memstore"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// globals are the global tables of an instance. They are filled before the instance joins its group. Then one goroutine follows their topics; the
// tasks read them meanwhile.
type globals struct {
	in     *instance
	tables []*globalTable
	client *kgo.Client
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// globalTable is one of them. After it was filled it belongs to the goroutine that follows, but for what tasks read.
type globalTable struct {
	*engine.Global
	dir     string // empty if it is in memory
	disk    state.Backend
	seen    *globalStatus
	next    []int64 // by partition: the next offset to read
	settled []int64 // next, as of when all that was read was in the store
	saved   time.Time
}

// How often a global table is written to disk, and how often the follower looks at its tables where nothing comes.
const (
	saveGlobals   = 10 * time.Second
	globalsBeat   = time.Second
	globalsAtOnce = 10_000
	mostAbove     = 100_000 // rows that are held back for a record under way
)

// openGlobals fills the global tables: from disk, and from their topics what came since, up to what is committed now.
func (in *instance) openGlobals() error {
	if len(in.graph.Globals) == 0 {
		return nil
	}
	g := &globals{in: in}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	in.globals = g
	err := in.patiently(in.ctx, "topics of global tables", func() error { return in.topics.globals(in.ctx, in) })
	if err != nil {
		return err
	}
	for _, decl := range in.graph.Globals {
		t := &globalTable{saved: time.Now(), seen: in.status.global(decl)}
		g.tables = append(g.tables, t)
		in.status.set(Joining, fmt.Sprintf("copying global table %q", decl.Store.Name))
		if err := g.open(t, decl); err != nil {
			return fmt.Errorf("global table %q: %w", decl.Store.Name, err)
		}
	}
	return g.follow()
}

// open opens one table and fills it. A store on disk that does not fit its topic is wiped.
func (g *globals) open(t *globalTable, decl *engine.GlobalTable) error {
	if !decl.Store.InMemory {
		t.dir = filepath.Join(g.in.dir.path, "globals", decl.Store.Full())
	}
	for {
		err := g.fill(t, decl)
		stale, ok := errors.AsType[*staleError](err)
		if !ok || t.dir == "" {
			return err
		}
		g.in.log.Warn("the local copy of a global table is not used; it is read from its topic", "table", decl.Store.Name, "dir", t.dir, "reason", stale.why)
		if err := t.disk.Close(false); err != nil {
			g.in.log.Warn("store did not close", "table", decl.Store.Name, "error", err)
		}
		t.disk = nil
		if err := badgerstore.Wipe(t.dir); err != nil {
			return fmt.Errorf("%w: %w", ErrStateDir, err)
		}
	}
}

func (g *globals) fill(t *globalTable, decl *engine.GlobalTable) error {
	if err := g.backend(t); err != nil {
		return err
	}
	in := g.in
	err := in.bound(in.ctx, fmt.Sprintf("global table %q", decl.Store.Name), func() (err error) {
		t.Global, err = engine.OpenGlobal(in.ctx, decl, state.Env{Backend: t.disk, Budget: in.budget})
		return err
	})
	if err != nil {
		return err
	}
	t.seen.opened(t.Global)
	ends, err := in.adm.ListCommittedOffsets(in.ctx, decl.Topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("ends of topic %s: %w", decl.Topic, err)
	}
	starts, err := in.adm.ListStartOffsets(in.ctx, decl.Topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("beginnings of topic %s: %w", decl.Topic, err)
	}
	if t.next, err = g.positions(t, starts, ends); err != nil {
		t.seen.opened(nil)
		t.Close()
		return err
	}
	var loader state.Loader
	if t.disk.Data() == nil {
		if loader, err = t.disk.Load(); err != nil {
			return diskError(err)
		}
	}
	for p := range t.next {
		end, _ := ends.Lookup(decl.Topic, int32(p))
		if err := g.load(t, int32(p), end.Offset, loader); err != nil {
			if loader != nil {
				err = errors.Join(err, loader.Abort())
			}
			return err
		}
	}
	t.settled = slices.Clone(t.next)
	if loader == nil {
		return nil
	}
	data, err := g.data(t)
	if err == nil {
		err = loader.Finish(data)
	}
	if err != nil {
		return diskError(err)
	}
	return nil
}

func (g *globals) backend(t *globalTable) error {
	if t.dir == "" {
		t.disk = memstore.New()
		return nil
	}
	cfg := badgerstore.Config{Memory: max(1<<20, g.in.c.Memory/16/int64(len(g.in.graph.Globals))), MinFree: g.in.c.MinFreeDisk, Logger: g.in.log.With("dir", t.dir)}
	s, err := badgerstore.Open(t.dir, cfg)
	if errors.Is(err, badgerstore.ErrCorrupt) {
		g.in.log.Warn("the local copy of a global table is damaged; it is removed and read from its topic", "dir", t.dir, "error", err)
		if err = badgerstore.Wipe(t.dir); err == nil {
			s, err = badgerstore.Open(t.dir, cfg)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStateDir, err)
	}
	t.disk = s
	return nil
}

// positions is where each partition goes on by what is on disk. A *staleError says that it does not fit the topic.
func (g *globals) positions(t *globalTable, starts, ends kadm.ListedOffsets) ([]int64, error) {
	topic, in := t.Table.Topic, g.in
	next := make([]int64, in.topics.count(topic))
	saved, err := engine.DecodeSaved(t.disk.Data())
	if err != nil {
		return nil, &staleError{err.Error()}
	}
	name, print := t.Table.Store.Full(), engine.Print(t.Table.Store)
	switch {
	case saved.Stores == nil:
	case saved.Cluster != in.cluster:
		return nil, &staleError{fmt.Sprintf("it belongs to cluster %s, this is %s", saved.Cluster, in.cluster)}
	case saved.Print[name] != print:
		return nil, &staleError{fmt.Sprintf("it was written as %s, and is %s now", saved.Print[name], print)}
	case saved.Inputs[topic] != topicID(in.topics.id(topic)):
		return nil, &staleError{"topic " + topic + " is not the one that it was copied from"}
	case time.Since(time.UnixMilli(saved.At)) > in.topics.tombstoneLife(topic):
		return nil, &staleError{"it is so old that deletes may be gone from topic " + topic}
	}
	for p := range next {
		start, ok := starts.Lookup(topic, int32(p))
		end, ok2 := ends.Lookup(topic, int32(p))
		if !ok || !ok2 {
			return nil, fmt.Errorf("the broker does not say where %s/%d begins and ends", topic, p)
		}
		next[p] = start.Offset
		part, ok := saved.Stores[strconv.Itoa(p)]
		switch {
		case saved.Stores == nil:
			continue
		case !ok && start.Offset > 0, ok && part.Next < start.Offset:
			return nil, &staleError{fmt.Sprintf("%s/%d begins at offset %d now, which it does not reach", topic, p, start.Offset)}
		case ok && part.Next > end.Offset:
			return nil, &staleError{fmt.Sprintf("it goes up to offset %d of %s/%d, which ends at %d: the topic lost records", part.Next, topic, p, end.Offset)}
		case ok:
			next[p] = part.Next
		}
	}
	return next, nil
}

// load reads a partition up to end.
func (g *globals) load(t *globalTable, p int32, end int64, loader state.Loader) error {
	topic := t.Table.Topic
	if t.next[p] >= end {
		return nil
	}
	progress := t.seen.restoring()
	stop := g.in.watch(progress)
	defer stop()
	part := changelog.Part{Topic: topic, Partition: p, ID: g.in.topics.id(topic), From: t.next[p], End: end}
	next, err := g.in.reader.Restore(g.in.ctx, part, func(recs []changelog.Record) error {
		for i := range recs {
			r := engine.Record{Key: recs[i].Key, Value: recs[i].Value, Time: recs[i].Timestamp, Offset: recs[i].Offset}
			if ok, err := g.check(t, p, &r); err != nil {
				return err
			} else if !ok {
				continue
			}
			if err := t.Load(loader, &r); err != nil {
				return err
			}
		}
		if len(recs) > 0 {
			t.next[p] = recs[len(recs)-1].Offset + 1
		}
		if loader != nil || t.Stats().Pending <= g.in.pendingLimit {
			return nil
		}
		t.settled = slices.Clone(t.next)
		return g.save(t)
	}, progress.p)
	if err != nil {
		return fmt.Errorf("copy it: %w", err)
	}
	t.next[p] = next
	return nil
}

// check says whether a record is a row; one that is not is counted.
func (g *globals) check(t *globalTable, p int32, r *engine.Record) (ok bool, err error) {
	why, err := t.Check(r)
	if err != nil || why == "" {
		return err == nil, err
	}
	t.seen.drop(why)
	g.in.log.Warn("record of a global table is left out", "table", t.Table.Store.Name, "topic", t.Table.Topic, "partition", p, "offset", r.Offset, "reason", why)
	if f := dropHook(g.in.c.Hooks.OnDrop); f != nil {
		f(engine.Drop{Task: "global", Node: t.Table.Node.Name, Reason: why, Time: r.Time, Topic: t.Table.Topic, Partition: p, Offset: r.Offset, Key: r.Key, Value: r.Value})
	}
	return false, nil
}

// data says how far the rows on disk go.
func (g *globals) data(t *globalTable) ([]byte, error) {
	topic := t.Table.Topic
	id := topicID(g.in.topics.id(topic))
	s := engine.Saved{Cluster: g.in.cluster, At: time.Now().UnixMilli(), Stores: make(map[string]engine.SavedPart), Inputs: map[string]string{topic: id},
		Print: map[string]string{t.Table.Store.Full(): engine.Print(t.Table.Store)}}
	for p, next := range t.settled {
		s.Stores[strconv.Itoa(p)] = engine.SavedPart{TopicID: id, Next: next}
	}
	return s.Encode()
}

// save writes a checkpoint. It may hold more than it says: what is read again changes nothing, as the last record of a key wins.
func (g *globals) save(t *globalTable) error {
	t.saved = time.Now()
	batches, err := t.Freeze()
	if err != nil {
		return err
	}
	data, err := g.data(t)
	if err != nil {
		return err
	}
	if err := t.disk.Apply(batches, data); err != nil {
		return diskError(err)
	}
	return t.Applied(t.disk.Switch)
}

// follow begins to read the topics from where the tables are.
func (g *globals) follow() (err error) {
	from := make(map[string]map[int32]kgo.Offset)
	for _, t := range g.tables {
		parts := from[t.Table.Topic]
		if parts == nil {
			parts = make(map[int32]kgo.Offset)
			from[t.Table.Topic] = parts
		}
		for p, next := range t.next {
			if o, ok := parts[int32(p)]; !ok || next < o.EpochOffset().Offset {
				parts[int32(p)] = kgo.NewOffset().At(next)
			}
		}
	}
	g.client, err = kgo.NewClient(append(g.in.options("globals"), kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.FetchMaxWait(500*time.Millisecond), kgo.FetchMaxBytes(8<<20))...)
	if err != nil {
		return fmt.Errorf("kolk: make a client for global tables: %w", err)
	}
	g.done.Go(func() {
		for g.ctx.Err() == nil {
			if err := g.turn(); err != nil {
				g.in.fail(err)
				return
			}
		}
	})
	return nil
}

// turn takes what has come, and writes to disk what is due.
func (g *globals) turn() error {
	ctx, cancel := context.WithTimeout(g.ctx, globalsBeat)
	defer cancel()
	if slices.ContainsFunc(g.tables, func(t *globalTable) bool { return t.Above() > mostAbove }) {
		// Some record has been under way for long, and must not see what came since: that waits in memory.
		select {
		case <-ctx.Done():
		case <-time.After(globalsBeat / 10):
		}
		for _, t := range g.tables {
			if err := t.Settle(); err != nil {
				return fmt.Errorf("global table %q: %w", t.Table.Store.Name, err)
			}
		}
		return nil
	}
	fetches := g.client.PollRecords(ctx, globalsAtOnce)
	var first error
	fetches.EachError(func(topic string, p int32, err error) {
		if first == nil {
			first = g.failed(topic, p, err)
		}
	})
	if first != nil {
		return first
	}
	for _, t := range g.tables {
		if err := g.take(t, fetches); err != nil {
			return err
		}
	}
	return nil
}

// failed says which errors of a fetch end the instance.
func (g *globals) failed(topic string, p int32, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, kgo.ErrClientClosed):
		return nil
	case isOutOfRange(err):
		return fmt.Errorf("global tables: %s/%d: records were deleted before they were read, or the topic was made anew: %w; start again, which copies the topic as it is", topic, p, err)
	case isGone(err) && !errors.Is(err, kerr.UnknownTopicOrPartition):
		return &TopicError{Topic: topic, Problem: fmt.Sprintf("it was deleted while a global table follows it (%v)", err), Remedy: "create it again"}
	}
	g.in.log.Debug("a global table's topic cannot be read", "topic", topic, "partition", p, "error", err)
	return nil
}

// take gives a table its records, as one batch.
func (g *globals) take(t *globalTable, fetches kgo.Fetches) error {
	var batch []engine.Record
	var bad error
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if f.Topic != t.Table.Topic {
			return
		}
		for _, rec := range f.Records {
			if bad != nil || rec.Offset < t.next[rec.Partition] {
				continue
			}
			t.next[rec.Partition] = rec.Offset + 1
			r := engine.Record{Key: rec.Key, Value: rec.Value, Time: rec.Timestamp.UnixMilli(), Offset: rec.Offset}
			ok, err := g.check(t, rec.Partition, &r)
			if bad = err; ok {
				batch = append(batch, r)
			}
		}
	})
	if bad != nil {
		return bad
	}
	var err error
	if len(batch) > 0 {
		err = t.Apply(batch)
	} else {
		err = t.Settle()
	}
	if err != nil {
		return fmt.Errorf("global table %q: %w", t.Table.Store.Name, err)
	}
	if t.Above() == 0 {
		t.settled = slices.Clone(t.next)
	}
	if pending := t.Stats().Pending; pending > g.in.pendingLimit || pending > 0 && time.Since(t.saved) >= saveGlobals {
		if err := g.save(t); err != nil {
			return fmt.Errorf("global table %q: %w", t.Table.Store.Name, err)
		}
	}
	return nil
}

// byStore are the tables for tasks, by name of their stores.
func (g *globals) byStore() map[string]*engine.Global {
	if g == nil {
		return nil
	}
	out := make(map[string]*engine.Global, len(g.tables))
	for _, t := range g.tables {
		out[t.Table.Store.Name] = t.Global
	}
	return out
}

// close ends following and writes what is not on disk. No task may read any more.
func (g *globals) close() {
	if g == nil {
		return
	}
	g.cancel()
	g.done.Wait()
	if g.client != nil {
		g.client.Close()
	}
	for _, t := range g.tables {
		if t.disk == nil {
			continue
		}
		clean := g.client != nil // else it may not be filled
		if clean {
			if err := errors.Join(t.Settle(), g.save(t)); err != nil {
				g.in.log.Warn("global table was not written to disk; it is read from its topic at the next start", "table", t.Table.Store.Name, "error", err)
				clean = false
			}
			t.seen.opened(nil)
			t.Close()
		}
		if err := t.disk.Close(clean); err != nil {
			g.in.log.Warn("store did not close", "table", t.Table.Store.Name, "error", err)
		}
	}
}
