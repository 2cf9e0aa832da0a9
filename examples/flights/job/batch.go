package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kolkstreams/kolk/examples/flights/data"
)

// Results are what the job computes.
type Results struct {
	Airports map[string]Delay // by code
	States   map[StateDay]Delay
}

// NewResults are results of no flights.
func NewResults() Results {
	return Results{make(map[string]Delay), make(map[StateDay]Delay)}
}

// Batch computes the results in a plain loop over the data. Flights to places that are no airports are left out, as an inner join leaves them out.
func Batch(flights []data.Flight, airports []data.Airport) Results {
	states := make(map[string]string, len(airports))
	for _, a := range airports {
		states[a.Code] = a.State
	}
	r := NewResults()
	for _, f := range flights {
		state, ok := states[f.Destination]
		if !ok {
			continue
		}
		a := Arrival{State: state, Day: f.Day(), Delay: f.Delay}
		r.Airports[f.Destination] = add("", a, r.Airports[f.Destination])
		day := StateDay{a.State, a.Day}
		r.States[day] = add(day, a, r.States[day])
	}
	return r
}

// Rows is how many rows both results have together.
func (r Results) Rows() int { return len(r.Airports) + len(r.States) }

// Flights is how many flights went into each result: equal, unless flights are still on their way.
func (r Results) Flights() (byAirport, byState int64) {
	for _, d := range r.Airports {
		byAirport += d.Flights
	}
	for _, d := range r.States {
		byState += d.Flights
	}
	return byAirport, byState
}

// Diff says row by row, in order of their keys, in what r is not as wanted.
func (r Results) Diff(want Results) []string {
	byCode := diff("airport", r.Airports, want.Airports, cmp.Compare[string])
	byDay := diff("state and day", r.States, want.States, func(a, b StateDay) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Day, b.Day))
	})
	return append(byCode, byDay...)
}

func diff[K comparable](what string, got, want map[K]Delay, order func(K, K) int) (lines []string) {
	keys := make(map[K]bool)
	for k := range got {
		keys[k] = true
	}
	for k := range want {
		keys[k] = true
	}
	for _, k := range slices.SortedFunc(maps.Keys(keys), order) {
		g, there := got[k]
		w, wanted := want[k]
		switch {
		case !there:
			lines = append(lines, fmt.Sprintf("%s %v: missing, want %d flights and %d minutes", what, k, w.Flights, w.Minutes))
		case !wanted:
			lines = append(lines, fmt.Sprintf("%s %v: %d flights and %d minutes, want none", what, k, g.Flights, g.Minutes))
		case g != w:
			lines = append(lines, fmt.Sprintf("%s %v: %d flights and %d minutes, want %d and %d", what, k, g.Flights, g.Minutes, w.Flights, w.Minutes))
		}
	}
	return lines
}
