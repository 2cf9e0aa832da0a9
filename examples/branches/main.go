// Branches makes one stream of two inputs and cuts it into three outputs.
//
// The problem: orders come from several places in several formats, and different people want different ones of them. Instead of a program per
// question, one topology brings them into one form, and gives each order to the first branch that takes it. Nothing is kept, so no state is needed.
//
// It needs the topics web-orders, phone-orders, large-orders, orders-abroad and other-orders.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
)

type order struct {
	Country string
	Cents   int64
}

// call is an order as it is taken down on the phone, in whole euros.
type call struct {
	From  string
	Euros int64
}

func (c call) order() order { return order{c.From, c.Euros * 100} }

var (
	web    = topology.NewTopic("web-orders", serde.String(), serde.JSON[order]())
	phone  = topology.NewTopic("phone-orders", serde.String(), serde.JSON[call]())
	large  = topology.NewTopic("large-orders", serde.String(), serde.JSON[order]())
	abroad = topology.NewTopic("orders-abroad", serde.String(), serde.JSON[order]())
	others = topology.NewTopic("other-orders", serde.String(), serde.JSON[order]())
)

func branches() (*topology.Topology, error) {
	b := topology.New()
	split := b.Stream(web).
		Merge(b.Stream(phone).MapValues(call.order)).
		Split()
	split.Branch("large", func(_ string, o order) bool { return o.Cents >= 1_000_000 }).To(large)
	split.Branch("abroad", func(_ string, o order) bool { return o.Country != "DE" }).To(abroad)
	split.Rest().To(others)
	return b.Build()
}

func main() {
	top, err := branches()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{Application: "branches", Brokers: []string{"localhost:9092"}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
