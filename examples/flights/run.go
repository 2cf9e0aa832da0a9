package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/examples/flights/job"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	partitions = 4
	// patience is how long the job may take before the demo gives up.
	patience = 2 * time.Minute
	// settling is how long the job runs on when all is out: Health lags a little behind, and the last line shall show everything.
	settling = 300 * time.Millisecond
	// answer is how long a cluster may take for a single request.
	answer = 20 * time.Second
)

// errDiffers means that the output is not what the batch computes.
var errDiffers = errors.New("the output differs from the batch")

// run is the demo from end to end.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	began := time.Now()
	flights, err := data.Flights()
	if err != nil {
		return err
	}
	flights = flights[:min(o.flights, len(flights))]
	airports, err := data.Airports()
	if err != nil {
		return err
	}

	dir, err := os.MkdirTemp("", "kolk-flights-")
	if err != nil {
		return fmt.Errorf("make a folder for data and state: %w", err)
	}
	if o.keep {
		fmt.Fprintf(out, "data and state stay in %s\n", dir)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	addr := o.kafka
	if addr == "" {
		b, err := startBroker(filepath.Join(dir, "broker"))
		if err != nil {
			return err
		}
		addr = b.addr
		defer func() { _ = b.stop() }() // its data is thrown away
		fmt.Fprintf(out, "broker at %s, a process of its own\n", addr)
	}

	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return fmt.Errorf("kafka at %s: %w", addr, err)
	}
	defer client.Close()
	application := "flights-" + strings.ToLower(rand.Text()[:8])
	c := cluster{adm: kadm.NewClient(client), addr: addr, application: application}
	if err := c.ping(ctx, client); err != nil {
		return err
	}
	if o.kafka != "" && !o.keep {
		defer func() { err = errors.Join(err, c.cleanUp(out)) }()
	}
	topics := job.NewTopics(application)
	if err := c.fill(ctx, client, topics, flights, airports); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s flights and %s airports are in the topics of application %s\n\n", count(int64(len(flights))), count(int64(len(airports))), application)

	want := job.Batch(flights, airports)
	top, err := job.Topology(topics)
	if err != nil {
		return err
	}
	app, err := kolk.New(top, kolk.Config{
		Application:    application,
		Brokers:        []string{addr},
		StateDir:       filepath.Join(dir, "state"),
		InternalTopics: kolk.InternalTopics{Config: job.KeepForEver},
		Logger:         o.log,
	})
	if err != nil {
		return err
	}
	if err := process(ctx, app, topics, addr, want, out); err != nil {
		return err
	}
	return verify(ctx, topics, addr, airports, want, out, began)
}

// process runs the app until the output has taken in all flights, and ends it.
func process(ctx context.Context, app *kolk.App, topics job.Topics, addr string, want job.Results, out io.Writer) error {
	output, err := job.Follow(topics, kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer output.Close()

	ctx, stop := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not all flights came out within %v", patience))
	defer stop()
	ended := make(chan error, 1)
	appCtx, stopApp := context.WithCancel(ctx)
	defer stopApp()
	go func() { ended <- app.Run(appCtx) }()

	p := newProgress(out)
	total, _ := want.Flights()
	var complete time.Time // when all was out
	for {
		pause, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		err := output.Poll(pause)
		cancel()
		if byAirport, byState := output.Flights(); complete.IsZero() && byAirport >= total && byState >= total {
			complete = time.Now()
		}
		done := !complete.IsZero() && time.Since(complete) >= settling
		p.show(app.Health(), done)
		switch {
		case err != nil, done:
			stopApp()
			return errors.Join(err, <-ended)
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), <-ended)
		}
		select {
		case err := <-ended:
			return errors.Join(errors.New("the job ended before all flights had come out"), err)
		default:
		}
	}
}

// verify reads the output again, from beginning to end, and compares it with the batch.
func verify(ctx context.Context, topics job.Topics, addr string, airports []data.Airport, want job.Results, out io.Writer, began time.Time) error {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	output, err := job.Follow(topics, kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer output.Close()
	if err := output.ToEnd(ctx); err != nil {
		return err
	}
	printWorst(out, output.Results, airports)
	fmt.Fprintf(out, "\n%s committed updates in the output topics, %.1f s in all\n", count(output.Updates), time.Since(began).Seconds())
	return compare(out, output, want)
}

// compare prints whether the output is what it should be. Each flight makes one update in each of the two output topics: with fewer or more of them one
// was lost or taken twice.
func compare(out io.Writer, got *job.Output, want job.Results) error {
	lines := got.Diff(want)
	byAirport, byState := want.Flights()
	if updates := byAirport + byState; got.Updates != updates {
		lines = append(lines, fmt.Sprintf("%d updates, want %d", got.Updates, updates))
	}
	if len(lines) == 0 {
		fmt.Fprintf(out, "equal to batch: %d rows\n", want.Rows())
		return nil
	}
	fmt.Fprintf(out, "not equal to batch: %d differences\n", len(lines))
	for _, line := range lines[:min(len(lines), 10)] {
		fmt.Fprintln(out, " ", line)
	}
	return errDiffers
}
