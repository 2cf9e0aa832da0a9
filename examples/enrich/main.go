// Enrich adds to each click the country of the user who made it.
//
// The problem: events carry an id, and what is known of that id lives in a table that changes. Asking a database for each event is slow, and a cache
// beside the program forgets. Here the table is a topic; each task keeps its part of it in a local store, as of the moment of the click.
//
// Clicks come keyed by session, profiles by user. A join finds a row only if both sides have the same key and the same number of partitions. So
// clicks are keyed by user and written to a topic of their own first; that the counts are equal is checked at start. Clicks of strangers are kept.
//
// It needs the topics clicks, profiles and seen, the first two with equally many partitions.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

type (
	click   struct{ User, URL string }
	profile struct{ Country string }
	visit   struct{ URL, Country string }
)

var (
	clicks   = topology.NewTopic("clicks", serde.String(), serde.JSON[click]())
	profiles = topology.NewTopic("profiles", serde.String(), serde.JSON[profile]())
	seen     = topology.NewTopic("seen", serde.String(), serde.JSON[visit]())
)

func enrich() (*topology.Topology, error) {
	b := topology.New()
	known := b.Table("profiles", profiles, store.FiniteKeys(200_000))
	b.Stream(clicks).
		SelectKey(func(_ string, c click) string { return c.User }).
		Repartition("clicks-by-user").
		LeftJoinTable(known, func(c click, p *profile) visit {
			if p == nil {
				return visit{c.URL, "unknown"}
			}
			return visit{c.URL, p.Country}
		}).
		To(seen)
	return b.Build()
}

func main() {
	top, err := enrich()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{Application: "enrich", Brokers: []string{"localhost:9092"}, StateDir: "state"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
