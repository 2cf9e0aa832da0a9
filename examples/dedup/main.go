// Dedup takes out what was sent twice.
//
// The problem: a shop's till sends each payment until it is told that it has arrived, and when the answer is lost it sends the payment again. Phones and gateways do the same. Every one
// of them gives a payment an id, and sends it again within minutes, or within a day when it was off the net.
//
// Deduplicate keeps the first payment of each id within a horizon of event time, here a day, and drops the others, which it counts. It remembers the ids alone, for two to three
// horizons, and forgets them in one go. An earlier payment that arrives after its duplicate is caught as well.
//
// Payments come keyed by shop, and ids are asked for within a key: equal ids of two shops are two payments.
//
// It needs the topics payments and payments-once.
package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
)

type payment struct {
	ID    string
	Cents int64
}

var (
	payments = topology.NewTopic("payments", serde.String(), serde.JSON[payment]()) // by shop
	once     = topology.NewTopic("payments-once", serde.String(), serde.JSON[payment]())
)

func dedup() (*topology.Topology, error) {
	b := topology.New()
	b.Stream(payments).
		Deduplicate("payment-ids", 24*time.Hour, func(_ string, p payment) string { return p.ID }).
		To(once)
	return b.Build()
}

func main() {
	top, err := dedup()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{
		Application: "dedup",
		Brokers:     []string{cmp.Or(os.Getenv("KAFKA"), "localhost:9092")},
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
