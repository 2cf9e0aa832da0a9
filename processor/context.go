package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/store"
)

// Context is a processor's link to its task. K2 and V2 are what it forwards. It is valid inside Init, Process and timers, on
// their goroutine only.
type Context[K2 comparable, V2 any] struct {
	base
	link[K2, V2]
}

type link[K comparable, V any] = engine.Link[K, V]

// Forward sends a record to all children and returns when they are done with it.
func (c *Context[K2, V2]) Forward(r Record[K2, V2]) {
	forward(&c.place, engine.Next(&c.link), r)
}

// FixedKeyContext is the Context of a processor that keeps the key.
type FixedKeyContext[K comparable, V2 any] struct {
	base
	link[K, V2]
	check[K]
}

type check[K comparable] = engine.Check[K]

// Forward sends a record to all children and returns when they are done with it.
func (c *FixedKeyContext[K, V2]) Forward(r FixedKeyRecord[K, V2]) {
	key, null, set := engine.KeyOf(&r.fixed)
	if !set {
		engine.TaskOf(&c.place).Throw(errors.New("a FixedKeyRecord without a key was forwarded: make it from the record that came in, or with the context's Record"))
	}
	forward(&c.place, engine.Next(&c.link), Record[K, V2]{key, r.Value, r.Time, null, r.Headers})
}

// Record makes a record for timers, which have none to start from. key must be one that this task has received, such as one from its store;
// a key of another partition fails the record at hand. (It is not checked where the topic is PartitionedBy.)
func (c *FixedKeyContext[K, V2]) Record(key K, value V2, at time.Time) FixedKeyRecord[K, V2] {
	if err := engine.CheckOf(&c.check, key); err != nil {
		engine.TaskOf(&c.place).Throw(err)
	}
	r := FixedKeyRecord[K, V2]{Value: value, Time: at}
	engine.Fix(&r, key, false)
	return r
}

type place = engine.Place

// base is what all contexts have.
type base struct{ place }

// forward gives a record to next in place of the one at hand.
func forward[K comparable, V any](p *engine.Place, next engine.Receive[K, V], r Record[K, V]) {
	t := engine.TaskOf(p)
	at := r.Time.UnixMilli()
	if at < 0 {
		t.Throw(fmt.Errorf("a record with the time %v was forwarded: times before 1970 cannot be written; give it the time of the record that came in", r.Time.UTC()))
	}
	rec := t.Rec()
	was := *rec
	rec.Time, rec.NullKey, rec.Headers = at, r.NullKey, engine.ListOf(&r.Headers.headers)
	next(rec, r.Key, r.Value)
	*rec = was
	t.At(engine.NodeOf(p))
}

// ForwardTo sends a record to one named output, which has types of its own. Without a stream taken from the output it goes nowhere.
func (c *base) ForwardTo[K3 comparable, V3 any](out Output[K3, V3], r Record[K3, V3]) {
	switch next := engine.OutputOf(&c.place, out.name).(type) {
	case engine.Receive[K3, V3]:
		forward(&c.place, next, r)
	case nil:
	default:
		engine.TaskOf(&c.place).Throw(fmt.Errorf("output %q was taken with other types than it is forwarded to with: declare it once, in a variable", out.name))
	}
}

// Store opens a store that was connected where the processor was added. Opening is cheap, but belongs in Init. Opening a store
// that was not connected ends the task with an error that names both.
func (c *base) Store[W any](h store.Handle[W]) W {
	t, n := engine.TaskOf(&c.place), engine.NodeOf(&c.place)
	if h.Name() == "" {
		t.Abort(fmt.Errorf("processor %q opens a store that was never declared: use a handle made by package store", n.Name))
	}
	if !slices.Contains(n.Stores, h.Name()) {
		has := "none"
		if len(n.Stores) > 0 {
			has = strings.Join(n.Stores, ", ")
		}
		t.Abort(fmt.Errorf("processor %q (%s) opens store %q, which is not connected to it (it has %s): hand the store to Process", n.Name, n.Place, h.Name(), has))
	}
	s, ok := t.Opened(h).(W)
	if !ok {
		t.Abort(fmt.Errorf("processor %q opens store %q with other types than it was declared with: use the same handle in both places", n.Name, h.Name()))
	}
	return s
}

// Every calls f as time passes, until the timer is stopped or the processor is closed. With StreamTime it follows the event time of the
// records: first when it is known, then on multiples of d since 1970; skipped ticks are made up for by one call. With kolk.Config.CloseIdle stream time goes on
// while no records come, and so do these timers. With WallTime it follows
// the clock, first after d. d is counted in whole milliseconds and is at least one.
func (c *base) Every(d time.Duration, kind Clock, f func(now time.Time) error) *Timer {
	t := engine.TaskOf(&c.place)
	clock := engine.StreamClock
	if kind == WallTime {
		clock = engine.WallClock
	}
	timer, err := t.Every(d.Milliseconds(), clock, engine.NodeOf(&c.place), func(now int64) error { return f(instant(now)) })
	if err != nil {
		t.Throw(err)
	}
	return &Timer{timer}
}

// Metadata of the record being processed; false inside a timer, and for what tables send on at a commit.
func (c *base) Metadata() (Metadata, bool) {
	t := engine.TaskOf(&c.place)
	r := t.Rec()
	if r.Input < 0 {
		return Metadata{}, false
	}
	return Metadata{Topic: t.Sub.Inputs[r.Input].Full(t.Env().App), Partition: t.Partition, Offset: r.Offset}, true
}

// StreamTime is the largest event time the task has taken in; the zero time before the first record.
func (c *base) StreamTime() time.Time {
	if at := engine.TaskOf(&c.place).StreamTime(); at >= 0 {
		return instant(at)
	}
	return time.Time{}
}

// WallTime is the clock, read once per loop. Results that depend on it differ when records are processed again.
func (c *base) WallTime() time.Time { return instant(engine.TaskOf(&c.place).Env().Wall()) }

// RequestCommit asks for a commit soon after this record; it does not wait for it.
func (c *base) RequestCommit() { engine.TaskOf(&c.place).RequestCommit() }

// TaskID is `<sub-topology>_<partition>`.
func (c *base) TaskID() string { return engine.TaskOf(&c.place).ID }

// Context ends when the task is closed; give it to calls that may block.
func (c *base) Context() context.Context { return engine.TaskOf(&c.place).Env().Context }

// instant is in UTC, so that what is printed or cut off does not depend on the machine.
func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// Clock is the kind of time a timer follows.
type Clock int

// The two kinds of time.
const (
	StreamTime Clock = iota
	WallTime
)

// Timer is a running schedule. It belongs to its processor's goroutine.
type Timer struct{ timer *engine.Timer }

// Stop ends the schedule, also from inside its own function.
func (t *Timer) Stop() { t.timer.Stop() }
