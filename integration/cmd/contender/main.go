// Command contender is kolk in the benchmark: it follows the contract in package contract, with the configuration that users get by default and
// a memory limit of 512 MiB.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/integration/contract"
)

// memoryLimit is what GOMEMLIMIT says in a small container. It leads to kolk's memory budget too.
const memoryLimit = 512 << 20

func main() {
	debug.SetMemoryLimit(memoryLimit)
	contract.Main(flag.NewFlagSet("contender", flag.ExitOnError), run)
}

// config is kolk's configuration for a run.
func config(f contract.Flags) kolk.Config {
	c := kolk.Config{
		Application: f.AppID,
		Brokers:     f.Brokers,
		StateDir:    f.StateDir,
		Workers:     f.Threads,
		CommitEvery: contract.ExactlyOnceCommit,
		Logger:      slog.New(slog.DiscardHandler),
		Kafka:       []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression())},
	}
	if f.Guarantee == contract.AtLeastOnce {
		c.Guarantee, c.CommitEvery = kolk.AtLeastOnce, contract.AtLeastOnceCommit
	}
	return c
}

// run processes until ctx ends.
func run(ctx context.Context, f contract.Flags, report contract.Reporter) error {
	top, err := scenario(f)
	if err != nil {
		return err
	}
	app, err := kolk.New(top, config(f))
	if err != nil {
		return err
	}
	started := time.Now()
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { ended <- app.Run(ctx) }()
	err = app.WaitReady(ctx)
	if err == nil {
		err = tell(report, app.Health(), time.Since(started))
	}
	if err != nil && ctx.Err() == nil {
		stop()
		return errors.Join(err, <-ended)
	}
	return <-ended
}

// tell reports what was restored, if anything was, and that the application runs.
func tell(report contract.Reporter, h kolk.Health, took time.Duration) error {
	var records, bytes int64
	for _, task := range h.Tasks {
		for _, r := range task.Restores {
			records += r.Records
			bytes += r.Bytes
		}
	}
	if records > 0 {
		if err := report.Restored(records, bytes, took); err != nil {
			return fmt.Errorf("report a restore: %w", err)
		}
	}
	return report.Running()
}
