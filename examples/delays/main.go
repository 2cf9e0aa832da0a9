// Delays is about results that are final: how late do flights leave an airport, hour by hour and day by day?
//
// The problem: a sum that is sent on with every flight is never right for good. Whoever raises an alarm, sends an invoice or writes a report wants one number, when it
// cannot change any more. Final gives it: one result per airport and hour, when the time of the flights has passed the hour by the grace, the delay that a flight may come in with.
// A flight that comes still later is dropped and counted, and changes nothing that was sent.
//
// Days are less simple than hours. An airport's day begins at midnight where it lies, and has 23 hours when the clocks go forward. window.Daily knows the time zone. Here
// every flight of the day updates the day's row, for a page that shows today so far.
//
// Time is that of each partition: in one that gets no more flights the last hour stays open. And time is what the records say. The flights of this example tell the
// time at the airport, without a zone, as their source does. TimedBy makes instants of it.
//
// It needs the topics flights, filled, delays-by-hour and delays-by-day. To make them, from real flights of 2001, and to run it:
//
//	go run ./flights/load delays-by-hour delays-by-day
//	go run ./delays
package main

import (
	"cmp"
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // the zones, where the system has none

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

// delay is the sum of some flights' delays.
type delay struct{ Flights, Minutes int64 }

func add(_ string, f data.Flight, sum delay) delay {
	return delay{sum.Flights + 1, sum.Minutes + f.Delay}
}

var (
	pacific = zone("America/Los_Angeles")
	hours   = window.Tumbling(time.Hour).Grace(10 * time.Minute)
	days    = window.Daily(pacific).Grace(10 * time.Minute)

	flights     = topology.NewTopic("flights", serde.String(), serde.JSON[data.Flight]()).TimedBy(departed) // by origin
	delaysHours = topology.NewTopic("delays-by-hour", window.KeySerde(serde.String(), hours), serde.JSON[delay]())
	delaysDays  = topology.NewTopic("delays-by-day", window.KeySerde(serde.String(), days), serde.JSON[delay]())
)

func zone(name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		log.Fatal(err)
	}
	return loc
}

// onPacificTime has some airports of California. Windows have one time zone, so airports elsewhere need windows of their own.
var onPacificTime = map[string]bool{"LAX": true, "SFO": true, "SAN": true, "OAK": true, "SJC": true, "SMF": true, "ONT": true, "BUR": true}

// departed is the instant at which a flight took off.
func departed(_ string, f data.Flight) time.Time {
	y, m, d := f.Departed.Date()
	return time.Date(y, m, d, f.Departed.Hour(), f.Departed.Minute(), 0, 0, pacific)
}

func delays() (*topology.Topology, error) {
	b := topology.New()
	departures := b.Stream(flights).
		Filter(func(origin string, _ data.Flight) bool { return onPacificTime[origin] }).
		GroupByKey()

	departures.Windowed(hours).
		Aggregate("delays-by-hour", serde.JSON[delay](), add).
		Final().
		To(delaysHours)

	departures.Windowed(days).
		Aggregate("delays-by-day", serde.JSON[delay](), add).
		OnCommit(). // the last of each commit will do
		To(delaysDays)
	return b.Build()
}

func main() {
	top, err := delays()
	if err != nil {
		log.Fatal(err)
	}
	app, err := kolk.New(top, kolk.Config{
		Application: "delays",
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
