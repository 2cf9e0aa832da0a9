package soak

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
)

// Limit is how much larger than in the first half after the retention anything may be in the second.
const Limit = 1.2

// Buffers is how many bytes of heap Badger's buffers for tables may take up at any time: eight that it keeps, and as many in use.
const Buffers = 16 * 12 << 20

// Options are how long to run, and how much of everything there is.
type Options struct {
	Dir     string        // of the stores, made if need be
	Steps   int           // how many, each of them Event long; at least twice the retention
	Event   time.Duration // event time of a step
	Pace    time.Duration // least wall time of a step; 0 runs as fast as it can
	Records int           // in a step
	Commits int           // in a step; the last one begins a checkpoint
	Memory  int64         // bytes, for stores and Badger together
	Seed    uint64
	// Progress gets a line a step. Nil means nobody.
	Progress io.Writer
}

// Defaults are 30 minutes of event time every second for a minute.
func Defaults() Options {
	return Options{Steps: 60, Event: 30 * time.Minute, Pace: time.Second, Records: 30_000, Commits: 10, Memory: 128 << 20, Seed: 1}
}

func (o Options) validate() error {
	if o.Event <= 0 || o.Records < o.Commits || o.Commits < 1 || o.Memory < 1 {
		return fmt.Errorf("steps of %v with %d records, %d commits and %d bytes of memory: want more of everything", o.Event, o.Records, o.Commits, o.Memory)
	}
	if least := 2 * o.retained(); o.Steps < least {
		return fmt.Errorf("%d steps of %v are less than twice the retention of %v: want at least %d", o.Steps, o.Event, retention, least)
	}
	return nil
}

// retained is how many steps the retention is.
func (o Options) retained() int { return int((retention + o.Event - 1) / o.Event) }

// Run runs the task and looks at it after each step.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	top, err := build()
	if err != nil {
		return nil, err
	}
	t, err := open(top, o.Dir, o.Memory)
	if err != nil {
		return nil, err
	}
	r := &Report{Retained: o.retained()}
	for _, d := range t.Sub.Stores {
		r.Columns = append(r.Columns, d.Name)
	}
	r.Columns = append(r.Columns, "disk", "heap", "buffers")
	fmt.Fprintln(o.Progress, r.head())
	in := feed{Options: o, rnd: newRandom(o.Seed)}
	for n := range o.Steps {
		began := time.Now()
		if err := in.step(t); err != nil {
			return r, fmt.Errorf("step %d: %w", n+1, err)
		}
		s, err := t.look(time.Duration(n+1)*o.Event, o.Dir)
		if err != nil {
			return r, err
		}
		r.Samples = append(r.Samples, s)
		fmt.Fprintln(o.Progress, r.row(s))
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(o.Pace - time.Since(began)):
		}
	}
	return r, t.end()
}

// start is the event time of the first record.
var start = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// Of the keys. A user comes some twenty times, over about half an hour, and never again. Ids come once, but for one in repeats, which comes again soon after.
const (
	perUser = 20
	repeats = 10
	nearby  = 2000
)

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// feed makes records.
type feed struct {
	Options
	rnd  *rand.Rand
	made int
}

// step gives a task the records of a step.
func (f *feed) step(t *task) error {
	batch := make([]engine.Record, 0, f.Records/f.Commits)
	for n := range f.Commits {
		batch = batch[:0]
		for range f.Records*(n+1)/f.Commits - f.Records*n/f.Commits {
			batch = append(batch, f.next())
		}
		if err := t.process(batch); err != nil {
			return err
		}
		if err := t.commit(); err != nil {
			return err
		}
	}
	return t.checkpoint()
}

func (f *feed) next() engine.Record {
	i := f.made
	f.made++
	at := start.Add(time.Duration(float64(i)/float64(f.Records)*float64(f.Event)) - time.Duration(f.rnd.Int64N(int64(jitter))))
	user := max(0, i-f.rnd.IntN(f.Records)) / perUser
	id := i
	if i%repeats == repeats-1 {
		id = max(0, i-1-f.rnd.IntN(nearby))
	}
	return engine.Record{Key: fmt.Appendf(nil, "user-%010d", user), Value: scrambled(id), Time: at.UnixMilli()}
}

// scrambled is an id of 16 bytes whose order is not that of its number.
func scrambled(n int) []byte {
	x := uint64(n)
	for range 2 {
		x ^= x >> 31
		x *= 0x9e3779b97f4a7c15
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, x), uint64(n))
}

// look measures, with nothing left to write and to collect.
func (t *task) look(event time.Duration, dir string) (s Sample, err error) {
	if err := t.settle(); err != nil {
		return s, err
	}
	s.Event, s.Records = event, t.next
	for _, live := range t.Stores() {
		s.Values = append(s.Values, live.Stats().Entries)
	}
	disk, err := allocated(dir)
	if err != nil {
		return s, err
	}
	runtime.GC() // twice: what is known of allocations is as of the collection before
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b := buffers()
	s.Values = append(s.Values, disk, int64(m.HeapAlloc)-b, b)
	return s, nil
}

// allocated is the bytes that the files below dir take up on disk; Badger makes large ones with holes.
func allocated(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a file that is gone meanwhile counts nothing
		}
		if info, err := d.Info(); err == nil {
			sum += blocks(info)
		}
		return nil
	})
	return sum, err
}
