// Package takeover measures how fast work goes on: after kill -9, elsewhere and in the same place, from commit to commit, and after restarts with a large store.
//
//	go run ./cmd/takeover            # prints the measurements; about two minutes
//
// Times depend on the machine and are printed. What a restart reads from the changelog does not, and is checked: see Restarts.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kolkstreams/kolk/integration/chaos"
)

// Bed is where an application is measured: brokers, a folder, and the application's topics.
type Bed struct {
	Seeds       []string
	Application string // no other may have had the name
	Guarantee   string
	Dir         string

	job    chaos.Job
	client *kgo.Client
	adm    *kadm.Client
	starts int
	all    []*chaos.Process
}

const partitions = 4

// Make creates the topics for a job. Close what it returns.
func (b *Bed) Make(ctx context.Context, job string) (err error) {
	if b.job, err = chaos.NewJob(job, b.Application, 1); err != nil {
		return err
	}
	if err := os.MkdirAll(b.Dir, 0o755); err != nil {
		return err
	}
	if b.client, err = kgo.NewClient(kgo.SeedBrokers(b.Seeds...), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(100_000)); err != nil {
		return err
	}
	b.adm = kadm.NewClient(b.client)
	return chaos.Create(ctx, b.adm, b.job, partitions, -1)
}

// Close kills what runs.
func (b *Bed) Close() error {
	var errs []error
	for _, p := range b.all {
		if p.Alive() {
			errs = append(errs, p.Kill())
		}
	}
	b.client.Close()
	return errors.Join(errs...)
}

// start runs an instance with the state of that name. change may alter how it is run.
func (b *Bed) start(state string, change func(*chaos.Spec)) (*chaos.Process, error) {
	b.starts++
	s := chaos.Spec{Brokers: b.Seeds, Application: b.Application, Job: jobName(b.job), StateDir: filepath.Join(b.Dir, state), Guarantee: b.Guarantee, Workers: 2,
		Session: 6 * time.Second, Commit: 100 * time.Millisecond, Checkpoint: 10 * time.Second, Seen: filepath.Join(b.Dir, fmt.Sprintf("%d.seen", b.starts))}
	if change != nil {
		change(&s)
	}
	p, err := chaos.StartInstance(s, filepath.Join(b.Dir, fmt.Sprintf("%d-%s.log", b.starts, state)))
	if err == nil {
		b.all = append(b.all, p)
	}
	return p, err
}

func jobName(j chaos.Job) string {
	if j.Slots() > 100_000 {
		return "wide"
	}
	return "count"
}

// ready waits until an instance has restored its tasks.
func ready(p *chaos.Process) (chaos.Event, error) {
	e, err := p.Await(3*time.Minute, chaos.Named("ready"))
	return e, errors.Join(err, p.Unasked())
}

// drained waits until all input is committed.
func (b *Bed) drained(ctx context.Context) error {
	return chaos.Drained(ctx, b.adm, b.Application, append(b.job.Inputs(), b.job.Internal()...), 2*time.Minute, func() error {
		for _, p := range b.all {
			if err := p.Unasked(); err != nil {
				return err
			}
		}
		return nil
	})
}

// send produces so many records and waits for them.
func (b *Bed) send(ctx context.Context, n int) error {
	records := make([]*kgo.Record, 0, 10_000)
	for n > 0 {
		records = records[:0]
		for range min(n, cap(records)) {
			records = append(records, b.job.Next())
		}
		n -= len(records)
		if err := b.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
	return nil
}

// logEnd is the sum of the ends of the changelogs.
func (b *Bed) logEnd(ctx context.Context) (sum int64, err error) {
	for _, out := range b.job.Outputs() {
		log := out.Changelog
		ends, err := b.adm.ListEndOffsets(ctx, log)
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			return 0, fmt.Errorf("end of %s: %w", log, err)
		}
		ends.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	}
	return sum, nil
}
