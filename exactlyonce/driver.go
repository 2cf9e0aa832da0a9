package exactlyonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Offset is where a task goes on reading one input, with what it has to remember.
type Offset struct {
	Topic       string
	Partition   int32
	Next        int64  // offset of the next record to read
	LeaderEpoch int32  // of the last record read; -1 when it is not known
	Metadata    string // at most the broker's offset.metadata.max.bytes (4,096) less MetadataOverhead bytes
}

// TopicPartitions names partitions of one topic.
type TopicPartitions struct {
	Topic      string
	Partitions []int32
}

// Participant is what the cycle commits: the tasks of one worker. All calls come from the goroutine that calls the Driver.
type Participant interface {
	// Partitions says where the next transaction is going to write, outputs and changelogs. They are added to the
	// transaction early, so that a flush need not wait for the markers of the one before. Too few cost time, too many a marker each.
	Partitions() []TopicPartitions

	// Stage hands out a record for every entry that changed since the last commit. A record belongs to the client until
	// Committed, which finds its Offset filled in, or Rollback, after which it must not be used again. An error aborts.
	Stage(produce func(*kgo.Record)) error

	// Offsets returns the offsets of every task that moved, produced or staged anything since the last commit: all of its
	// inputs, also those that did not move. None means that there is nothing to commit.
	Offsets() []Offset

	// Committed says that the transaction is committed: what was dirty is committed now.
	Committed()

	// Rollback says that it is not: what was dirty falls back to what was committed. It may come without anything dirty.
	Rollback()
}

// Identity is the membership under which offsets are committed.
type Identity struct {
	Member     string // member id; empty without a group
	Generation int32  // generation of a classic group, member epoch of the newer protocols; -1 without a group
}

// Config is what Open needs. Fields without a remark on zero are required.
type Config struct {
	Group           string
	InstanceID      string        // group.instance.id of a static member; zero: a dynamic member
	TransactionalID string        // required for ExactlyOnce: unique among all running workers, the same after a restart
	Guarantee       Guarantee     // zero: ExactlyOnce
	Timeout         time.Duration // transaction timeout, and the longest time one request is retried; zero: 10 s
	GenerationWait  time.Duration // how long to wait for a new generation before commits count as refused; zero: 1 s

	// Client holds the options of the worker's client: seeds, client id, security, logger, and those of its consumer. They
	// may change what this package sets for producing, but not the partitioner, the acknowledgements, the transaction
	// and the cap on versions.
	Client []kgo.Opt

	// Identity is the guard. It returns false as soon as the tasks belong to a former member id or the membership is lost,
	// and until they were opened anew. It may be called at any time from the driver's goroutine. Nil: commits go
	// without a member, which only fits a group that has no members.
	Identity func() (Identity, bool)

	// TopicID returns the id of an input topic; the newest versions of the offset requests name topics by it, so that a topic
	// made anew is noticed. Nil: versions that name topics by name are used.
	TopicID func(topic string) [16]byte

	Logger *slog.Logger // nil: nothing is logged
}

func (c *Config) validate() error {
	var faults []error
	if c.Group == "" {
		faults = append(faults, errors.New("no Group is given"))
	}
	if c.Guarantee == ExactlyOnce && c.TransactionalID == "" {
		faults = append(faults, errors.New("no TransactionalID is given: exactly-once needs one for each worker"))
	}
	if c.Guarantee > AtLeastOnce {
		faults = append(faults, fmt.Errorf("Guarantee %d is unknown", c.Guarantee))
	}
	if c.Timeout < 0 || c.GenerationWait < 0 {
		faults = append(faults, errors.New("negative Timeout or GenerationWait"))
	}
	if len(faults) > 0 {
		return fmt.Errorf("exactlyonce: %w", errors.Join(faults...))
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.GenerationWait == 0 {
		c.GenerationWait = time.Second
	}
	if c.Identity == nil {
		c.Identity = func() (Identity, bool) { return Identity{Generation: -1}, true }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Kind is how a cycle ended.
type Kind uint8

const (
	// Nothing: there was nothing to commit. Neither Committed nor Rollback was called.
	Nothing Kind = iota
	// Committed: offsets, changes and output are committed, and Participant.Committed was called.
	Committed
	// Aborted: none of them are, and Participant.Rollback was called. The caller reads its inputs again from the committed
	// offsets, skips what it still has buffered, and goes on.
	Aborted
	// Rejected is Aborted with a record that would fail again; Err holds a *ProduceError. The driver can be used on.
	Rejected
	// Refused is Aborted, and the group does not accept these tasks. The caller stops processing until the group assigns
	// again, drops the tasks that are not its own, and calls Resume.
	Refused
	// Fatal: nothing can go on; Rollback was called. What is committed locally stays valid.
	Fatal
	// Abandoned: the context ended before the outcome was known. Rollback was called, but the transaction may be committed:
	// the tasks may only go on after they were opened again. The driver is closed.
	Abandoned
)

var kindNames = [...]string{"nothing", "committed", "aborted", "rejected", "refused", "fatal", "abandoned"}

// String returns the kind in lower case.
func (k Kind) String() string { return kindNames[k] }

// Outcome is the result of a commit or an abort.
type Outcome struct {
	Kind     Kind
	Err      error // why it was not committed; nil for Nothing, Committed and an abort that the caller asked for
	Reopened bool  // Driver.Client is another one: what was consumed has to be added again
	TimedOut bool  // the broker ended the transaction because it was open for longer than the timeout
	Replays  int   // how many cycles in a row, this one included, had to be processed again

	Records  int64         // records produced in this cycle
	Register time.Duration // waiting, while processing, for the markers of the transaction before
	Stage    time.Duration
	Flush    time.Duration
	Offsets  time.Duration
	End      time.Duration
	Total    time.Duration // of Commit or Abort, all of the above but Register included
}

// Driver runs the commit cycle of one worker. It is for one goroutine; only Client may be used from others, as a
// kgo.Client can.
type Driver struct {
	cfg Config
	p   Participant
	m   machine
	cl  *kgo.Client

	sends    *sends
	promise  func(*kgo.Record, error) // sends.done, made once for a transaction
	produced int64
	loaded   loaded
	stamp    uint64 // number of the last transaction that carried offsets; starts at random
	identity Identity
	sent     []Offset // the offsets of this cycle, as they were sent
	stamped  bool     // they carry the stamp
	pid      int64
	epoch    int16
	register time.Duration
	closed   bool
}

// sends collects what becomes of the records of one transaction. It is made anew for each, so that a late answer of a closed
// client cannot be taken for one of the next transaction.
type sends struct {
	acked atomic.Int64
	first atomic.Pointer[ProduceError]
}

func (d *Driver) newSends() {
	d.sends = new(sends)
	d.promise = d.sends.done
}

func (s *sends) done(r *kgo.Record, err error) {
	if err == nil {
		s.acked.Add(1)
		return
	}
	s.first.CompareAndSwap(nil, produceError(r, err))
}

func (s *sends) err() error {
	if e := s.first.Load(); e != nil {
		return e
	}
	return nil
}

// Open makes the worker's client. Under exactly-once it initialises the transactional id, again and again until it works or
// ctx ends: that aborts what a predecessor with the same id left open and keeps it from writing on. So it has to be done
// before any task is opened.
func Open(ctx context.Context, cfg Config, p Participant) (*Driver, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, p: p, stamp: rand.Uint64(), m: machine{guarantee: cfg.Guarantee, timeout: cfg.Timeout}}
	d.cfg.Client = append([]kgo.Opt(nil), cfg.Client...)
	d.newSends()
	if out := d.run(ctx, event{kind: evOpen}); out.Kind == Fatal {
		d.Close()
		return nil, fmt.Errorf("opening the client for transactional id %q: %w", cfg.TransactionalID, out.Err)
	}
	return d, nil
}

// Client returns the worker's client, which also consumes. It is another one after an Outcome with Reopened.
func (d *Driver) Client() *kgo.Client { return d.cl }

// Produce sends a record, with Record.Partition set, in the worker's transaction, which begins with the first. It does not
// wait for the acknowledgement; it blocks while the client's buffer is full. A record that fails is kept for Err and makes the
// next Commit abort; from then on records are dropped. ctx should only end when the process gives up: a record
// whose context has ended fails.
func (d *Driver) Produce(ctx context.Context, r *kgo.Record) {
	if d.m.txn == txnNone {
		begun := time.Now()
		d.run(ctx, event{kind: evRecord})
		d.register += time.Since(begun)
	}
	if d.m.txn != txnOpen || d.m.broken != nil || d.sends.first.Load() != nil {
		return
	}
	d.produced++
	d.loaded.note(r.Topic)
	d.cl.Produce(ctx, r, d.promise)
}

// Err returns the first failure since the last cycle, or nil. After one there is no use in processing on: Commit will abort.
func (d *Driver) Err() error {
	switch {
	case d.m.state == refused:
		return ErrRefused
	case d.m.state == dead:
		return ErrClosed
	case d.m.broken != nil:
		return d.m.broken
	}
	return d.sends.err()
}

// OpenSince returns when the running transaction, or the first uncommitted record, began; zero without one.
// A caller commits well before Config.Timeout has passed.
func (d *Driver) OpenSince() time.Time { return d.m.opened }

// Commit runs one cycle. Ending ctx before the end of the transaction is sent makes it abort; ending it later can lead to
// Abandoned.
func (d *Driver) Commit(ctx context.Context) Outcome {
	d.sent, d.stamped = append([]Offset(nil), d.p.Offsets()...), false
	return d.cycle(ctx, event{kind: evCommit, offsets: len(d.sent)})
}

// Abort ends the transaction without effect: a record failed, or tasks were lost.
func (d *Driver) Abort(ctx context.Context) Outcome {
	d.sent = nil
	return d.cycle(ctx, event{kind: evAbort})
}

// Resume lets the driver go on after Refused. Call it when the group has assigned again and the tasks that were lost are
// gone. Otherwise it does nothing.
func (d *Driver) Resume() { d.m.step(event{kind: evResume}) }

// Close closes the client. A transaction that is open stays so until the next Open with its id, a fence, or its timeout.
func (d *Driver) Close() {
	if d.closed {
		return
	}
	d.closed = true
	d.m.state = dead
	if d.cl != nil {
		d.cl.Close()
	}
}

func (d *Driver) cycle(ctx context.Context, ev event) Outcome {
	begun := time.Now()
	out := d.run(ctx, ev)
	out.Total = time.Since(begun)
	if out.Kind == Nothing {
		return out
	}
	out.Records, out.Register = d.produced, d.register
	d.produced, d.register, d.sent = 0, 0, nil
	d.newSends()
	if out.Kind != Committed {
		d.cfg.Logger.Warn("transaction not committed", "outcome", out.Kind.String(), "err", out.Err, "reopened", out.Reopened,
			"timed_out", out.TimedOut, "transactional_id", d.cfg.TransactionalID)
	}
	if out.Kind == Abandoned {
		d.Close()
	}
	return out
}

// run steps the machine and does what it asks for until it has an answer.
func (d *Driver) run(ctx context.Context, ev event) Outcome {
	var took Outcome
	for {
		ev.now, ev.acked = time.Now(), d.sends.acked.Load()
		a := d.m.step(ev)
		switch a.kind {
		case actNone:
			return Outcome{}
		case actReturn:
			out := d.m.out
			out.Stage, out.Flush, out.Offsets, out.End = took.Stage, took.Flush, took.Offsets, took.End
			return out
		}
		begun := time.Now()
		if ev = d.perform(ctx, a); ev.kind == evFailed {
			d.cfg.Logger.Debug("commit cycle", "action", a.kind.String(), "err", ev.err)
		}
		switch d0 := time.Since(begun); a.kind {
		case actStage:
			took.Stage += d0
		case actFlush:
			took.Flush += d0
		case actAddOffsets, actTxnOffsets, actOffsets, actAwait:
			took.Offsets += d0
		case actEndCommit, actEndAbort, actDiscard, actReopen, actCompare:
			took.End += d0
		}
	}
}
