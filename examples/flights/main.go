// Flights is the demo of kolk: a stateful job on real data, exactly once.
//
// It makes topics on a Kafka broker, writes 20,000 flights and 3,376 airports to them, runs the job of package job until all flights have been taken
// in, prints the airports with the worst delays, and compares every row of the output with a plain batch computation over the same file.
//
//	go run ./flights                          # with a broker of its own, which starts as a second process
//	go run ./flights -kafka localhost:9092    # on a cluster; what it makes there it deletes at the end, unless -keep
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// options are how the demo runs.
type options struct {
	kafka   string // host:port; empty starts a broker
	keep    bool
	flights int // how many of the flights
	log     *slog.Logger
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == brokerCommand {
		exit(serveBroker(os.Args[2], os.Stdin, os.Stdout))
	}
	var o options
	flag.StringVar(&o.kafka, "kafka", os.Getenv("KAFKA"), "use the cluster at this `host:port` instead of a broker of one's own")
	flag.BoolVar(&o.keep, "keep", false, "leave topics, data and state in place")
	flag.IntVar(&o.flights, "flights", 20_000, "take only the first `n` flights")
	level := flag.String("log", "warn", "what kolk logs to standard error: debug, info, warn, error or disabled")
	flag.Parse()

	var err error
	if o.log, err = logger(os.Stderr, *level); err != nil {
		exit(err)
	}
	if flag.NArg() > 0 || o.flights < 1 {
		flag.Usage()
		os.Exit(2)
	}
	signal.Ignore(syscall.SIGPIPE) // `| head` must not keep it from cleaning up
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, o, os.Stdout))
}

// exit ends the program with its status.
func exit(err error) {
	switch {
	case err == nil:
		os.Exit(0)
	case !errors.Is(err, errDiffers): // the differences have been printed
		fmt.Fprintln(os.Stderr, "flights:", err)
	}
	os.Exit(1)
}

// logger writes with zerolog. kolk takes any slog.Logger, and so any library that has a handler for it.
func logger(w io.Writer, level string) (*slog.Logger, error) {
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("-log: %w", err)
	}
	z := zerolog.New(zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !terminal(w)}).Level(l)
	return slog.New(zerolog.NewSlogHandler(z)), nil
}

// terminal is whether w is one, and can show colours.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
