package topologytest

import (
	"fmt"
	"time"
)

// Option changes New.
type Option interface{ set(*options) }

type options struct {
	partitions        int32
	topics            map[string]int32
	start             time.Time
	manual            bool
	maxIdle, maxAhead int64
	closeIdle         int64
	fault             string
}

type option func(*options)

func (f option) set(o *options) { f(o) }

// Partitions gives every topic of yours n partitions; 1 unless set. Repartition topics follow, as in an application.
func Partitions(n int) Option {
	return option(func(o *options) {
		o.partitions = int32(n)
		if n < 1 || n > maxPartitions {
			o.fault = fmt.Sprintf("Partitions(%d): give a number from 1 to %d", n, maxPartitions)
		}
	})
}

const maxPartitions = 10_000

// Topic gives one topic of yours a number of partitions of its own. Topics that must agree can be given different counts, to test that this
// is refused.
func Topic(name string, partitions int) Option {
	return option(func(o *options) {
		if o.topics == nil {
			o.topics = make(map[string]int32)
		}
		o.topics[name] = int32(partitions)
		if partitions < 1 || partitions > maxPartitions {
			o.fault = fmt.Sprintf("Topic(%q, %d): give a number from 1 to %d", name, partitions, maxPartitions)
		}
	})
}

// StartAt sets the wall clock; 2026-01-01 UTC unless set.
func StartAt(t time.Time) Option { return option(func(o *options) { o.start = t }) }

// ManualCommit commits only on Driver.Commit, so that what happens between commits can be seen. Unless set, each Send and Advance commits.
func ManualCommit() Option { return option(func(o *options) { o.manual = true }) }

// MaxIdle is how long a task waits for an input that has no records, by the driver's wall clock: kolk.Config.MaxIdle. Advance releases a task that
// waits. Unless set, tasks do not wait, as every record is there as soon as it is sent.
func MaxIdle(d time.Duration) Option {
	return option(func(o *options) { o.maxIdle = d.Milliseconds() })
}

// MaxAhead drops records that are further than d past the driver's wall clock, as kolk.Config.MaxAhead does. Unless set, every time is taken.
func MaxAhead(d time.Duration) Option {
	return option(func(o *options) { o.maxAhead = d.Milliseconds() })
}

// CloseIdle moves stream time by the driver's wall clock once no record has come for d, as kolk.Config.CloseIdle does: Driver.Advance lets the time pass, and
// every record that was sent is at the end of its input. d is at least a millisecond. Unless set, stream time moves with records only.
func CloseIdle(d time.Duration) Option {
	return option(func(o *options) {
		o.closeIdle = d.Milliseconds()
		if d < time.Millisecond {
			o.fault = fmt.Sprintf("CloseIdle(%v): give at least a millisecond, or leave it out", d)
		}
	})
}
