package engine

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/kolkstreams/kolk/internal/state"
)

// RecordError is a record that could not be decoded, processed or written.
type RecordError struct {
	Stage     string // "decode", "process" or "produce"
	Task      string
	Node      string
	Topic     string // empty in a timer
	Partition int32
	Offset    int64
	Err       error
}

// Error says which record failed where, and why.
func (e *RecordError) Error() string {
	if e.Topic == "" {
		return fmt.Sprintf("%s at %q, task %s, in a timer: %v", e.Stage, e.Node, e.Task, e.Err)
	}
	return fmt.Sprintf("%s at %q, task %s, record %s/%d@%d: %v", e.Stage, e.Node, e.Task, e.Topic, e.Partition, e.Offset, e.Err)
}

// Unwrap is the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// PanicError is a panic of user code, turned into an error.
type PanicError struct {
	Value any
	Stack []byte
}

// Error is the panic's value.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap is the panic's value, if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// unwind carries an error of a task up to its entry.
type unwind struct{ err error }

// Process takes the next record, if there is one and the task need not wait for others, through the operators. After an error the task must
// be rewound or closed. wall is the clock, ms.
func (t *Task) Process(wall int64) (did bool, err error) {
	if t.failed != nil {
		return false, t.failed
	}
	defer t.caught("process", &err)
	t.pin()
	i := 0
	if len(t.queues) == 1 {
		t.decodeHead(0)
		if !t.queues[0].known {
			return false, nil
		}
	} else if i = t.choose(wall); i < 0 {
		return false, nil
	}
	q := &t.queues[i]
	r := &q.recs[q.head]
	t.rec = Rec{Time: q.time, NullKey: r.Key == nil, Headers: r.Headers, Input: i, Offset: r.Offset, RawKey: r.Key, RawValue: r.Value}
	q.partitionTime = max(q.partitionTime, q.time)
	if q.time > t.streamTime {
		t.streamTime = q.time
	}
	q.reader.Process(&t.rec)
	t.took(q)
	t.passed()
	return true, nil
}

// passed does what stream time calls for after a record.
func (t *Task) passed() {
	for i := range t.expiry {
		if x := &t.expiry[i]; t.streamTime >= x.next {
			x.next = boundary(t.streamTime, x.bucket)
			t.timed(t.streamTime)
			for t.stores[x.slot].Expire(t.streamTime, math.MaxInt) {
			}
		}
	}
	if t.streamTime >= t.due {
		t.fire(StreamClock, t.streamTime)
	}
}

// boundary is the first multiple of step above at, or the largest time if there is none.
func boundary(at, step int64) int64 {
	n := at/step + 1
	if n > math.MaxInt64/step {
		return math.MaxInt64
	}
	return n * step
}

// timed makes the record context that of a timer at a time.
func (t *Task) timed(at int64) { t.rec = Rec{Time: at, Input: -1} }

// caught is deferred at every entry: it turns what unwound the stack into an error.
func (t *Task) caught(stage string, err *error) {
	p := recover()
	t.unpin()
	switch p := p.(type) {
	case nil:
		return
	case unwind:
		*err = p.err
	case state.Broken:
		*err = fmt.Errorf("task %s: %w", t.ID, p)
	default:
		*err = t.recordError(stage, t.at, panicked(p))
	}
	t.failed = *err
}

func panicked(p any) error {
	if p, ok := p.(thrown); ok {
		return p.err
	}
	return &PanicError{Value: p, Stack: debug.Stack()}
}

// thrown is an error that user code ran into without a way to return it.
type thrown struct{ err error }

// Throw fails the record at the node whose user code runs, as a panic there would, and does not return. It is for calls of user code
// into the library that cannot be answered.
func (t *Task) Throw(err error) { panic(thrown{err}) }

func (t *Task) recordError(stage string, n *Node, err error) error {
	if _, known := errors.AsType[*RecordError](err); known {
		return err
	}
	e := &RecordError{Stage: stage, Task: t.ID, Partition: t.Partition, Offset: t.rec.Offset, Err: err}
	if n != nil {
		e.Node = n.Name
	}
	if t.rec.Input >= 0 {
		e.Topic = t.Sub.Inputs[t.rec.Input].Full(t.env.App)
	}
	return e
}

// Last is the record that was taken in last, by topic and offset; the topic is empty in a timer.
func (t *Task) Last() (topic string, offset int64) {
	if t.rec.Input < 0 {
		return "", -1
	}
	return t.Sub.Inputs[t.rec.Input].Full(t.env.App), t.rec.Offset
}

// Abort ends the task's work with an error: it does not return.
func (t *Task) Abort(err error) { panic(unwind{err}) }

// At says whose user code runs next, so that a panic is blamed on the right node.
func (t *Task) At(n *Node) { t.at = n }
