package kolk

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config is how to run a topology. Zero values mean the defaults; New reports everything that is wrong at once.
type Config struct {
	// Application is the consumer group and the prefix of internal topics and transactional ids. Required; changing it abandons the state.
	Application string
	// Brokers are seed addresses, host:port. Required.
	Brokers []string
	// StateDir is the folder of the local stores, one per instance. Losing it costs a restore, never data. Required if any store is on disk.
	StateDir string
	// Guarantee is ExactlyOnce (the zero value) or AtLeastOnce.
	Guarantee Guarantee
	// CommitEvery is the commit interval. Zero means 100 ms under ExactlyOnce, 30 s under AtLeastOnce.
	CommitEvery time.Duration
	// CheckpointEvery is how often what is committed is written from memory to the local stores; memory running short, a task that moves and the end of Run do it earlier. What a crash leaves
	// unwritten is read again from the changelog. Zero means 10 s.
	CheckpointEvery time.Duration
	// Workers is how many goroutines own tasks, each with a producer. Zero means GOMAXPROCS.
	Workers int
	// Memory is by how many bytes the stores together may make the process grow: caches, memtables and staged writes, and what Go's collector adds to
	// them as long as GOGC is 100. Filters of large windows may have up to three eighths more. Zero means half of GOMEMLIMIT, or 512 MiB.
	Memory int64
	// InstanceID makes this a static member of the group (Kafka's group.instance.id): a restart within SessionTimeout moves no task. It must differ between
	// instances and stay with each; a second process with the same id stops the first. Empty means a dynamic member.
	InstanceID string
	// SessionTimeout is how long an instance may be silent before its tasks go to others. Zero means 15 s, or 45 s with an InstanceID.
	SessionTimeout time.Duration
	// TransactionTimeout is when the broker aborts a transaction nobody ends; until then a dead instance blocks readers of its output. Zero means 10 s. It must be longer
	// than CommitEvery.
	TransactionTimeout time.Duration
	// CloseTimeout is how long the end of Run may take to commit, write the stores and leave the group; what is not done by then is left to the next start. Zero means 30 s.
	CloseTimeout time.Duration
	// InternalTopics is how changelogs and repartition topics are created.
	InternalTopics InternalTopics
	// MaxIdle is how long a task waits for an input that has no data while another has, so that records are taken in order of time (as Kafka Streams'
	// max.task.idle.ms, which also counts the time in which nobody waited). Results then do not depend on how fast each input is written and read, as long as none lags
	// behind another by more than that; the price is that records wait so long where the other input is silent. Zero waits only for what the broker already has, as
	// far as that is known from the last fetch; -1 never waits. What an open transaction upstream hides is not waited for.
	MaxIdle time.Duration
	// MaxAhead drops records whose event time is more than this past the wall clock, counted under "ahead", so that one wrong clock cannot expire everybody's
	// state; they do not move stream time. topology.OnDrop at the source sends them elsewhere. Zero, the default, takes every time: results then depend on data alone.
	MaxAhead time.Duration
	// CloseIdle lets stream time go on by the wall clock where no records come, so that the last windows of a quiet partition close. A task is idle once it has read all of its
	// inputs to their ends, which the brokers are asked for: up to the last stable offset, so records of transactions that are still open do not count. Behind a repartition topic the tasks
	// that write it must have read what was in their inputs, too. After CloseIdle without a record, stream time goes on from where the last one left it, by as much as the wall
	// clock has since: the task's, and that of each of its operators that has seen a record. It does so when something is due, and at most once a second: final windows and sessions, rows of
	// Suppress and Throttle, a ThenNot, unmatched records of joins, entries with a TTL, timers of stream time. One that stands behind an operator that still holds something back waits for it.
	//
	// Stream time that has gone on is committed, and stays so after a restart or move: what was closed is closed. Records that come later with earlier times are
	// late, and dropped and counted as such, though they would have been in time without CloseIdle. So make it longer than records are under way, than the transactions of who writes them, and than
	// that clients may be cut off from their brokers. Where the results of one operator are the input of another behind a repartition topic, give the latter grace: its time does not wait for results yet to come.
	//
	// Time in which the task does not run is not idle time: after a stop, a crash or a move it counts anew from the moment at which the task is found at the ends of its inputs again. So an
	// application that was down for a day closes nothing for that; what comes meanwhile is read before.
	//
	// Results depend on when records come and not on the records alone: the same input read again may be closed elsewhere. Zero, the default, never closes anything without a record.
	CloseIdle time.Duration
	// OnDecodeError, OnProcessError and OnProduceError hold for stages without topology.OnError. Zero means topology.Stop.
	OnDecodeError, OnProcessError, OnProduceError topology.Policy
	// MinFreeDisk is how many bytes must stay free on the disk of StateDir: an App that would use them stops before the store breaks. Zero means 256 MiB.
	MinFreeDisk int64
	// Rack is where this instance runs, for fetching from near replicas.
	Rack string
	// AllowMovedOffsets starts although committed offsets were changed by somebody else, keeping the state as it is.
	AllowMovedOffsets bool
	// Logger receives one line per state change. Nil means slog.Default. Keys and values are never logged.
	Logger *slog.Logger
	// Hooks are told what happens, for tracing and tests. May be nil.
	Hooks *Hooks
	// Kafka are further client options: TLS, SASL, dialer, fetch sizes. Those kolk must own (group, transactional id, balancers, isolation) are refused by name.
	Kafka []kgo.Opt
}

// Guarantee is what a failure may do to results.
type Guarantee int

const (
	// ExactlyOnce ties offsets, state and output together in transactions. Readers of the output must read committed.
	ExactlyOnce Guarantee = iota
	// AtLeastOnce may count records again after a failure.
	AtLeastOnce
)

// InternalTopics is how changelogs and repartition topics are created. Topics that exist are checked, and not altered, but for the limits
// of age where event time is so far behind the clock that the broker would remove state.
type InternalTopics struct {
	// Replicas is the replication factor. Zero means the broker's default.
	Replicas int16
	// Config are topic configurations for all of them, such as "min.insync.replicas". store.Changelog wins over it; those that kolk's correctness hangs on
	// (cleanup.policy, message.timestamp.type) are refused.
	Config map[string]string
}

// fill sets what was left zero.
func (c *Config) fill() {
	def := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	if c.Guarantee == ExactlyOnce {
		def(&c.CommitEvery, 100*time.Millisecond)
	} else {
		def(&c.CommitEvery, 30*time.Second)
	}
	def(&c.CheckpointEvery, 10*time.Second)
	if c.InstanceID != "" {
		def(&c.SessionTimeout, 45*time.Second)
	} else {
		def(&c.SessionTimeout, 15*time.Second)
	}
	def(&c.TransactionTimeout, 10*time.Second)
	def(&c.CloseTimeout, 30*time.Second)
	if c.Workers == 0 {
		c.Workers = runtime.GOMAXPROCS(0)
	}
	if c.Memory == 0 {
		c.Memory = 512 << 20
		if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
			c.Memory = limit / 2
		}
	}
	if c.MinFreeDisk == 0 {
		c.MinFreeDisk = 256 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Hooks == nil {
		c.Hooks = new(Hooks)
	}
}

// validate names everything that is wrong with a filled configuration.
func (c *Config) validate(g *engine.Graph) error {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf("kolk: Config."+format, args...)) }
	switch {
	case c.Application == "":
		bad("Application is empty; name the application: it becomes the consumer group")
	case changelog.ValidName(c.Application) != nil:
		bad("Application: %w", changelog.ValidName(c.Application))
	}
	if len(c.Brokers) == 0 {
		bad("Brokers is empty; give at least one host:port")
	}
	for _, b := range c.Brokers {
		if strings.TrimSpace(b) == "" {
			bad("Brokers has an empty address; give host:port")
		}
	}
	if c.StateDir == "" && onDisk(g) != "" {
		bad("StateDir is empty, but store %q is kept on disk; give a folder, or declare the store with store.InMemory", onDisk(g))
	}
	if c.Guarantee != ExactlyOnce && c.Guarantee != AtLeastOnce {
		bad("Guarantee is %d; use ExactlyOnce or AtLeastOnce", c.Guarantee)
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"CommitEvery", c.CommitEvery}, {"CheckpointEvery", c.CheckpointEvery}, {"SessionTimeout", c.SessionTimeout}, {"TransactionTimeout", c.TransactionTimeout}, {"CloseTimeout", c.CloseTimeout}} {
		if d.d < time.Millisecond {
			bad("%s is %v; give at least 1ms, or zero for the default", d.name, d.d)
		}
	}
	if c.Guarantee == ExactlyOnce && c.TransactionTimeout <= c.CommitEvery {
		bad("TransactionTimeout is %v, not longer than CommitEvery, %v: every transaction would time out; raise it or commit more often", c.TransactionTimeout, c.CommitEvery)
	}
	if c.Workers < 0 {
		bad("Workers is %d; give at least 1, or zero for GOMAXPROCS", c.Workers)
	}
	if c.Memory < 0 {
		bad("Memory is %d; give bytes, or zero for the default", c.Memory)
	}
	if c.MinFreeDisk < 0 {
		bad("MinFreeDisk is %d; give bytes, or zero for the default", c.MinFreeDisk)
	}
	if c.MaxIdle < 0 && c.MaxIdle != -1 {
		bad("MaxIdle is %v; give a duration, zero, or -1 to never wait", c.MaxIdle)
	}
	if c.MaxAhead < 0 {
		bad("MaxAhead is %v; give a duration, or zero to take every time", c.MaxAhead)
	}
	if c.CloseIdle != 0 && c.CloseIdle < time.Millisecond {
		bad("CloseIdle is %v; give at least 1ms, or zero to let only records move stream time", c.CloseIdle)
	}
	if c.InternalTopics.Replicas < 0 {
		bad("InternalTopics.Replicas is %d; give a count, or zero for the broker's default", c.InternalTopics.Replicas)
	}
	for _, key := range []string{"cleanup.policy", "message.timestamp.type"} {
		if v, ok := c.InternalTopics.Config[key]; ok {
			bad("InternalTopics.Config sets %s=%s, which correctness hangs on; leave it out", key, v)
		}
	}
	faults = append(faults, refused(c.Kafka)...)
	return errors.Join(faults...)
}

// onDisk is a store that needs StateDir.
func onDisk(g *engine.Graph) string {
	for _, s := range g.Subs {
		for _, d := range s.Stores {
			if !d.InMemory {
				return d.Name
			}
		}
	}
	for _, t := range g.Globals {
		if !t.Store.InMemory {
			return t.Store.Name
		}
	}
	return ""
}
