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
	disk, memory []state.Batch
	data         []byte
}

// Freeze takes what is committed, as a checkpoint that goes up to what data says. It may be empty. There is at most one checkpoint of a task
// at a time.
func (t *Task) Freeze(data []byte) (c *Checkpoint, err error) {
	defer t.caught("checkpoint", &err)
	c = &Checkpoint{task: t, data: data}
	for slot, s := range t.stores {
		batches := s.Freeze()
		if t.Sub.Stores[slot].InMemory {
			c.memory = append(c.memory, batches...)
		} else {
			c.disk = append(c.disk, batches...)
		}
	}
	return c, nil
}

// Empty says that the checkpoint has no rows. It may still carry newer data.
func (c *Checkpoint) Empty() bool { return len(c.disk) == 0 && len(c.memory) == 0 }

// Rows is the number of rows.
func (c *Checkpoint) Rows() (n int) {
	for _, batches := range [][]state.Batch{c.disk, c.memory} {
		for _, b := range batches {
			n += len(b.Rows)
		}
	}
	return n
}

// Apply writes the checkpoint to the backends. It may run beside the task, on any goroutine.
func (c *Checkpoint) Apply() error {
	e := &c.task.env
	if e.Disk != nil {
		if err := e.Disk.Apply(c.disk, c.data); err != nil {
			return fmt.Errorf("task %s: checkpoint: %w", c.task.ID, err)
		}
	}
	if len(c.memory) > 0 {
		if err := e.Memory.Apply(c.memory, nil); err != nil {
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
	if len(c.memory) > 0 {
		t.env.Memory.Switch()
	}
	for _, s := range t.stores {
		s.Applied()
	}
	return nil
}
