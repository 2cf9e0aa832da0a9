// Payments is about two streams that belong together, and about what does not come: orders and their payments.
//
// The problem: an order is paid within half an hour, or it is to be called back. Orders and payments are two topics, both keyed by the number of the order, and either may be late. A timer in a service
// would forget its orders at a restart; a job that looks into a database each minute reads everything again and again.
//
// LeftJoin keeps each order until its payment comes, for half an hour of event time and a minute of grace for payments that arrive late. An order whose time is over is sent once, as unpaid. The
// time is that of the records themselves, so a backlog is read with the same results, and it survives a restart in the middle. While no record comes, none is
// sent: it takes a later record, of any order of the same partition, to know that time has passed.
//
// Payments without an order are not asked for; OuterJoin would tell of them too.
//
// It needs the topics orders and payments, with equal numbers of partitions, and order-status.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

type (
	order struct {
		Customer string
		Cents    int64
	}
	payment struct {
		Method string
		Cents  int64
	}
	status struct {
		Customer string
		Open     int64  // cents
		Paid     string // how; empty if it was not
	}
)

var (
	orders   = topology.NewTopic("orders", serde.String(), serde.JSON[order]())
	payments = topology.NewTopic("payments", serde.String(), serde.JSON[payment]())
	statuses = topology.NewTopic("order-status", serde.String(), serde.JSON[status]())
)

func settle(o order, p *payment) status {
	if p == nil {
		return status{Customer: o.Customer, Open: o.Cents}
	}
	return status{Customer: o.Customer, Open: o.Cents - p.Cents, Paid: p.Method}
}

func unpaid() (*topology.Topology, error) {
	halfAnHour := window.Following(30 * time.Minute).Grace(time.Minute)
	b := topology.New()
	b.Stream(orders).LeftJoin("paid-orders", b.Stream(payments), halfAnHour, settle).To(statuses)
	return b.Build()
}

func main() {
	top, err := unpaid()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{Application: "payments", Brokers: []string{"localhost:9092"}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
