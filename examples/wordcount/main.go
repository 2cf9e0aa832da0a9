// Word count: lines in, a running count of each word out.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

var (
	lines  = topology.NewTopic("lines", serde.String(), serde.String())
	counts = topology.NewTopic("word-counts", serde.String(), serde.Int64())
)

func wordCount() (*topology.Topology, error) {
	b := topology.New()
	b.Stream(lines).
		FlatMapValues(strings.FieldsSeq).
		GroupBy(func(_, word string) string { return word }).
		Count("words", store.FiniteKeys(1_000_000)).
		To(counts)
	return b.Build()
}

func main() {
	top, err := wordCount()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{
		Application: "word-count",
		Brokers:     []string{"localhost:9092"},
		StateDir:    "state",
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
