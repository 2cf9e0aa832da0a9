// Package job is the flights job: how late do flights arrive, by airport, and by state and calendar day?
//
// Flights come keyed by the airport they left. They are keyed anew by the one where they land, joined with the table of airports, and added up twice:
//
//	flights -> by destination -> join airports -> sum by airport       -> airport-delays
//	                                           -> sum by state and day -> state-delays
//
// Batch computes the same in a loop over the file. As every flight changes one row of each result, and sums do not depend on order, the two must be
// equal to the last flight, whatever was killed on the way. The demo and the kill tests compare them.
package job

import (
	"time"

	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

// Arrival is what is known of a flight that has landed.
type Arrival struct {
	State string // where it landed
	Day   string // when it departed, such as 2001-03-31
	Delay int64  // minutes; negative if it was early
}

// StateDay is a day in a state.
type StateDay struct{ State, Day string }

// Delay is the sum of some flights' delays. It holds no pointers, so kolk keeps it decoded between two flights.
type Delay struct{ Flights, Minutes int64 }

// Average is the delay per flight in minutes; 0 without flights.
func (d Delay) Average() float64 {
	if d.Flights == 0 {
		return 0
	}
	return float64(d.Minutes) / float64(d.Flights)
}

func add[K any](_ K, a Arrival, sum Delay) Delay {
	return Delay{sum.Flights + 1, sum.Minutes + a.Delay}
}

// Topics are the topics that the job reads and writes.
type Topics struct {
	Flights  topology.Topic[string, data.Flight]  // by origin
	Airports topology.Topic[string, data.Airport] // by code

	AirportDelays topology.Topic[string, Delay] // by code
	StateDelays   topology.Topic[StateDay, Delay]
}

// The stores of the job.
const (
	AirportStore = "delay-by-airport"
	StateStore   = "delay-by-state-and-day"
)

var (
	text          = serde.String()
	flightJSON    = serde.JSON[data.Flight]()
	airportJSON   = serde.JSON[data.Airport]()
	stateDayJSON  = serde.JSON[StateDay]()
	delayJSON     = serde.JSON[Delay]()
	arrivalJSON   = serde.JSON[Arrival]()
	airportsSince = time.Date(2000, 12, 31, 0, 0, 0, 0, time.UTC) // before the first flight, so that each finds its airport
)

// NewTopics names the topics `<application>-flights` and so on, beside the internal ones that kolk makes for an application of that name.
func NewTopics(application string) Topics {
	return Topics{
		Flights:       topology.NewTopic(application+"-flights", text, flightJSON),
		Airports:      topology.NewTopic(application+"-airports", text, airportJSON),
		AirportDelays: topology.NewTopic(application+"-airport-delays", text, delayJSON),
		StateDelays:   topology.NewTopic(application+"-state-delays", stateDayJSON, delayJSON),
	}
}

// Inputs are the names of the topics that the job reads.
func (t Topics) Inputs() []string { return []string{t.Flights.Name(), t.Airports.Name()} }

// Outputs are the names of the topics that the job writes.
func (t Topics) Outputs() []string { return []string{t.AirportDelays.Name(), t.StateDelays.Name()} }

// Topology is the job. Flights and airports must have the same number of partitions, or it does not start.
func Topology(t Topics) (*topology.Topology, error) {
	b := topology.New()
	b.Default(arrivalJSON)
	b.Default(stateDayJSON)

	airports := b.Table("airports", t.Airports, store.FiniteKeys(4000))
	arrivals := b.Stream(t.Flights).
		SelectKey(func(_ string, f data.Flight) string { return f.Destination }).
		Repartition("flights-by-destination").
		JoinTable(airports, func(f data.Flight, a data.Airport) Arrival {
			return Arrival{State: a.State, Day: f.Day(), Delay: f.Delay}
		})

	arrivals.GroupByKey().
		Aggregate(AirportStore, delayJSON, store.FiniteKeys(1000), add[string]).
		To(t.AirportDelays)

	// There is no end of days, so this state needs another bound: a day is forgotten a year after its last flight.
	arrivals.GroupBy(func(_ string, a Arrival) StateDay { return StateDay{a.State, a.Day} }).
		Aggregate(StateStore, delayJSON, store.TTL(366*24*time.Hour).Expect(20_000), add[StateDay]).
		To(t.StateDelays)
	return b.Build()
}
