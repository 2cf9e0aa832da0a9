package engine

import (
	"fmt"

	"github.com/kolkstreams/kolk/internal/state"
)

// Restore takes one committed changelog record of a store, in order of offset.
func (t *Task) Restore(slot int, key, value []byte, at int64) (err error) {
	defer t.caught("restore", &err)
	if key == nil {
		return nil // a changelog has no null keys of ours; a source topic used as one may
	}
	return t.stores[slot].Restore(key, value, at)
}

// Load is Restore into a store whose backend is empty, by way of its bulk loader.
func (t *Task) Load(to state.Loader, slot int, key, value []byte, at int64) (err error) {
	defer t.caught("restore", &err)
	if key == nil {
		return nil
	}
	return t.stores[slot].Load(to, key, value, at)
}

// Checkpoint is committed entries on their way to the backends.
type Checkpoint struct {
	task         *Task
	disk, memory rows
	data         []byte
}

// rows are what a checkpoint writes to one backend.
type rows struct {
	batches  []state.Batch
	segments []state.SegmentBatch
	drop     []state.Segment
}

func (r *rows) empty() bool { return len(r.batches)+len(r.segments)+len(r.drop) == 0 }

func (r *rows) count() (n int) {
	for _, b := range r.batches {
		n += len(b.Rows)
	}
	for _, b := range r.segments {
		n += len(b.Rows)
	}
	return n
}

func (r *rows) apply(to state.Backend, data []byte) error {
	if len(r.segments)+len(r.drop) == 0 {
		return to.Apply(r.batches, data)
	}
	s, ok := to.(state.Segmented)
	if !ok {
		return fmt.Errorf("the backend %T has no segments", to)
	}
	return s.ApplySegments(r.batches, r.segments, r.drop, data)
}

// Freeze takes what is committed, as a checkpoint that goes up to what data says. It may be empty. There is at most one checkpoint of a task
// at a time.
func (t *Task) Freeze(data []byte) (c *Checkpoint, err error) {
	defer t.caught("checkpoint", &err)
	c = &Checkpoint{task: t, data: data}
	for slot, s := range t.stores {
		to := &c.disk
		if t.Sub.Stores[slot].InMemory {
			to = &c.memory
		}
		to.batches = append(to.batches, s.Freeze()...)
		if s, ok := s.(state.Segmenting); ok {
			segments, drop := s.FreezeSegments()
			to.segments, to.drop = append(to.segments, segments...), append(to.drop, drop...)
		}
	}
	return c, nil
}

// Empty says that the checkpoint has nothing to write. It may still carry newer data.
func (c *Checkpoint) Empty() bool { return c.disk.empty() && c.memory.empty() }

// Rows is the number of rows.
func (c *Checkpoint) Rows() int { return c.disk.count() + c.memory.count() }

// Apply writes the checkpoint to the backends. It may run beside the task, on any goroutine.
func (c *Checkpoint) Apply() error {
	e := &c.task.env
	if e.Disk != nil {
		if err := c.disk.apply(e.Disk, c.data); err != nil {
			return fmt.Errorf("task %s: checkpoint: %w", c.task.ID, err)
		}
	}
	if !c.memory.empty() {
		if err := c.memory.apply(e.Memory, nil); err != nil {
			return fmt.Errorf("task %s: checkpoint in memory: %w", c.task.ID, err)
		}
	}
	return nil
}

// Applied ends a checkpoint whose Apply went well: reads now see its rows in the backends.
func (t *Task) Applied(c *Checkpoint) (err error) {
	defer t.caught("checkpoint", &err)
	if t.env.Disk != nil {
		t.env.Disk.Switch()
	}
	if !c.memory.empty() {
		t.env.Memory.Switch()
	}
	for _, s := range t.stores {
		s.Applied()
	}
	return nil
}
