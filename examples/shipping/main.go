// Shipping keeps an address label for each order that is to be sent, and keeps it right.
//
// The problem: orders name their customer, and customers move. Both are tables that change all the time, and they have different keys: the label of an order must change
// when the customer's address does, of which the order knows nothing. A stream-table join would look the address up once, when the order comes, and never again.
//
// A join by foreign key keeps both sides. JoinForeign is told how to find the customer in an order. An order that comes or changes gets its label, a
// customer who moves gets new labels for all open orders, and an order that is deleted, since it was sent, takes its label away. The tables may have different numbers of
// partitions: the join goes through two topics of its own to bring them together, and the label ends up in the partition of its order.
//
// It needs the topics orders, customers and labels.
package main

import (
	"cmp"
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
	order    struct{ Customer, Item string }
	customer struct{ Name, City string }
	label    struct{ Item, Name, City string }
)

var (
	orders    = topology.NewTopic("orders", serde.String(), serde.JSON[order]())       // by order number; a null when it was sent
	customers = topology.NewTopic("customers", serde.String(), serde.JSON[customer]()) // by customer number
	labels    = topology.NewTopic("labels", serde.String(), serde.JSON[label]())       // by order number
)

func shipping() (*topology.Topology, error) {
	b := topology.New()
	known := b.Table("customers", customers, store.FiniteKeys(100_000))
	b.Table("open-orders", orders, store.FiniteKeys(10_000)).
		JoinForeign("order-customer", known,
			func(_ string, o order) (string, bool) { return o.Customer, o.Customer != "" },
			func(o order, c customer) label { return label{o.Item, c.Name, c.City} }).
		To(labels)
	return b.Build()
}

func main() {
	top, err := shipping()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{
		Application: "shipping",
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
