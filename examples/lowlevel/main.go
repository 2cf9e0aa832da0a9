// Lowlevel is a processor of one's own: it reports machines that have gone quiet.
//
// The problem: what is looked for is that nothing happens, which no operator on records alone can see. A processor has what it takes: a store with
// the time of each machine's last beat, and a timer that looks through it as time passes. Time is that of the records, so results are the same when they
// are processed again. High loads leave by an output of their own, which has a type of its own.
//
// It needs the topics beats, quiet-machines and high-loads.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

type beat struct{ Load float64 }

const (
	lookEvery  = time.Minute
	quietAfter = 5 * time.Minute
)

var (
	beats = topology.NewTopic("beats", serde.String(), serde.JSON[beat]())
	quiet = topology.NewTopic("quiet-machines", serde.String(), serde.String())
	loads = topology.NewTopic("high-loads", serde.String(), serde.Float64())

	// Machines that are taken away are deleted when they are reported, so the bound is only there for those of tasks that get no records any more.
	lastSeen = store.NewKeyValue("last-seen", serde.String(), serde.Int64(), store.TTL(24*time.Hour))
	high     = processor.NewOutput[string, float64]("high-load")
)

// watch is made once per task, so its fields need no locks.
type watch struct {
	ctx  *processor.Context[string, string]
	last store.KeyValue[string, int64] // time of the last beat in ms, by machine
}

func (w *watch) Init(ctx *processor.Context[string, string]) error {
	w.ctx, w.last = ctx, ctx.Store(lastSeen)
	ctx.Every(lookEvery, processor.StreamTime, w.look)
	return nil
}

func (w *watch) Process(ctx *processor.Context[string, string], r processor.Record[string, beat]) error {
	w.last.Put(r.Key, r.Time.UnixMilli())
	if r.Value.Load > 0.9 {
		ctx.ForwardTo(high, r.WithValue(r.Value.Load))
	}
	return nil
}

func (w *watch) look(now time.Time) error {
	for machine, ms := range w.last.All() {
		if seen := time.UnixMilli(ms); now.Sub(seen) > quietAfter {
			w.ctx.Forward(processor.Record[string, string]{Key: machine, Value: "quiet since " + seen.UTC().Format(time.TimeOnly), Time: now})
			w.last.Delete(machine)
		}
	}
	return nil
}

func lowlevel() (*topology.Topology, error) {
	b := topology.New()
	watched := b.Stream(beats).Process("watch", func() *watch { return new(watch) }, lastSeen)
	watched.To(quiet)
	watched.Output(high).To(loads)
	return b.Build()
}

func main() {
	top, err := lowlevel()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{Application: "lowlevel", Brokers: []string{"localhost:9092"}, StateDir: "state"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
