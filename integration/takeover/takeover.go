package takeover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/kolkstreams/kolk/integration/chaos"
)

// rate is how many records a second arrive while an application is measured.
const rate = 2000

// Elsewhere is a take-over by another instance: from kill -9 of the owner to the first record of one of its tasks, and to that of the last of them.
type Elsewhere struct{ First, All time.Duration }

// String is the result in words.
func (e Elsewhere) String() string {
	return fmt.Sprintf("%.2f s to the first record, %.2f s until every task has gone on", e.First.Seconds(), e.All.Seconds())
}

// Session is the session timeout of the instances that TakeOver kills.
const Session = 6 * time.Second

// TakeOver kills one of two instances, so many times.
func TakeOver(ctx context.Context, b *Bed, times int) (all []Elsewhere, err error) {
	if err := b.Make(ctx, "count"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	heir, err := b.start("heir", nil)
	if err != nil {
		return nil, err
	}
	if _, err := ready(heir); err != nil {
		return nil, err
	}
	feeder := chaos.Feed(b.client, b.job, rate)
	defer func() { err = errors.Join(err, feeder.Stop(ctx)) }()
	for n := range times {
		owner, err := b.start(fmt.Sprintf("owner-%d", n), nil)
		if err != nil {
			return nil, err
		}
		tasks, err := counting(ctx, owner)
		if err != nil {
			return nil, err
		}
		at := time.Now()
		if err := owner.Kill(); err != nil {
			return nil, err
		}
		var e Elsewhere
		for _, task := range tasks {
			first, err := heir.Await(time.Minute, func(e chaos.Event) bool { return e.Event == "first" && e.Task == task && e.At.After(at) })
			if err != nil {
				return nil, fmt.Errorf("take over task %s: %w", task, err)
			}
			took := first.At.Sub(at)
			if e.First == 0 || took < e.First {
				e.First = took
			}
			e.All = max(e.All, took)
		}
		all = append(all, e)
	}
	return all, nil
}

// counting waits until an instance has processed records in some of its tasks for a while, and returns them: those that still run.
func counting(ctx context.Context, p *chaos.Process) ([]string, error) {
	if _, err := p.Await(time.Minute, chaos.Named("first")); err != nil {
		return nil, errors.Join(err, p.Unasked())
	}
	select {
	case <-time.After(3 * time.Second): // for the rest of its tasks, and some commits
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	running := p.Running()
	var tasks []string
	for _, e := range p.Events() {
		if e.Event == "first" && slices.Contains(running, e.Task) && !slices.Contains(tasks, e.Task) {
			tasks = append(tasks, e.Task)
		}
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("process %d has no task", p.Pid())
	}
	return tasks, nil
}

// Static kills a static member and starts it again at once, so many times. The results are the times from kill -9 to its first record.
func Static(ctx context.Context, b *Bed, times int) (all []time.Duration, err error) {
	if err := b.Make(ctx, "count"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	member := func() (*chaos.Process, error) {
		return b.start("static", func(s *chaos.Spec) { s.InstanceID, s.Session = "static", 45*time.Second })
	}
	p, err := member()
	if err != nil {
		return nil, err
	}
	feeder := chaos.Feed(b.client, b.job, rate)
	defer func() { err = errors.Join(err, feeder.Stop(ctx)) }()
	for range times {
		if _, err := counting(ctx, p); err != nil {
			return nil, err
		}
		at := time.Now()
		if err := p.Kill(); err != nil {
			return nil, err
		}
		if p, err = member(); err != nil {
			return nil, err
		}
		first, err := p.Await(time.Minute, chaos.Named("first"))
		if err != nil {
			return nil, errors.Join(err, p.Unasked())
		}
		all = append(all, first.At.Sub(at))
	}
	return all, nil
}

// Latency is how long the commits of an instance took: everything, from the guard to the answer.
type Latency struct {
	Commits  int
	P50, P99 time.Duration
}

// String is the result in words.
func (l Latency) String() string {
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms of %d commits", 1000*l.P50.Seconds(), 1000*l.P99.Seconds(), l.Commits)
}

// Commits runs an instance with two workers for a while and returns what its commits took.
func Commits(ctx context.Context, b *Bed, d time.Duration) (l Latency, err error) {
	if err := b.Make(ctx, "count"); err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	p, err := b.start("one", nil)
	if err != nil {
		return l, err
	}
	if _, err := ready(p); err != nil {
		return l, err
	}
	feeder := chaos.Feed(b.client, b.job, rate)
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	if err := errors.Join(feeder.Stop(ctx), p.Stop(syscall.SIGTERM, time.Minute), p.Err()); err != nil {
		return l, err
	}
	e, err := p.Await(time.Second, chaos.Named("commits"))
	return Latency{e.Commits, e.P50, e.P99}, err
}
