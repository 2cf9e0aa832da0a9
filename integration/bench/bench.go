// Package bench measures stream processors side by side on one real Kafka broker, checks that each one's result is right, and reports what it cost. Kafka
// Streams is the peer to beat; a plain franz-go loop is the ceiling. Contenders are processes that follow the contract in package contract.
//
// Contenders run one at a time and in turns (run 1 of each, then run 2 of each), so that what disturbs a shared machine meets all of them. A first run of each
// is thrown away: a broker is a JVM too, and slower in its first minute. Give ratios and CPU seconds more weight than wall times.
//
// # What is measured
//
// Wall time runs from "running" until all input is committed and, under exactly-once, the output is readable for a read_committed consumer. Under
// at-least-once a complete output is enough (the last commit comes with the close, and is checked). CPU is user plus system time of the process over the same
// span; the time before "running" (a JVM's start) and the close are reported apart. Peak memory is resident memory, mapped files included; the results file has it without them
// too. State size is that of the directory after the close. "other CPU" is what the rest of the machine used meanwhile, driver left out: above
// a few percent, wall times are not to be trusted.
//
// A run counts only if the committed output equals a batch computation of the input: the last count of every key (and window), and under exactly-once the
// number of output records; for joins and deduplication the number and an order-independent checksum of all output. Otherwise it is marked WRONG.
//
// In the scenario dedup, which Kafka Streams has not, Input.Records is the number of ids, all of which are kept, in one task. A tenth comes on top that repeats ids. Event time
// moves ten times as slowly.
//
// Restore, restart and start are procedures around the scenario count: the process sees nothing new. Restore fills a state, stops, removes the state directory and
// members that were left in the group, and starts again without new input. The same with the state in place and the group untouched is reported as
// restart. Start has no input and no state.
//
// # Known differences between the contenders
//
//   - Kafka Streams writes a changelog record per update when its cache is off, as here in all scenarios but count-cached. raw-changelog writes one per changed
//     key and commit.
//   - Kafka Streams does not leave its group at a close, so a restart waits for the session timeout (45 s).
//   - raw keeps no durable state and is one goroutine.
//   - A JVM compiles while it runs: 7 to 10 CPU seconds of every Kafka Streams run are its compiler. Two lengths give the marginal cost.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kolkstreams/kolk/integration/contract"
	"github.com/kolkstreams/kolk/integration/kafka"
	"github.com/kolkstreams/kolk/integration/maven"
)

// Scenarios: the topologies of the contract, and procedures around count.
const (
	Count       = "count"
	CountCached = "count-cached"
	Window      = "window"
	Join        = "join"
	StreamJoin  = "ssjoin"
	Dedup       = "dedup"
	Restore     = "restore"
	Start       = "start"
)

var scenarios = []string{Count, CountCached, Window, Join, StreamJoin, Dedup, Restore, Start}

// Options are what to measure.
type Options struct {
	Contenders []string  // of Kolk, Streams, Raw, RawChangelog
	With       []string  // further ones, as name=command
	Scenarios  []string  // of those above
	Guarantees []string  // of contract.ExactlyOnce, contract.AtLeastOnce
	Runs       int       // of each that count
	WarmUp     int       // of each that do not
	Threads    int       // workers of each contender
	Nodes      int       // brokers, unless KAFKA names a cluster
	Input      Input     // for all scenarios
	Progress   io.Writer // gets a line per run. Nil means nobody
}

// validate reports all faults.
func (o Options) validate() error {
	faults := []error{o.Input.validate()}
	for _, s := range o.Scenarios {
		if !slices.Contains(scenarios, s) {
			faults = append(faults, fmt.Errorf("unknown scenario %q: want one of %v", s, scenarios))
		}
	}
	for _, g := range o.Guarantees {
		if g != contract.ExactlyOnce && g != contract.AtLeastOnce {
			faults = append(faults, fmt.Errorf("unknown guarantee %q: want %s or %s", g, contract.ExactlyOnce, contract.AtLeastOnce))
		}
	}
	if o.Runs < 1 || o.WarmUp < 0 || o.Threads < 1 {
		faults = append(faults, fmt.Errorf("%d runs, %d before them, %d threads: want at least 1, 0 and 1", o.Runs, o.WarmUp, o.Threads))
	}
	return errors.Join(faults...)
}

// Run measures. A contender that fails is a result, not an error; the report says whether all were right.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	cache, err := maven.CacheDir()
	if err != nil {
		return nil, err
	}
	contenders, err := build(ctx, cache, o.Contenders, o.With)
	if err != nil {
		return nil, err
	}
	cluster, err := kafka.LaunchOrConnect(ctx, kafka.Config{Nodes: o.Nodes})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	s, err := newSession(cluster, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, name := range o.Scenarios {
		if err := s.scenario(ctx, name, contenders); err != nil {
			return s.report, err
		}
	}
	return s.report, nil
}

// session is one broker under which contenders run, one at a time.
type session struct {
	o       Options
	cluster *kafka.Cluster
	cl      *kgo.Client // producer of inputs, and admin
	adm     *kadm.Client
	work    string // state directories
	id      int64  // makes names unique
	serial  int
	report  *Report
}

func newSession(cluster *kafka.Cluster, o Options) (*session, error) {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(cluster.Seeds()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(200_000),
	)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "bench-")
	if err != nil {
		cl.Close()
		return nil, err
	}
	return &session{
		o: o, cluster: cluster, cl: cl, adm: kadm.NewClient(cl), work: work, id: time.Now().UnixMilli(),
		report: &Report{Input: o.Input, Brokers: len(cluster.Nodes()), CPUs: cpus()},
	}, nil
}

func (s *session) close() error {
	s.cl.Close()
	return os.RemoveAll(s.work)
}

// scenario loads an input, lets every contender run that can, and deletes the input.
func (s *session) scenario(ctx context.Context, name string, contenders []contender) (err error) {
	topology, in := name, s.o.Input
	switch name {
	case Restore:
		topology = Count
	case Start:
		topology, in.Records = Count, 0
	}
	loading := time.Now()
	g, d, err := generate(topology, fmt.Sprintf("bench-%d-%s", s.id, name), in)
	if err != nil {
		return err
	}
	if err := s.cluster.CreateTopics(ctx, int32(d.partitions), d.topics...); err != nil {
		return fmt.Errorf("input of %s: %w", name, err)
	}
	defer func() {
		_, failed := s.adm.DeleteTopics(context.WithoutCancel(ctx), d.topics...)
		err = errors.Join(err, failed)
	}()
	if err := g.produce(ctx, s.cl); err != nil {
		return fmt.Errorf("input of %s: %w", name, err)
	}
	fmt.Fprintf(s.o.Progress, "%s: %d records on the broker after %.1f s\n", name, d.records, time.Since(loading).Seconds())
	if name == Restore {
		return s.restores(ctx, d, contenders)
	}
	for n := -s.o.WarmUp; n < s.o.Runs; n++ {
		for _, guarantee := range s.o.Guarantees {
			for _, c := range contenders {
				if !c.runs(name) {
					continue
				}
				r := Result{Contender: c.name, Scenario: name, Guarantee: guarantee, Threads: s.o.Threads, Run: n}
				if err := s.single(ctx, c, topology, d, &r); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// single is one run of one contender, with topics and state of its own.
func (s *session) single(ctx context.Context, c contender, topology string, d *dataset, r *Result) error {
	j, err := s.newJob(ctx, c, topology, r.Guarantee, d)
	if err != nil {
		return err
	}
	if r.Scenario == Start {
		err = s.toRunning(ctx, c, j, r)
	} else {
		err = s.measure(ctx, c, j, d, r)
	}
	return errors.Join(s.finish(ctx, r, err), s.remove(context.WithoutCancel(ctx), j))
}

// restores fills the state of each contender once, rebuilds it several times, and restarts several times with the state in place.
func (s *session) restores(ctx context.Context, d *dataset, contenders []contender) error {
	for _, guarantee := range s.o.Guarantees {
		for _, c := range contenders {
			if !c.runs(Restore) {
				continue
			}
			if err := s.restore(ctx, c, guarantee, d); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *session) restore(ctx context.Context, c contender, guarantee string, d *dataset) (err error) {
	j, err := s.newJob(ctx, c, Count, guarantee, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx), j)) }()
	r := Result{Contender: c.name, Scenario: "restore (filling)", Guarantee: guarantee, Threads: s.o.Threads}
	if err := s.finish(ctx, &r, s.measure(ctx, c, j, d, &r)); err != nil {
		return err
	}
	for _, scenario := range []string{Restore, restart} {
		for n := range s.o.Runs {
			r := Result{Contender: c.name, Scenario: scenario, Guarantee: guarantee, Threads: s.o.Threads, Run: n}
			if err := s.finish(ctx, &r, s.again(ctx, c, j, &r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish records a run. A contender that failed is a result, not the end of the session; only the end of ctx is.
func (s *session) finish(ctx context.Context, r *Result, failed error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if failed != nil {
		r.Wrong = failed.Error()
	}
	// A warm-up counts for nothing unless it failed.
	if r.Run >= 0 || r.Wrong != "" {
		s.report.Results = append(s.report.Results, *r)
	}
	kind := fmt.Sprintf("#%d", r.Run+1)
	if r.Run < 0 {
		kind = "warm-up"
	}
	fmt.Fprintf(s.o.Progress, "%s %s %s %s: wall %.2f s, CPU %.2f s, start %.2f s, broker %.2f s, other %.2f s, peak %.0f MB %s\n",
		r.Scenario, r.Guarantee, r.Contender, kind, r.WallS, r.CPU, r.StartS, r.BrokerCPU, r.OtherCPU, r.PeakRSS, r.Wrong)
	return nil
}
