// Command soak runs a task on disk for 30 minutes of event time every second, prints what it keeps, and fails if that grows: see package soak.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/kolkstreams/kolk/integration/soak"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	o := soak.Defaults()
	o.Progress = os.Stdout
	flag.IntVar(&o.Steps, "steps", o.Steps, "how many")
	flag.DurationVar(&o.Event, "event", o.Event, "event `time` of a step")
	flag.DurationVar(&o.Pace, "pace", o.Pace, "least wall `time` of a step")
	flag.IntVar(&o.Records, "records", o.Records, "records of a step")
	flag.Int64Var(&o.Memory, "memory", o.Memory, "`bytes` for stores and Badger together")
	flag.Uint64Var(&o.Seed, "seed", o.Seed, "of the records")
	flag.StringVar(&o.Dir, "dir", "", "`folder` of the stores; default a temporary one")
	flag.Parse()
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "soak-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	}
	report, err := soak.Run(ctx, o)
	if err != nil {
		return err
	}
	fmt.Println(report)
	if grown := report.Grown(); len(grown) > 0 {
		return fmt.Errorf("state grew by more than %.1f times:\n%s", soak.Limit, strings.Join(grown, "\n"))
	}
	return nil
}
