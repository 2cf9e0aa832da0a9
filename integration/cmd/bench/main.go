// Command bench runs kolk, Kafka Streams and a plain Go loop side by side on one real Kafka broker. Package bench says what is measured; -h lists the flags.
//
//	go run ./cmd/bench                                           # count, window, join, ssjoin and dedup, exactly-once
//	go run ./cmd/bench -scenarios dedup                          # 50 million ids
//	go run ./cmd/bench -scenarios window,join,ssjoin -runs 5
//	go run ./cmd/bench -scenarios restore -dist each -records 5000000 -keys 5000000
//	go run ./cmd/bench -with other="/path/to/contender --flag"   # any program that follows the contract
//
// It needs Linux, Java 17 or later and Maven. KAFKA=host:port uses a cluster that runs already. The status is 1 if a result was wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kolkstreams/kolk/integration/bench"
	"github.com/kolkstreams/kolk/integration/contract"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := bench.Options{
		Contenders: []string{bench.Kolk, bench.Streams, bench.RawChangelog},
		Scenarios:  []string{bench.Count, bench.Window, bench.Join, bench.StreamJoin, bench.Dedup},
		Guarantees: []string{contract.ExactlyOnce},
		Progress:   os.Stderr,
	}
	list(&o.Contenders, "contenders", "of kolk, streams, raw, raw-changelog")
	list(&o.Scenarios, "scenarios", "of count, count-cached, window, join, ssjoin, dedup, restore, start")
	list(&o.Guarantees, "guarantees", "of exactly_once, at_least_once")
	flag.Func("with", "another contender, as `name=command` (repeatable)", func(s string) error {
		o.With = append(o.With, s)
		return nil
	})
	flag.IntVar(&o.Runs, "runs", 0, "runs of each that count; default 3, or 1 of dedup alone")
	flag.IntVar(&o.WarmUp, "warm-up", -1, "runs of each that come before and do not count; default 1, or none of dedup alone")
	flag.IntVar(&o.Threads, "threads", 2, "workers of each contender")
	flag.IntVar(&o.Nodes, "nodes", 1, "brokers, 1 or 3")
	flag.IntVar(&o.Input.Records, "records", 0, "input records; default 2,000,000, or 50,000,000 of dedup alone")
	flag.IntVar(&o.Input.Keys, "keys", 100_000, "different keys")
	flag.StringVar(&o.Input.Dist, "dist", bench.Uniform, "of keys: uniform, zipf (1.1), each (every key once)")
	flag.IntVar(&o.Input.Partitions, "partitions", 4, "partitions of every topic")
	flag.DurationVar(&o.Input.Step, "step", time.Millisecond, "event `time` from one record to the next")
	flag.Uint64Var(&o.Input.Seed, "seed", 1, "of the input")
	// Brokers delete windowed changelogs that are a day old by event time.
	o.Input.Base = time.Now().Add(-2 * time.Hour).Truncate(time.Hour).UTC()
	flag.Func("base", "event `time` of the first record, RFC 3339; default two hours ago, on the hour", func(s string) (err error) {
		o.Input.Base, err = time.Parse(time.RFC3339, s)
		return err
	})
	out := flag.String("out", "", "`file` for all results, as JSON")
	flag.Parse()
	defaults(&o)

	report, err := bench.Run(ctx, o)
	if report == nil {
		return err
	}
	if *out != "" {
		err = errors.Join(err, report.Save(*out))
	}
	err = errors.Join(err, report.Print(os.Stdout))
	if wrong := report.Wrong(); err == nil && len(wrong) > 0 {
		err = fmt.Errorf("%d runs were wrong", len(wrong))
	}
	return err
}

// defaults fills in how much is done, where no flag says it. The size of a deduplication is its point.
func defaults(o *bench.Options) {
	records, runs, warmUp := 2_000_000, 3, 1
	if slices.Equal(o.Scenarios, []string{bench.Dedup}) {
		records, runs, warmUp = 50_000_000, 1, 0
	}
	if o.Input.Records == 0 {
		o.Input.Records = records
	}
	if o.Runs == 0 {
		o.Runs = runs
	}
	if o.WarmUp < 0 {
		o.WarmUp = warmUp
	}
}

// list registers a flag that replaces a comma separated list.
func list(l *[]string, name, usage string) {
	flag.Func(name, usage+" (default "+strings.Join(*l, ",")+")", func(s string) error {
		*l = strings.Split(s, ",")
		return nil
	})
}
