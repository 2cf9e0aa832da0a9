package topologytest

import (
	"fmt"
	"slices"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/memstore"
)

// task is a task with what outlives it.
type task struct {
	*engine.Task
	disk    *memstore.Disk
	parts   []int // the inputs that have this partition
	hashes  map[string]uint64
	commits int
	backend state.Backend
}

// everyNth is how many commits go by for each checkpoint, so that a crash finds both what is applied and what is not.
const everyNth = 3

// most is how many records may follow from one that was sent; more means a circle.
const most = 1_000_000

// openAll opens all tasks, anew or in place of those there are. With wipe their disks are empty.
func (d *Driver) openAll(wipe bool) bool {
	old := d.tasks
	d.tasks, d.running = nil, nil
	d.openGlobals()
	drops := d.drops
	if !d.feedGlobals() {
		return false
	}
	if len(old) > 0 {
		d.drops = drops // they were counted when they came
	}
	for _, sub := range d.graph.Subs {
		for p := range sub.Tasks(Application, d.count) {
			t := &task{hashes: make(map[string]uint64), disk: memstore.NewDisk()}
			if n := len(d.tasks); n < len(old) {
				t.commits = old[n].commits
				if !wipe {
					t.disk = old[n].disk
				}
			}
			if err := d.open(t, sub, p); err != nil {
				d.fail("topologytest: %v", err)
				return false
			}
			d.tasks = append(d.tasks, t)
		}
	}
	d.fresh = true
	return true
}

func (d *Driver) open(t *task, sub *engine.Sub, partition int32) (err error) {
	t.backend = t.disk.Open()
	if t.Task, err = engine.Open(sub, partition, d.env(t.backend, memstore.New())); err != nil {
		return err
	}
	for _, decl := range sub.Stores {
		t.hashes[decl.Full()] = engine.Hash(engine.Print(decl))
	}
	if err := d.restore(t); err != nil {
		return fmt.Errorf("task %s: restore: %w", t.ID, err)
	}
	for i, in := range sub.Inputs {
		if partition < d.partitions(in.Full(Application)) {
			t.parts = append(t.parts, i)
		}
	}
	return d.begin(t)
}

// begin starts a task's inputs where the last commit left them.
func (d *Driver) begin(t *task) (err error) {
	for _, i := range t.parts {
		next, meta := int64(0), engine.Meta{PartitionTime: -1}
		if c, ok := d.offsets[place{t.Sub.Inputs[i].Full(Application), t.Partition}]; ok {
			next = c.next
			if meta, err = engine.DecodeMeta(c.metadata); err != nil {
				return err
			}
		}
		t.Start(i, next, next, meta)
	}
	return nil
}

// changelog is the records of a store up to the last commit.
func (d *Driver) changelog(decl *state.Decl, partition int32) (l *log, end int64) {
	if decl.Source == "" {
		name := decl.Full()
		if d.changelogs[name] == nil {
			d.changelogs[name] = newLog(0)
		}
		l = d.changelogs[name]
		for int(partition) >= len(l.parts) {
			l.parts = append(l.parts, nil)
		}
		return l, l.end(partition)
	}
	l = d.log(decl.Source)
	return l, d.offsets[place{decl.Source, partition}].next
}

// restore fills a task's stores: from the last checkpoint on, or if there is none by bulk load from compacted changelogs.
func (d *Driver) restore(t *task) error {
	saved, err := engine.DecodeSaved(t.backend.Data())
	if err != nil {
		return err
	}
	var loader state.Loader
	if t.backend.Data() == nil {
		if loader, err = t.backend.Load(); err != nil {
			return err
		}
	}
	for slot, decl := range t.Sub.Stores {
		if !decl.NoLoad {
			if err := d.restoreStore(t, slot, saved, loader); err != nil {
				return err
			}
		}
	}
	if loader != nil {
		data, err := d.saved(t, true)
		if err == nil {
			err = loader.Finish(data)
		}
		if err != nil {
			return err
		}
	}
	for slot, decl := range t.Sub.Stores {
		if decl.NoLoad {
			if err := d.restoreStore(t, slot, saved, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Driver) restoreStore(t *task, slot int, saved engine.Saved, loader state.Loader) (err error) {
	decl := t.Sub.Stores[slot]
	l, end := d.changelog(decl, t.Partition)
	next := saved.Stores[decl.Full()].Next
	if decl.InMemory {
		next = 0
	}
	recs := l.from(t.Partition, next, end)
	if next == 0 && compacts(decl) {
		recs = compacted(recs)
	}
	for _, r := range recs {
		if decl.Upgrade != nil && r.Value != nil {
			if r.Value, err = decl.Upgrade(state.Logged{Value: r.Value, Version: version(r.Headers), At: r.Time, Offset: r.Offset, Partition: t.Partition}); err != nil {
				return fmt.Errorf("store %q: offset %d: %w", decl.Name, r.Offset, err)
			}
		}
		if loader != nil && !decl.InMemory {
			err = t.Load(loader, slot, r.Key, r.Value, r.Time)
		} else {
			err = t.Restore(slot, r.Key, r.Value, r.Time)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// version is the version of a changelog record's layout, as its header says; 0 without one.
func version(headers []engine.Header) byte {
	for _, h := range slices.Backward(headers) {
		if h.Key == engine.VersionHeader && len(h.Value) == 1 {
			return h.Value[0]
		}
	}
	return 0
}

// compacts says whether a store's changelog keeps only the last record of each key. That of a join side and of a store with history keep all.
func compacts(decl *state.Decl) bool {
	switch decl.Kind {
	case "keyvalue", "window", "session", "suppress", "unmatched":
		return true
	}
	return false
}

// saved is what a checkpoint says that goes as far as what is committed. One of a bulk load is without the stores that are not loaded.
func (d *Driver) saved(t *task, load bool) ([]byte, error) {
	s := engine.Saved{Cluster: "topologytest", At: d.wall, Stores: make(map[string]engine.SavedPart)}
	for _, decl := range t.Sub.Stores {
		_, end := d.changelog(decl, t.Partition)
		if load && decl.NoLoad {
			end = 0
		}
		s.Stores[decl.Full()] = engine.SavedPart{Next: end}
	}
	return s.Encode()
}

// feed gives a task what its inputs have, as far as the test's records are shown.
func (d *Driver) feed(t *task) {
	for _, i := range t.parts {
		l := d.log(t.Sub.Inputs[i].Full(Application))
		pos, end := t.Position(i), l.end(t.Partition)
		for at := pos; at < end; at++ {
			if e := l.parts[t.Partition][at]; e.sent && e.input >= d.shown {
				end = at
			}
		}
		if pos < end {
			t.Add(i, l.from(t.Partition, pos, end), end, end)
		}
	}
}

// run lets the tasks take turns until none has anything to do. It says whether anything was done.
func (d *Driver) run() (any bool) {
	for n := 0; ; {
		if d.fresh {
			d.fresh = false
			if !d.feedGlobals() {
				return false
			}
			for _, t := range d.tasks {
				d.feed(t)
			}
		}
		progress := false
		for _, t := range d.tasks {
			d.running = t
			for {
				did, err := t.Process(d.wall)
				if err != nil {
					d.fail("topologytest: %v", err)
					return false
				}
				if !did {
					break
				}
				progress, any = true, true
				if n++; n > most {
					d.fail("topologytest: more than %d records follow from one: does a topic lead back to itself?", most)
					return false
				}
			}
		}
		if !progress && !d.fresh {
			return any
		}
	}
}
