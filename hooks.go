package kolk

import (
	"time"

	"github.com/kolkstreams/kolk/processor"
)

// Hooks are called synchronously and must be quick. Nil fields are skipped. They are called from several goroutines.
type Hooks struct {
	OnState   func(from, to State)
	OnTask    func(task string, from, to TaskState)
	OnRestore func(RestoreProgress) // as a restore begins, about once a second, and as it ends
	// OnCommit is told of every commit of a worker that had something to commit; err says why it was not committed.
	OnCommit     func(worker int, took time.Duration, err error)
	OnCheckpoint func(task string, rows int, took time.Duration, err error)
	OnDrop       func(Drop) // late, expired, null-key and all other dropped records; again if they are processed again
	// OnMiss is told of every record for which a join finds nothing, with the cause: no_row, row_newer, expired, closed or null_key. Inner joins of streams drop such records, which OnDrop
	// is told too; other joins go on without a partner. And of every record at which MaxLength cuts a session: cut.
	OnMiss       func(Drop)
	OnDeadLetter func(node string, err error)
}

// Drop is one record that was dropped, for which a join found nothing, or at which a session was cut. A timer's has no Source.
type Drop struct {
	Task, Node string
	Reason     processor.Reason
	Time       time.Time // event time
	Source     processor.Metadata
}

func (h *Hooks) state(from, to State) {
	if h.OnState != nil {
		h.OnState(from, to)
	}
}

func (h *Hooks) task(task string, from, to TaskState) {
	if h.OnTask != nil {
		h.OnTask(task, from, to)
	}
}

func (h *Hooks) restore(p RestoreProgress) {
	if h.OnRestore != nil {
		h.OnRestore(p)
	}
}

func (h *Hooks) commit(worker int, took time.Duration, err error) {
	if h.OnCommit != nil {
		h.OnCommit(worker, took, err)
	}
}

func (h *Hooks) checkpoint(task string, rows int, took time.Duration, err error) {
	if h.OnCheckpoint != nil {
		h.OnCheckpoint(task, rows, took, err)
	}
}
