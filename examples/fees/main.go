// Fees charges each flight what its airport asked for at the time, whenever the price list arrives.
//
// The problem: a table holds what is true now. A flight of Tuesday that is processed on Thursday, since it arrives late, since a program was down, or since somebody computes the whole year
// again, must be charged Tuesday's fee. A plain table has Thursday's.
//
// A versioned table remembers what its rows were. Each row of the fee list is valid from its own time on, and JoinAsOf looks up the row that was valid at the time of the
// flight. So the result does not depend on when the two are read. The history says how far back it can be asked, and bounds the state: older
// rows are given up, except for the newest of each airport.
//
// A row that arrives after the flights that it is for, a fee that was decided with hindsight, is seen if the flights wait for it. WaitFor holds each flight back until
// one comes that left three hours later.
//
// It needs the topics flights, filled, fees with as many partitions, and charges:
//
//	go run ./flights/load fees charges
//	go run ./fees
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
	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

type (
	// fee is what an airport takes for a departure, from the time of the record on.
	fee struct{ Cents, CentsPerMile int64 }
	// charge is what a flight has to pay.
	charge struct {
		To       string
		Departed time.Time
		Cents    int64
	}
)

var (
	flights = topology.NewTopic("flights", serde.String(), serde.JSON[data.Flight]()) // by origin
	fees    = topology.NewTopic("fees", serde.String(), serde.JSON[fee]())            // by airport
	charges = topology.NewTopic("charges", serde.String(), serde.JSON[charge]())      // by origin
)

// month is longer than any fee list was late so far.
const month = 31 * 24 * time.Hour

func bill(f data.Flight, x fee) charge {
	return charge{f.Destination, f.Departed, x.Cents + f.Miles*x.CentsPerMile}
}

func charging() (*topology.Topology, error) {
	b := topology.New()
	list := b.VersionedTable("fees", fees, store.FiniteKeys(4000), month)
	b.Stream(flights).
		JoinAsOf(list, bill, topology.WaitFor("flights-waiting", 3*time.Hour)).
		To(charges)
	return b.Build()
}

func main() {
	top, err := charging()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{
		Application: "fees",
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
