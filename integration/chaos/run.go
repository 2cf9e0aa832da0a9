package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kolkstreams/kolk/integration/kafka"
)

// Options say what is run and what is done to it.
type Options struct {
	Seeds       []string      // brokers
	Nodes       []*kafka.Node // those that may be harmed; none if the brokers are somebody else's
	Application string        // no other run may have had the name
	Job         string
	Guarantee   string
	Faults      int
	Seed        uint64
	Kinds       []Kind        // of faults; nil means all that the brokers and the guarantee bear
	Calm        bool          // the brokers are in-process ones: see CalmKinds. Every fault meets a group at rest
	Rate        int           // records a second; zero means 2000
	Session     time.Duration // zero means 6 s, the least that brokers take by default
	Partitions  int32         // of every topic; zero means 4
	Replicas    int16         // of every topic; zero means the brokers' default
	Dir         string        // for state, counters and logs
	Progress    io.Writer     // gets a line for each fault
}

func (o *Options) fill() {
	if o.Rate == 0 {
		o.Rate = 2000
	}
	if o.Session == 0 {
		o.Session = 6 * time.Second
	}
	if o.Partitions == 0 {
		o.Partitions = 4
	}
	if o.Replicas == 0 {
		o.Replicas = -1
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Kinds == nil {
		o.Kinds = Kinds(len(o.Nodes))
		if o.Calm {
			o.Kinds = CalmKinds
		}
		if o.Guarantee == AtLeastOnce {
			// A process that is frozen in the middle of a commit writes its changelog over that of the new owner when it is thawed. Only transactions keep it from that.
			o.Kinds = slices.DeleteFunc(slices.Clone(o.Kinds), func(k Kind) bool { return k == Zombie })
		}
	}
}

// processes is how many instances a run begins with.
const processes = 3

// patience is how long nothing may move while an application drains.
const patience = 90 * time.Second

// run is a run that is under way.
type run struct {
	Options
	ctx    context.Context
	job    Job
	random *rand.Rand
	client *kgo.Client
	adm    *kadm.Client
	fleet  *fleet
	began  time.Time
}

// Run runs a job through its faults and compares. Its error says that the run could not be brought to its end, which is as bad as a difference.
func Run(ctx context.Context, o Options) (c Comparison, err error) {
	o.fill()
	r := &run{Options: o, ctx: ctx, random: rand.New(rand.NewPCG(o.Seed, 2)), began: time.Now()}
	if r.job, err = NewJob(o.Job, o.Application, o.Seed); err != nil {
		return c, err
	}
	if r.client, err = kgo.NewClient(kgo.SeedBrokers(o.Seeds...), kgo.MetadataMinAge(250*time.Millisecond), kgo.ProducerLinger(0)); err != nil {
		return c, err
	}
	defer r.client.Close()
	r.adm = kadm.NewClient(r.client)
	r.fleet = &fleet{run: r}
	defer func() { err = errors.Join(err, r.fleet.end()) }()
	if err := r.prepare(); err != nil {
		return c, err
	}
	feeder := Feed(r.client, r.job, o.Rate)
	harm := r.harm()
	if err := errors.Join(harm, feeder.Stop(ctx)); err != nil {
		return c, err
	}
	return r.finish()
}

// prepare makes the topics and starts the first instances.
func (r *run) prepare() error {
	if err := Create(r.ctx, r.adm, r.job, r.Partitions, r.Replicas); err != nil {
		return err
	}
	if err := produceAll(r.ctx, r.client, r.job.First()); err != nil {
		return err
	}
	for _, sub := range []string{"seen", "log", "state"} {
		if err := os.MkdirAll(filepath.Join(r.Dir, sub), 0o755); err != nil {
			return err
		}
	}
	for range processes {
		if _, err := r.fleet.add(""); err != nil {
			return err
		}
	}
	return r.fleet.settled(time.Minute)
}

// Create makes the topics that a job needs. They keep their records whatever their age.
func Create(ctx context.Context, adm *kadm.Client, j Job, partitions int32, replicas int16) error {
	names := j.Inputs()
	for output := range j.Outputs() {
		names = append(names, output)
	}
	forever := "-1"
	made, err := adm.CreateTopics(ctx, partitions, replicas, map[string]*string{"retention.ms": &forever}, names...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		return fmt.Errorf("create topics %v: %w", names, err)
	}
	return nil
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.Progress, "%7.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// drained waits until everything that was produced is committed.
func (r *run) drained() error {
	return Drained(r.ctx, r.adm, r.Application, append(r.job.Inputs(), r.job.Internal()...), patience, r.fleet.unasked)
}

// touch updates every row and waits until that is committed.
func (r *run) touch() error { return r.settle(r.job.Touch()) }

// settle sends records and waits until they are committed.
func (r *run) settle(records []*kgo.Record) error {
	if err := produceAll(r.ctx, r.client, records); err != nil {
		return err
	}
	return r.drained()
}

// finish lets the application come to rest, looks at all stores, and compares.
func (r *run) finish() (c Comparison, err error) {
	r.say("all faults done; draining")
	if err := r.drained(); err != nil {
		return c, err
	}
	r.say("every row is updated once more by those that are left")
	if err := r.touch(); err != nil {
		return c, err
	}
	if err := r.fleet.quit(); err != nil {
		return c, err
	}
	fresh, err := r.fleet.add("fresh")
	if err != nil {
		return c, err
	}
	e, err := fresh.Await(2*time.Minute, Named("ready"))
	if err != nil {
		return c, errors.Join(err, fresh.Unasked())
	}
	var rows int64
	for _, n := range e.Entries {
		rows += n
	}
	r.say("a fresh process restored %d rows in %.1f s; every row is updated once more", rows, e.At.Sub(fresh.Started).Seconds())
	if err := r.touch(); err != nil {
		return c, err
	}
	if last := r.job.Last(); len(last) > 0 {
		if err := r.settle(last); err != nil {
			return c, err
		}
	}
	if err := r.fleet.quit(); err != nil {
		return c, err
	}
	seen, err := addTallies(filepath.Join(r.Dir, "seen"), r.job.Slots())
	if err != nil {
		return c, err
	}
	return compare(r.ctx, r.Seeds, r.job, r.Guarantee, seen)
}
