// Deadletter is about records that cannot be read or make no sense.
//
// The problem: one bad record stops the whole partition, as every attempt to go on meets it again. Leaving it out in silence loses data. What is
// right depends on the place, so each source, stage and sink that can fail has a policy:
//
//   - Stop, the default, ends the application with a *kolk.RecordError: topic, partition, offset and why.
//   - Skip leaves the record out and counts it.
//   - DeadLetter writes the record as it came to a topic, with headers that say where it came from and what was wrong, in the same transaction as the rest.
//
// Here payments that are no JSON, and those in currencies without a rate, go to a topic that somebody looks into. Amounts of zero or less are skipped. A
// fault of the program itself would still stop it.
//
// It needs the topics payments, payments-in-euros and payments-rejected.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
)

type payment struct {
	Currency string
	Amount   float64
}

var (
	payments = topology.NewTopic("payments", serde.String(), serde.JSON[payment]())
	inEuros  = topology.NewTopic("payments-in-euros", serde.String(), serde.Float64())
)

const rejected = "payments-rejected"

var euros = map[string]float64{"EUR": 1, "USD": 0.92, "GBP": 1.17}

func convert(p payment) (float64, error) {
	rate, ok := euros[p.Currency]
	if !ok {
		return 0, fmt.Errorf("no rate for currency %q", p.Currency)
	}
	return p.Amount * rate, nil
}

func positive(amount float64) (float64, error) {
	if amount <= 0 {
		return 0, fmt.Errorf("amount %g is not positive", amount)
	}
	return amount, nil
}

func deadLetter() (*topology.Topology, error) {
	b := topology.New()
	b.Stream(payments, topology.OnError(topology.DeadLetter(rejected))).
		TryMapValues(convert, topology.Named("convert"), topology.OnError(topology.DeadLetter(rejected))).
		TryMapValues(positive, topology.Named("positive"), topology.OnError(topology.Skip)).
		To(inEuros)
	return b.Build()
}

func main() {
	top, err := deadLetter()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{
		Application: "deadletter",
		Brokers:     []string{"localhost:9092"},
		Hooks: &kolk.Hooks{
			OnDeadLetter: func(node string, err error) { log.Printf("rejected at %s: %v", node, err) },
		},
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
