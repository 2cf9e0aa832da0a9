package engine

import (
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/kolkstreams/kolk/internal/state"
)

// Counter counts the records that one node drops for one reason. It may be read by other goroutines.
type Counter struct {
	Node   *Node
	Reason string
	n      atomic.Int64
	policy Policy
	sent   int64 // offset of the last record sent to the dead letter topic, so that each goes once
	input  int
}

// Count is the number of dropped records.
func (c *Counter) Count() int64 { return c.n.Load() }

type counterKey struct {
	node   *Node
	reason string
}

// Drop is one record that was dropped.
type Drop struct {
	Task, Node, Reason string
	Time               int64
	Topic              string // empty for a timer's record
	Partition          int32
	Offset             int64
	Key, Value         []byte // as they came
	Headers            []Header
}

// Counter is the counter of a node's drops for a reason. Operators ask for it once, when they are made.
func (t *Task) Counter(n *Node, reason string) *Counter {
	key := counterKey{n, reason}
	c := t.counters[key]
	if c == nil {
		c = &Counter{Node: n, Reason: reason, policy: Policy{Kind: Skip}, sent: -1}
		if n != nil {
			for _, rule := range n.OnDrop {
				reasons := rule.Reasons
				if len(reasons) == 0 {
					reasons = Lossy
				}
				if slices.Contains(reasons, reason) {
					c.policy = rule.Policy
				}
			}
		}
		t.counters[key] = c
	}
	return c
}

// Counters are all counters of the task, in no order.
func (t *Task) Counters() []*Counter {
	out := make([]*Counter, 0, len(t.counters))
	for _, c := range t.counters {
		out = append(out, c)
	}
	return out
}

// Drop counts the record and does what the node's policy says. It returns unless the policy is Stop.
func (t *Task) Drop(c *Counter, r *Rec) {
	c.n.Add(1)
	if t.env.Dropped != nil {
		t.env.Dropped(t.event(c.Node, c.Reason, r))
	}
	switch c.policy.Kind {
	case Stop:
		t.Abort(t.recordError("process", c.Node, fmt.Errorf("dropped: %s", c.Reason)))
	case DeadLetter:
		if r.Input >= 0 && !r.Kept && (c.sent != r.Offset || c.input != r.Input) {
			c.sent, c.input = r.Offset, r.Input
			t.deadLetter(c.policy.Topic, c.Node, c.Reason, nil, r)
		}
	}
}

// event is a record as hooks are told of it.
func (t *Task) event(n *Node, reason string, r *Rec) Drop {
	d := Drop{Task: t.ID, Reason: reason, Time: r.Time, Partition: t.Partition, Offset: r.Offset, Key: r.RawKey, Value: r.RawValue, Headers: r.Headers}
	if n != nil {
		d.Node = n.Name
	}
	if r.Input >= 0 {
		d.Topic = t.Sub.Inputs[r.Input].Full(t.env.App)
	}
	return d
}

// ErrorPolicy is what holds for records that fail at a node: its own policy, or the application's for the stage.
func (t *Task) ErrorPolicy(n *Node, stage string) Policy {
	if n != nil && n.OnError.Kind != Unset {
		return n.OnError
	}
	p := t.env.OnProcess
	switch stage {
	case "decode":
		p = t.env.OnDecode
	case "produce":
		p = t.env.OnProduce
	}
	if p.Kind == Unset {
		p.Kind = Stop
	}
	return p
}

// Fail does with a failed record what the policy of the node says: it returns if the record is skipped or sent to a dead letter topic,
// and unwinds to the task's entry if the application is to stop. stage is "decode", "process" or "produce".
func (t *Task) Fail(stage string, n *Node, r *Rec, err error) {
	p := t.ErrorPolicy(n, stage)
	switch p.Kind {
	case Skip:
		t.env.Log.Warn("record skipped", "task", t.ID, "error", t.recordError(stage, n, err))
		t.Drop(t.Counter(n, "skipped"), r)
	case DeadLetter:
		t.env.Log.Warn("record sent to dead letter topic", "task", t.ID, "topic", p.Topic, "error", t.recordError(stage, n, err))
		t.Drop(t.Counter(n, "skipped"), r)
		t.deadLetter(p.Topic, n, "skipped", err, r)
	default:
		t.Abort(t.recordError(stage, n, err))
	}
}

// Guarded says whether a panic of user code at a node must be caught there, because the policy lets the rest of the task go on.
func (t *Task) Guarded(n *Node) bool { return t.ErrorPolicy(n, "process").Kind != Stop }

// Guard runs user code at a node and treats a panic as a failed record. It returns false if f did not end. A failure that is meant for the
// task as a whole, or that belongs to a node further down, passes through.
func (t *Task) Guard(n *Node, r *Rec, f func()) (ok bool) {
	defer func() {
		p := recover()
		switch p := p.(type) {
		case nil:
			return
		case unwind, state.Broken:
			panic(p)
		}
		if t.at != n {
			panic(p)
		}
		t.Fail("process", n, r, panicked(p))
	}()
	t.at = n
	f()
	return true
}

// deadLetter sends the input record as it came, with headers that say what happened: those of Kafka Streams for where it came from and the
// error, and two of ours for the node and the reason.
func (t *Task) deadLetter(topic string, n *Node, reason string, err error, r *Rec) {
	name := ""
	if n != nil {
		name = n.Name
	}
	if t.env.DeadLettered != nil {
		t.env.DeadLettered(name, err)
	}
	if r.Input < 0 || r.Kept {
		return // there is no record to send
	}
	h := append([]Header(nil), r.Headers...)
	add := func(key, value string) { h = append(h, Header{key, []byte(value)}) }
	if err != nil {
		add("__streams.errors.exception", fmt.Sprintf("%T", err))
		add("__streams.errors.message", err.Error())
	}
	add("__streams.errors.topic", t.Sub.Inputs[r.Input].Full(t.env.App))
	add("__streams.errors.partition", strconv.Itoa(int(t.Partition)))
	add("__streams.errors.offset", strconv.FormatInt(r.Offset, 10))
	add("kolk.node", name)
	add("kolk.reason", reason)
	partition := int32(-1)
	if count := t.env.Partitions(topic); count > 0 && r.RawKey != nil {
		partition = Partition(r.RawKey, count)
	}
	t.moved = true
	if err := t.env.Output.Emit(topic, partition, r.RawKey, r.RawValue, r.Time, h); err != nil {
		t.Abort(t.recordError("produce", n, fmt.Errorf("send to the dead letter topic %s: %w", topic, err))) // there is no further topic to send it to
	}
}
