package soak

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/badgerstore"
	"github.com/kolkstreams/kolk/store/memstore"
	"github.com/kolkstreams/kolk/topology"
)

// task is a task on disk whose commits always go well and whose changelogs nobody reads.
type task struct {
	*engine.Task
	disk    *badgerstore.Store
	next    int64      // offset
	applied chan error // of the checkpoint that is being written; nil if there is none
	frozen  *engine.Checkpoint
}

// nowhere is where results go.
type nowhere struct{}

// Emit implements engine.Sink.
func (nowhere) Emit(string, int32, []byte, []byte, int64, []engine.Header) error { return nil }

// open opens the first task of a topology in dir, with so many bytes for everything in memory.
func open(top *topology.Topology, dir string, memory int64) (*task, error) {
	// As an application has it: a quarter of the memory is Badger's.
	disk, err := badgerstore.Open(dir, badgerstore.Config{Memory: memory / 4, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	t := &task{disk: disk}
	t.Task, err = engine.Open(engine.GraphOf(top).Subs[0], 0, engine.Env{
		App: "soak", Context: context.Background(), Log: slog.New(slog.DiscardHandler), Output: nowhere{}, Partitions: func(string) int32 { return 1 },
		Disk: disk, Memory: memstore.New(), Budget: state.NewBudget(memory - memory/4), Wall: func() int64 { return 0 },
	})
	if err != nil {
		return nil, errors.Join(err, disk.Close(false))
	}
	t.Start(0, 0, 0, engine.Meta{PartitionTime: -1})
	return t, nil
}

// process takes records in and does all that follows from them.
func (t *task) process(records []engine.Record) error {
	for i := range records {
		records[i].Offset = t.next
		t.next++
	}
	t.Add(0, records, t.next, t.next)
	for {
		did, err := t.Process(0)
		if err != nil || !did {
			return err
		}
	}
}

// commit ends a transaction.
func (t *task) commit() error {
	if err := t.Prepare(); err != nil {
		return err
	}
	if err := t.Flush(func(*state.Decl, []byte, []byte, int64) error { return nil }); err != nil {
		return err
	}
	return t.Committed()
}

// checkpoint begins to write what is committed, once the one before is written.
func (t *task) checkpoint() error {
	if err := t.settle(); err != nil {
		return err
	}
	c, err := t.Freeze(fmt.Append(nil, t.next))
	if err != nil {
		return err
	}
	t.applied, t.frozen = make(chan error, 1), c
	go func() { t.applied <- c.Apply() }()
	return nil
}

// settle waits for the checkpoint that is being written.
func (t *task) settle() error {
	if t.applied == nil {
		return nil
	}
	err := <-t.applied
	c := t.frozen
	t.applied, t.frozen = nil, nil
	if err != nil {
		return err
	}
	return t.Applied(c)
}

// end writes everything out and closes the task.
func (t *task) end() error {
	err := errors.Join(t.Close(), t.checkpoint(), t.settle())
	t.Release()
	return errors.Join(err, t.disk.Close(err == nil))
}
