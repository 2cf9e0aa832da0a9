// Package state is what the engine knows of stores: how to open one from its handle, and how to move its bytes between the layers.
// Types of keys and values stay in package store.
//
// A store is memory over a backend, in layers: dirty writes (of the open transaction), committed ones that the backend has not got,
// frozen ones that a checkpoint is writing to it, and the backend as of the last checkpoint. A Live is one store's memory, a Backend
// holds the applied rows of all stores of a task.
package state

import (
	"context"
	"errors"
	"fmt"
)

// Decl is what a handle declares: a store, before any task opens it.
type Decl struct {
	Name     string // as declared
	Version  int    // 0 means none was given
	Kind     string // "keyvalue", for the fingerprint
	Key      string // the key's serde in words, for the fingerprint
	Value    string // the value's serde in words
	TTL      int64  // ms of stream time after an entry's own time; 0 means none
	Expected int64  // entries, from FiniteKeys or Expect; 0 means unknown
	// Retention is how long state is needed, in ms of event time: the history of a versioned store, how long a window is kept after its
	// start and a session after its end; 0 for kinds that have none.
	Retention int64
	// Beyond is how much longer than Retention the store itself keeps what it has, in ms. The changelog keeps more anyhow.
	Beyond int64
	// Ends is the end of the window that starts at a time, both in ms; of window stores.
	Ends func(start int64) int64
	// NoLoad says that restoring reads what was restored before, so that rows cannot go to a bulk loader: Restore must be used.
	NoLoad   bool
	InMemory bool // the backend is memory
	// Segmented says that the rows are in segments of the backend, and few others beside.
	Segmented bool
	// Source is the user's topic that serves as changelog; empty means that the store has a changelog of its own.
	Source string
	// Config are topic configurations of the changelog that the user asked for.
	Config map[string]string
	// Format, if it is not 0, is the version of the values' layout. Each changelog record with a value says it in the header "v", as one byte.
	Format byte
	// Upgrade makes a value of the present layout from that of a changelog record. It is set where Format is, and called before Restore and Load.
	Upgrade func(Logged) ([]byte, error)
	// Faults are what is wrong with the declaration; Build reports them.
	Faults []Fault
	// Place is file:line of the declaration.
	Place string
	// Open makes a task's store, which also implements the store's public interface. It does no I/O.
	Open func(Env) Live
	// Bind tells the serdes the topic of the store's records, and returns what to call instead of Open. It is nil if no serde must know it. It may
	// use the network until ctx ends; its errors are Unbound.
	Bind func(ctx context.Context, topic string) (func(Env) Live, error)
	// Read makes a reader of committed state, the store's public reader interface.
	Read func(View) any
}

// OpenAt opens a store whose records are in a topic.
func (d *Decl) OpenAt(ctx context.Context, topic string, env Env) (Live, error) {
	if d.Bind == nil {
		return d.Open(env), nil
	}
	open, err := d.Bind(ctx, topic)
	if err != nil {
		return nil, err
	}
	return open(env), nil
}

// Unbound is the error of a serde that could not be told its topic, such as one that asks a schema registry. It is an outage: trying again may help.
type Unbound struct {
	Topic string
	Key   bool
	Err   error
}

// Error says which serde it is, and why it failed.
func (e *Unbound) Error() string {
	what := "value"
	if e.Key {
		what = "key"
	}
	return fmt.Sprintf("prepare the serde of the %s of topic %q: %v", what, e.Topic, e.Err)
}

// Unwrap is the serde's own error.
func (e *Unbound) Unwrap() error { return e.Err }

// Fault is one thing wrong with a declaration, and the remedy.
type Fault struct{ Problem, Remedy string }

// Logged is a changelog record as it was found.
type Logged struct {
	Value     []byte
	Version   byte // what the header "v" says; 0 without it
	At        int64
	Offset    int64
	Topic     string
	Partition int32
}

// NoTime is the time of changelog records that are to get the one of their sending.
const NoTime = -1

// Full is the store's name with its version, as topics and directories have it.
func (d *Decl) Full() string {
	if d.Version == 0 {
		return d.Name
	}
	return fmt.Sprintf("%s-v%d", d.Name, d.Version)
}

// Env is what a store is given by its task.
type Env struct {
	// Slot is the first of the two slots that the store has in the task's backend: its rows are in Slot, and what it needs to find them by
	// time in Slot+1. So the task's stores have the slots 0, 2, 4, ..., and Backend.Count(Slot) counts rows only.
	Slot uint16
	// Backend holds the applied rows.
	Backend Backend
	// Budget is the memory that all stores of the process share.
	Budget *Budget
	// Now is the time of the record being processed, or stream time in a timer, in ms since 1970.
	Now func() int64
	// StreamTime is the largest time the task has taken in, in ms; -1 before the first record.
	StreamTime func() int64
	// Drop counts a record that the store refused.
	Drop func(reason string)
	// Deleted, if set, is told of every entry that expired, so that a table can send the deletes on: in (expiry, key) order inside Expire, and
	// inside Table.Modify if the entry it is about has expired. The entry is still there: Table.Lookup of this key shows it. It is
	// removed when Deleted returns. Deleted may not write to the store.
	Deleted func(key []byte)
}

// Live is a task's store as the commit cycle sees it. It belongs to the task's goroutine, but for what Frozen rows are shared with a checkpoint.
//
// A read or write that fails does not return: it panics with a Broken, which unwinds to the task's entry, and every later call panics too.
type Live interface {
	// Flush gives every dirty entry to write, once per key, in the order of first write: the same input gives the same order. A nil
	// value is a delete. key and value stay valid and unchanged until Committed or Rollback. Flush may be called again, after further
	// writes, before Committed: it then gives only what changed since.
	Flush(write func(key, value []byte, at int64) error) error
	// Committed makes what Flush gave committed: the transaction ended well. There are no other dirty entries then.
	Committed()
	// Rollback lets dirty entries fall back to committed ones: the transaction was aborted.
	Rollback()
	// Freeze moves the committed entries into the frozen layer and returns them as at most one batch for each of the store's slots; nil if
	// there is nothing to apply. There is at most one frozen layer at a time. The rows' bytes are not changed by anyone until Applied.
	Freeze() []Batch
	// Applied drops the frozen layer: the backend has it and shows it, as Switch was called just before.
	Applied()
	// Restore takes one committed changelog record, in order; a nil value is a delete. It becomes a committed entry.
	Restore(key, value []byte, at int64) error
	// Load is Restore for an empty backend: the row goes to the bulk loader instead of memory. Not for stores whose Decl says NoLoad.
	Load(to Loader, key, value []byte, at int64) error
	// Expire removes what is past the store's bound at the given stream time, as dirty deletes, at most limit entries. It says
	// whether there is more to remove. Stores without TTL do nothing.
	Expire(streamTime int64, limit int) (more bool)
	// Stats are as of the last write. They cost no I/O.
	Stats() Stats
	// Close gives the store's memory back to the budget. Every later call panics.
	Close()
}

// Stats is how large a store is.
type Stats struct {
	// Entries is how many there are, dirty ones included. Those written without being read are taken as new until the next checkpoint has
	// looked them up; the store's Len is exact.
	Entries int64
	Bytes   int64 // of their encoded keys and values, as of the last commit
	Dirty   int64 // bytes of memory held by dirty entries: what the next commit must stage out
	Pending int64 // bytes of memory held by committed and frozen entries: what the next checkpoint must apply
	Held    int64 // bytes of memory that cannot be evicted before the next checkpoint: Pending, and what the store keeps of the same entries
	Memory  int64 // bytes of memory in all, clean entries included
	Expired int64 // entries removed by the bound, since open
}

// Row is one row for the backend.
type Row struct {
	Key   []byte
	Value []byte // nil is a delete
	// Known says that Was tells whether the backend had the row before: the length of key and value, or -1 if it had none. Rows that are
	// not known are looked up at the apply, so that counts stay exact.
	Known bool
	Was   int64
}

// Batch is the rows of one store.
type Batch struct {
	Slot uint16
	Rows []Row // ascending by key, each key once
}

// What a backend takes at most, in bytes. An Apply or Put with more fails with ErrTooLarge.
const (
	MaxKey   = 64_000
	MaxValue = 64 << 20
)

// ErrTooLarge is the error for a row with a key over MaxKey or a value over MaxValue.
var ErrTooLarge = errors.New("row too large for the store's backend")

// Backend holds the applied rows of one task, of all its stores, as of the last checkpoint. One goroutine at a time may call Apply, Load
// or Close. Beside it one other goroutine may call Get, Scan, Count and Switch: until it calls Switch it sees the rows as they were at its
// last Switch, or at open. Close waits for nobody: reads must have ended.
type Backend interface {
	// Data is what was handed to the last finished checkpoint, whether Switch was called or not; nil if there is none. It belongs to
	// the goroutine of Apply.
	Data() []byte
	// Get appends the row's value to dst. ok is false if there is no such row; dst is then returned as it is.
	Get(slot uint16, key, dst []byte) (value []byte, ok bool, err error)
	// Scan calls visit for the rows with from <= key < to, ascending or descending, until it returns false. A nil bound is the end of the
	// store; an empty one is a bound like any other. key and value are valid during the call only. visit may call Get and Scan.
	Scan(slot uint16, from, to []byte, reverse bool, visit func(key, value []byte) bool) error
	// Count is the number of rows of a store, those of its segments included, and the bytes of their keys and values, as Get and Scan
	// see them.
	Count(slot uint16) (rows, bytes int64)
	// Apply writes the batches, one per slot, as one checkpoint with its data: after a crash either all of it is there or nothing. Reads
	// do not see it before Switch. The bytes are used until it returns and no longer. After an error the backend must be closed and
	// opened again, which undoes what was written.
	Apply(batches []Batch, data []byte) error
	// Switch makes reads see the last Apply.
	Switch()
	// Load starts a bulk load into a backend without rows. What a Segmented backend returns is a SegmentLoader.
	Load() (Loader, error)
	// Close ends the use. clean says that everything committed was applied. It is not taken at its word after an error.
	Close(clean bool) error
}

// Loader fills an empty backend fast. Rows come in any order; the last one of a key wins, and a nil value deletes. A crash before Finish
// has returned leaves an empty backend without data. After an error only Abort may follow, and the backend must be closed.
type Loader interface {
	// Put takes a row; key and value are copied.
	Put(slot uint16, key, value []byte) error
	// Finish makes the rows a checkpoint with its data, visible at once.
	Finish(data []byte) error
	// Abort throws the rows away. It does nothing after Finish.
	Abort() error
}

// SegmentLoader is a Loader that also takes rows of segments.
type SegmentLoader interface {
	Loader
	// PutSegment is Put within a segment.
	PutSegment(s Segment, key, value []byte) error
}

// Segmented is a Backend whose stores can keep rows in segments, each of which is dropped as a whole in a short time whatever its
// size. Segment rows are addressed by slot and segment number, apart from the store's other rows: Get and Scan do not see them. A segment
// exists while it has rows: it begins with the first and ends with a drop, or when its last row is deleted.
type Segmented interface {
	Backend
	// ApplySegments is Apply with rows of segments, each once, and segments to drop, as one checkpoint. Drops come first: rows for a
	// dropped segment begin it anew. Was of such a row is then -1. Dropping a segment that does not exist does nothing.
	ApplySegments(batches []Batch, segments []SegmentBatch, drop []Segment, data []byte) error
	// Segments lists a store's segments in ascending order, as the reads see them.
	Segments(slot uint16) []int64
	// GetSegment is Get within a segment.
	GetSegment(s Segment, key, dst []byte) (value []byte, ok bool, err error)
	// ScanSegment is Scan within a segment.
	ScanSegment(s Segment, from, to []byte, reverse bool, visit func(key, value []byte) bool) error
}

// Segment names a part of a store.
type Segment struct {
	Slot   uint16
	Number int64 // such as a window's start divided by the segment's length; ascending in time
}

// SegmentBatch is the rows of one segment.
type SegmentBatch struct {
	Segment Segment
	Rows    []Row // ascending by key, each key once
}

// Broken is what a store panics with when its backend failed. The engine turns it into an error of the task.
type Broken struct {
	Store string
	Err   error
}

// Error says which store failed, and why.
func (b Broken) Error() string { return fmt.Sprintf("store %q failed: %v", b.Store, b.Err) }

// Unwrap is the cause.
func (b Broken) Unwrap() error { return b.Err }

// Failed is what a store panics with when a key or value cannot be encoded: the record failed, the store is as it was before the call.
type Failed struct {
	Store string
	Err   error
}

// Error says which store could not take what.
func (f Failed) Error() string { return fmt.Sprintf("store %q: %v", f.Store, f.Err) }

// Unwrap is the cause.
func (f Failed) Unwrap() error { return f.Err }

// View is where a reader looks: the open stores of one name, one per task, in order of partition. Who makes the View sees to it that their
// tasks stand still while a reader's call lasts.
type View interface{ Stores(name string) []Live }

// Declared is implemented by what embeds Hook.
type Declared interface{ declared() *Decl }

// Hook carries a declaration inside a public handle.
type Hook struct{ decl *Decl }

// Of reads a handle's declaration.
func Of(d Declared) *Decl { return d.declared() }

// HookOf makes the Hook of a handle.
func HookOf(d *Decl) Hook { return Hook{d} }

func (h Hook) declared() *Decl { return h.decl }
