package engine

import (
	"errors"
	"fmt"
	"maps"

	"github.com/kolkstreams/kolk/internal/state"
)

// Moved says whether there is anything to commit: records taken or dropped, control records passed, timers fired, records sent or staged since
// the last commit; and before the first one after Skip.
func (t *Task) Moved() bool { return t.moved || t.skipped }

// Prepare comes before Flush: operators that wait for the commit send what they hold.
func (t *Task) Prepare() (err error) {
	if t.failed != nil {
		return t.failed
	}
	defer t.caught("process", &err)
	t.pin()
	for _, f := range t.beforeCut {
		t.timed(max(t.streamTime, 0))
		f()
	}
	return nil
}

// Flush gives every dirty entry of every store to write, in order of slot. The bytes stay valid until Committed or Rewind.
func (t *Task) Flush(write func(d *state.Decl, key, value []byte, at int64) error) (err error) {
	if t.failed != nil {
		return t.failed
	}
	defer t.caught("process", &err)
	for slot, s := range t.stores {
		d := t.Sub.Stores[slot]
		if err := s.Flush(func(k, v []byte, at int64) error {
			t.moved = true
			return write(d, k, v, at)
		}); err != nil {
			return fmt.Errorf("task %s: store %q: stage for commit: %w", t.ID, d.Name, err)
		}
	}
	return nil
}

// Observed is how far a store's own time has come, in ms of event time, dirty writes included: what expires in it does so by that. False for stores that
// do not go by time, and before the first write.
func (t *Task) Observed(slot int) (at int64, ok bool, err error) {
	s, ages := t.stores[slot].(state.Ageing)
	if !ages {
		return 0, false, nil
	}
	if t.failed != nil {
		return 0, false, t.failed
	}
	defer t.caught("process", &err)
	at = s.Observed()
	return at, at >= 0, nil
}

// VersionHeader is the header of changelog records that says the version of their values' layout.
const VersionHeader = "v"

// LogHeaders are the headers of a changelog record.
func LogHeaders(d *state.Decl, value []byte) []Header {
	if d.Format == 0 || value == nil {
		return nil
	}
	return []Header{{VersionHeader, []byte{d.Format}}}
}

// Cut is what a commit writes for one input: the offset to go on from and its metadata.
type Cut struct {
	Input    int
	Next     int64
	Metadata string
}

// Cuts are the offsets of all inputs as of now, with what a new owner needs to know.
func (t *Task) Cuts(hashes map[string]uint64) []Cut {
	clocks := make(map[string]int64, len(t.clocks))
	for name, c := range t.clocks {
		clocks[name] = *c
	}
	inputs := make([]uint32, len(t.Sub.Inputs))
	for i, in := range t.Sub.Inputs {
		inputs[i] = InputHash(in.Full(t.env.App))
	}
	out := make([]Cut, len(t.queues))
	for i := range t.queues {
		m := Meta{PartitionTime: t.queues[i].partitionTime, Clocks: clocks, Hashes: hashes, TransactionalID: t.env.TransactionalID, Inputs: inputs}
		out[i] = Cut{Input: i, Next: t.queues[i].next, Metadata: m.Encode()}
	}
	return out
}

// Committed makes what Flush gave committed.
func (t *Task) Committed() (err error) {
	defer t.caught("commit", &err)
	for _, s := range t.stores {
		s.Committed()
	}
	t.saved, t.moved, t.cut, t.skipped = t.times(), false, false, false
	return nil
}

func (t *Task) times() times {
	s := times{stream: t.streamTime, clocks: make(map[string]int64, len(t.clocks))}
	for i := range t.queues {
		s.partitions = append(s.partitions, t.queues[i].partitionTime)
		s.next = append(s.next, t.queues[i].next)
	}
	for name, c := range t.clocks {
		s.clocks[name] = *c
	}
	return s
}

// Rewind goes back to the last commit: stores, clocks and positions as of then, operators made anew, queues empty. The caller fetches each
// input again from Position. A task whose store broke stays failed.
func (t *Task) Rewind() (err error) {
	if _, broken := errors.AsType[state.Broken](t.failed); broken {
		return t.failed
	}
	defer t.caught("rewind", &err)
	t.failed = nil
	closeErr := t.unwire()
	if closeErr != nil {
		t.env.Log.Warn("processor did not close", "task", t.ID, "error", closeErr)
		t.failed = nil
	}
	for _, s := range t.stores {
		s.Rollback()
	}
	for name, c := range t.clocks {
		*c = -1
		if at, ok := t.saved.clocks[name]; ok {
			*c = at
		}
	}
	t.streamTime = t.saved.stream
	for i := range t.queues {
		q := &t.queues[i]
		*q = queue{partitionTime: t.saved.partitions[i], next: t.saved.next[i], position: t.saved.next[i], end: q.end, idleSince: -1, started: q.started}
	}
	for i := range t.expiry {
		t.expiry[i].next = 0
		if t.streamTime >= 0 {
			t.expiry[i].next = boundary(t.streamTime, t.expiry[i].bucket)
		}
	}
	for _, c := range t.counters {
		c.sent = -1 // what was sent to a dead letter topic is gone with the transaction
	}
	t.moved, t.cut = false, false
	return t.wire()
}

// Clocks are the nodes' own stream times, ms.
func (t *Task) Clocks() map[string]int64 { return maps.Clone(t.times().clocks) }

// Staged is how many bytes the stores hold that the next commit must stage out, that the next checkpoint must apply, and that it frees.
func (t *Task) Staged() (dirty, pending, held int64) {
	for _, s := range t.stores {
		st := s.Stats()
		dirty, pending, held = dirty+st.Dirty, pending+st.Pending, held+st.Held
	}
	return dirty, pending, held
}
