// Fraud is about records that follow each other: card testing.
//
// The problem: whoever has stolen the numbers of many cards tries each with small payments first, and if they go through takes a large one at once. None of the payments is
// suspicious by itself. What gives them away is their order and their closeness in time, and also what is missing: the owner, who typed the PIN or has just changed it.
//
// The pattern says so: two small payments or more, then a large one, all within a minute of the first, and no change of the PIN before the large one. Sequence keeps for each card what it has
// seen of the pattern, for no longer than that minute of event time, and survives a restart in the middle.
//
// A second pattern is about something that does not come: a large payment that its owner did not confirm within ten minutes. That is decided when the time of the card events,
// of whichever card, has passed the ten minutes.
//
// It needs the topics card-events and card-alerts.
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
)

// cardEvent is something that happened to a card; the key is the card.
type cardEvent struct {
	Kind  string // "payment", "confirmation" or "pin-change"
	Cents int64
	Shop  string
}

func (e cardEvent) small() bool        { return e.Kind == "payment" && e.Cents < 200 }
func (e cardEvent) large() bool        { return e.Kind == "payment" && e.Cents >= 50_000 }
func (e cardEvent) confirmation() bool { return e.Kind == "confirmation" }
func (e cardEvent) pinChange() bool    { return e.Kind == "pin-change" }

type alert struct {
	Why     string
	Shop    string
	Cents   int64
	Seconds float64 // from the first record to the last
}

var (
	events = topology.NewTopic("card-events", serde.String(), serde.JSON[cardEvent]())
	alerts = topology.NewTopic("card-alerts", serde.String(), serde.JSON[alert]())
)

// about makes an alert of the large payment of a match.
func about(why string) func(string, topology.Match[cardEvent]) alert {
	return func(_ string, m topology.Match[cardEvent]) alert {
		first, last := m.Times()
		large := m.At("large")
		return alert{Why: why, Shop: large.Shop, Cents: large.Cents, Seconds: last.Sub(first).Seconds()}
	}
}

func fraud() (*topology.Topology, error) {
	cardTest := topology.First("small", cardEvent.small).Times(2).
		ThenNot("pin-change", cardEvent.pinChange).
		Then("large", cardEvent.large).
		Within(time.Minute)
	unconfirmed := topology.First("large", cardEvent.large).
		ThenNot("confirmation", cardEvent.confirmation).
		Within(10 * time.Minute)

	b := topology.New()
	cards := b.Stream(events)
	tested := cards.Sequence("card-tests", cardTest, about("tested with small payments"))
	open := cards.Sequence("unconfirmed", unconfirmed, about("not confirmed"))
	tested.Merge(open).To(alerts)
	return b.Build()
}

func main() {
	top, err := fraud()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{Application: "fraud", Brokers: []string{"localhost:9092"}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
