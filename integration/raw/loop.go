package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kolkstreams/kolk/integration/contract"
)

// pollRecords bounds the work between two looks at the clock.
const pollRecords = 10_000

// counter is the count of one key.
type counter struct {
	key   []byte
	n     uint64
	dirty bool // changed since the last commit
}

// loop is one client and its counts.
type loop struct {
	flags     contract.Flags
	report    contract.Reporter
	changelog bool
	opts      []kgo.Opt

	cl       *kgo.Client
	topicID  [16]byte              // of the input
	counts   []map[string]*counter // by partition
	dirty    [][]*counter          // by partition
	offsets  map[int32]int64       // next to read, where it moved since the last commit
	inTxn    bool
	produced error // the first produce that failed
	reported error // of the report that it runs
}

func newLoop(f contract.Flags, report contract.Reporter, changelog bool, opts ...kgo.Opt) *loop {
	l := &loop{flags: f, report: report, changelog: changelog, opts: opts, offsets: map[int32]int64{}}
	l.counts = make([]map[string]*counter, f.Partitions)
	l.dirty = make([][]*counter, f.Partitions)
	for p := range l.counts {
		l.counts[p] = map[string]*counter{}
	}
	return l
}

// run restores, joins the group, and counts until ctx ends.
func (l *loop) run(ctx context.Context) (err error) {
	if l.changelog {
		if err := l.restore(ctx); err != nil {
			return fmt.Errorf("restore from %s: %w", l.changelogTopic(), err)
		}
	}
	if l.cl, err = kgo.NewClient(l.options()...); err != nil {
		return err
	}
	defer l.cl.CloseAllowingRebalance()
	topics, err := kadm.NewClient(l.cl).ListTopics(ctx, l.flags.In[0])
	if err != nil {
		return err
	}
	l.topicID = topics[l.flags.In[0]].ID

	interval := l.interval()
	next := time.Now().Add(interval)
	for ctx.Err() == nil {
		records, err := l.poll(ctx, min(time.Until(next), 200*time.Millisecond))
		if err != nil {
			return err
		}
		// Also when idle, so that the driver sees the end of an at-least-once run.
		if time.Now().After(next) || records == 0 {
			if err := l.commit(context.WithoutCancel(ctx)); err != nil {
				return fmt.Errorf("commit: %w", err)
			}
			next = time.Now().Add(interval)
		}
		l.cl.AllowRebalance()
	}
	return l.commit(context.WithoutCancel(ctx))
}

func (l *loop) interval() time.Duration {
	if l.exactlyOnce() {
		return contract.ExactlyOnceCommit
	}
	return contract.AtLeastOnceCommit
}

func (l *loop) exactlyOnce() bool { return l.flags.Guarantee == contract.ExactlyOnce }

func (l *loop) options() []kgo.Opt {
	assigned := false
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(l.flags.Brokers...),
		kgo.ConsumerGroup(l.flags.AppID),
		kgo.ConsumeTopics(l.flags.In[0]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			if !assigned { // rebalances are blocked while a poll is looked at, so neither field needs a lock
				assigned = true
				l.reported = l.report.Running()
			}
		}),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, l.opts...)
	if l.exactlyOnce() {
		opts = append(opts, kgo.TransactionalID(l.transactionalID()))
	}
	return opts
}

// poll counts what comes within a time and returns how many records that were.
func (l *loop) poll(ctx context.Context, limit time.Duration) (records int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	fetches := l.cl.PollRecords(ctx, pollRecords)
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			return 0, fmt.Errorf("fetch %s/%d: %w", e.Topic, e.Partition, e.Err)
		}
	}
	records = fetches.NumRecords()
	if records == 0 {
		return 0, l.reported
	}
	if l.exactlyOnce() && !l.inTxn {
		if err := l.cl.BeginTransaction(); err != nil {
			return 0, err
		}
		l.inTxn = true
	}
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		for _, r := range f.Records {
			l.count(r)
		}
	})
	return records, l.reported
}

// count counts one record and produces the new count.
func (l *loop) count(r *kgo.Record) {
	c := l.counts[r.Partition][string(r.Key)]
	if c == nil {
		c = &counter{key: r.Key}
		l.counts[r.Partition][string(r.Key)] = c
	}
	c.n++
	if l.changelog && !c.dirty {
		c.dirty = true
		l.dirty[r.Partition] = append(l.dirty[r.Partition], c)
	}
	l.produce(l.flags.Out, r.Partition, c, r.Timestamp)
	l.offsets[r.Partition] = r.Offset + 1
}

// produce hands a count to the client. A failure shows at the next commit.
func (l *loop) produce(topic string, partition int32, c *counter, at time.Time) {
	r := &kgo.Record{Topic: topic, Partition: partition, Key: c.key, Value: binary.BigEndian.AppendUint64(nil, c.n), Timestamp: at}
	l.cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
		if err != nil && l.produced == nil {
			l.produced = fmt.Errorf("produce to %s/%d: %w", r.Topic, r.Partition, err) // promises run one after another, and commit reads it after Flush
		}
	})
}
