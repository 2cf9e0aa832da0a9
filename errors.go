package kolk

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/internal/engine"
)

// Errors of Run.
var (
	// ErrClosed means that the App has run already: an App runs once.
	ErrClosed = errors.New("kolk: closed")
	// ErrIncompatible means that existing state does not fit the topology; the text says what differs and what to do.
	ErrIncompatible = errors.New("kolk: state does not fit the topology")
	// ErrMovedOffsets means that committed offsets were changed without the state that belongs to them; the text says which.
	ErrMovedOffsets = errors.New("kolk: offsets were moved without the state")
	// ErrStateDir means that the state directory cannot be used: locked by another process, not writable, or its disk is full.
	ErrStateDir = errors.New("kolk: state directory")
	// ErrUnreachable means that no broker answered when the App started.
	ErrUnreachable = errors.New("kolk: no broker answers")
	// ErrDuplicateInstance means that another process runs with the same identity: the same InstanceID, or a copy of the same StateDir.
	ErrDuplicateInstance = errors.New("kolk: another process has this instance's identity")
)

// RecordError is a record that could not be decoded, processed or written.
type RecordError struct {
	Stage     string // "decode", "process" or "produce"
	Task      string
	Node      string // the node of the topology
	Topic     string // empty in a timer
	Partition int32
	Offset    int64
	Err       error
}

// Error says which record failed where, and why.
func (e *RecordError) Error() string {
	if e.Topic == "" {
		return fmt.Sprintf("kolk: %s at %q, task %s: %v", e.Stage, e.Node, e.Task, e.Err)
	}
	return fmt.Sprintf("kolk: %s at %q, task %s: record %s/%d@%d: %v", e.Stage, e.Node, e.Task, e.Topic, e.Partition, e.Offset, e.Err)
}

// Unwrap is the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// TopicError is a topic that is missing, not partitioned as its partners, or not configured as it must be.
type TopicError struct{ Topic, Problem, Remedy string }

// Error says what is wrong with the topic and what to do.
func (e *TopicError) Error() string {
	return "kolk: topic " + e.Topic + ": " + e.Problem + "; " + e.Remedy
}

// public turns errors of inner packages into those that callers can match. Errors that were joined, one for each thing that is wrong, are
// turned one by one.
func public(err error) error {
	if e, ok := errors.AsType[*engine.RecordError](err); ok {
		return &RecordError{Stage: e.Stage, Task: e.Task, Node: e.Node, Topic: e.Topic, Partition: e.Partition, Offset: e.Offset, Err: e.Err}
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok && reflect.TypeOf(err) == reflect.TypeOf(errors.Join(err)) {
		var out []error
		for _, e := range many.Unwrap() {
			out = append(out, public(e))
		}
		return errors.Join(out...)
	}
	if e, ok := errors.AsType[*changelog.TopicError](err); ok {
		return &TopicError{Topic: e.Topic, Problem: e.Problem, Remedy: e.Remedy}
	}
	return err
}
