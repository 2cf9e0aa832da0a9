// Command chaos runs jobs while processes and brokers are killed, frozen, added and removed, and compares their results with a batch computation. Package
// chaos says what is done; -h lists the flags. Each run, and all of them together, end on a line "equal: ..." or "DIFFERENT: ..."; with the latter the status is 1.
//
//	go run ./cmd/chaos -faults 20 -seed 1
//	go run ./cmd/chaos -fake -job count -guarantee exactly_once -kinds kill,zombie
//
// KAFKA=host:port uses a cluster that runs already, whose brokers are left in peace.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kolkstreams/kolk/integration/chaos"
	"github.com/kolkstreams/kolk/integration/kafka"
)

func main() {
	chaos.Child()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

var errDifferent = errors.New("results differ from the batch")

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	o := chaos.Options{Progress: os.Stdout}
	flags.IntVar(&o.Faults, "faults", 20, "faults of each run")
	flags.Uint64Var(&o.Seed, "seed", 1, "of what happens when")
	flags.IntVar(&o.Rate, "rate", 2000, "records a second")
	jobs := flags.String("job", "count,flights,foreign,pairs", "jobs to run")
	guarantees := flags.String("guarantee", chaos.ExactlyOnce+","+chaos.AtLeastOnce, "guarantees to run them under")
	nodes := flags.Int("nodes", 1, "brokers, 1 or 3")
	fake := flags.Bool("fake", false, "run on an in-process broker, in a process of its own")
	keep := flags.String("keep", "", "`folder` in which logs and state stay; empty: they stay, in a temporary folder, only if results differ")
	flags.DurationVar(&o.Session, "session", 0, "session timeout; zero: 3 s on brokers of our own, else 6 s")
	flags.Func("kinds", "of faults, such as kill,zombie (default all)", func(s string) (err error) {
		o.Kinds, err = chaos.ParseKinds(s)
		return err
	})
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}

	dir := *keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "kolk-chaos-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	end, err := brokers(ctx, &o, *fake, *nodes, dir)
	if err != nil {
		return err
	}
	var all []error
	runs := 0
	for _, job := range strings.Split(*jobs, ",") {
		for _, guarantee := range strings.Split(*guarantees, ",") {
			o := o
			o.Job, o.Guarantee = job, guarantee
			o.Application = fmt.Sprintf("chaos-%s-%s-%d-%d", job, strings.ReplaceAll(guarantee, "_", "-"), o.Seed, time.Now().Unix())
			o.Dir = filepath.Join(dir, o.Application)
			runs++
			if err := one(ctx, o); err != nil {
				all = append(all, err)
			}
		}
	}
	if len(all) > 0 {
		fmt.Printf("DIFFERENT: %d of %d runs\n", len(all), runs)
	} else {
		fmt.Printf("equal: %d runs\n", runs)
	}
	err = errors.Join(all...)
	if err != nil {
		err = fmt.Errorf("%w (logs are in %s)", err, dir)
	} else if *keep == "" {
		err = os.RemoveAll(dir)
	}
	return errors.Join(err, end())
}

// brokers starts, or finds, the brokers of all runs.
func brokers(ctx context.Context, o *chaos.Options, fake bool, nodes int, dir string) (end func() error, err error) {
	session := 3 * time.Second
	defer func() {
		if o.Session == 0 {
			o.Session = session
		}
	}()
	if fake {
		p, addr, err := chaos.StartFake(filepath.Join(dir, "broker"), filepath.Join(dir, "broker.log"))
		if err != nil {
			return nil, err
		}
		o.Seeds, o.Calm = []string{addr}, true
		return p.Kill, nil
	}
	c, err := kafka.LaunchOrConnect(ctx, kafka.Config{Nodes: nodes, Heap: "768m", QuickStart: true, Properties: map[string]string{"group.min.session.timeout.ms": "1000"}})
	if err != nil {
		return nil, err
	}
	if len(c.Nodes()) == 0 {
		session = 6 * time.Second
	}
	o.Seeds, o.Nodes = c.Seeds(), c.Nodes()
	return c.Close, nil
}

// one is one run.
func one(ctx context.Context, o chaos.Options) error {
	fmt.Printf("== %s, %s, %d faults, seed %d\n", o.Job, o.Guarantee, o.Faults, o.Seed)
	c, err := chaos.Run(ctx, o)
	if err != nil {
		fmt.Printf("DIFFERENT: the run did not come to its end: %v\n", err)
		return fmt.Errorf("%s, %s: %w", o.Job, o.Guarantee, err)
	}
	fmt.Println(c)
	if !c.Equal() {
		return fmt.Errorf("%s, %s: %w", o.Job, o.Guarantee, errDifferent)
	}
	return nil
}
