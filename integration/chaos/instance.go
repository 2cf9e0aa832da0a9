package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/kolkstreams/kolk"
)

// Guarantees by the names that Kafka gives them.
const (
	ExactlyOnce = "exactly_once"
	AtLeastOnce = "at_least_once"
)

// Spec is how an instance runs.
type Spec struct {
	Brokers     []string
	Application string
	Job         string
	StateDir    string
	Guarantee   string
	InstanceID  string // of a static member; empty for a dynamic one
	Workers     int
	Session     time.Duration
	Commit      time.Duration
	Checkpoint  time.Duration
	Seen        string // file for the counters of its meter
}

// Event is what an instance prints, one JSON object a line.
type Event struct {
	Event    string // ready, first, task, checkpoint, commits, failed; of a broker: listening
	At       time.Time
	Task     string           `json:",omitempty"`
	State    string           `json:",omitempty"` // of the task
	Restored map[string]int64 `json:",omitempty"` // of ready: changelog records read, by task and store
	Entries  map[string]int64 `json:",omitempty"` // of ready: rows by store
	Commits  int              `json:",omitempty"` // how many there were
	P50, P99 time.Duration    `json:",omitempty"` // of their latency
	Error    string           `json:",omitempty"`
	Address  string           `json:",omitempty"`
}

// reporter writes events and implements Meter.
type reporter struct {
	*tally
	mu      sync.Mutex
	out     *json.Encoder
	commits []time.Duration
}

func (r *reporter) tell(e Event) {
	e.At = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	// A driver that is gone takes its instances along, so nobody misses what cannot be written.
	_ = r.out.Encode(e)
}

// First implements Meter.
func (r *reporter) First(task string) { r.tell(Event{Event: "first", Task: task}) }

func (r *reporter) committed(_ int, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.commits = append(r.commits, took)
	}
}

func (r *reporter) hooks() *kolk.Hooks {
	return &kolk.Hooks{
		OnTask: func(task string, _, to kolk.TaskState) { r.tell(Event{Event: "task", Task: task, State: to.String()}) },
		OnCheckpoint: func(task string, _ int, _ time.Duration, err error) {
			if err == nil {
				r.tell(Event{Event: "checkpoint", Task: task})
			}
		},
		OnCommit: r.committed,
	}
}

// quantile of sorted durations; 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// latency is the event of what commits took. The first half of them is warming up: brokers that have just started are slow.
func (r *reporter) latency() Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	sorted := slices.Clone(r.commits[len(r.commits)/2:])
	slices.Sort(sorted)
	return Event{Event: "commits", Commits: len(sorted), P50: quantile(sorted, 0.5), P99: quantile(sorted, 0.99)}
}

// ready is the event of an application that has restored its tasks.
func ready(h kolk.Health) Event {
	e := Event{Event: "ready", Restored: make(map[string]int64), Entries: make(map[string]int64)}
	for _, t := range h.Tasks {
		for _, p := range t.Restores {
			e.Restored[t.Task+" "+p.Store] += p.Records
		}
		for _, s := range t.Stores {
			e.Entries[s.Name] += s.Entries
		}
	}
	return e
}

// RunInstance runs a job until ctx ends, and reports to out.
func RunInstance(ctx context.Context, s Spec, out io.Writer) error {
	j, err := NewJob(s.Job, s.Application, 0)
	if err != nil {
		return err
	}
	counters, err := openTally(s.Seen, j.Slots())
	if err != nil {
		return err
	}
	r := &reporter{tally: counters, out: json.NewEncoder(out)}
	t, err := j.Topology(r)
	if err != nil {
		return err
	}
	c := kolk.Config{
		Application: s.Application, Brokers: s.Brokers, StateDir: s.StateDir, InstanceID: s.InstanceID, Workers: s.Workers,
		SessionTimeout: s.Session, CommitEvery: s.Commit, CheckpointEvery: s.Checkpoint, Memory: 128 << 20, MinFreeDisk: 1 << 20,
		InternalTopics: kolk.InternalTopics{Config: map[string]string{"retention.ms": "-1"}},
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, nil)), Hooks: r.hooks(),
	}
	if s.Guarantee == AtLeastOnce {
		c.Guarantee = kolk.AtLeastOnce
	}
	app, err := kolk.New(t, c)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	if err := app.WaitReady(ctx); err == nil {
		r.tell(ready(app.Health()))
	}
	err = <-ended
	r.tell(r.latency())
	if err != nil {
		r.tell(Event{Event: "failed", Error: err.Error()})
		return errors.Join(fmt.Errorf("run %s", s.Application), err)
	}
	return nil
}
