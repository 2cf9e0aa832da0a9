package job

import (
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

func load(t *testing.T) ([]data.Flight, []data.Airport) {
	t.Helper()
	flights, err := data.Flights()
	if err != nil {
		t.Fatal(err)
	}
	airports, err := data.Airports()
	if err != nil {
		t.Fatal(err)
	}
	return flights, airports
}

// The job in the test driver: the same rows as the batch, also if the disk is lost half-way.
func TestEqualToBatch(t *testing.T) {
	flights, airports := load(t)
	flights = flights[:1000]
	topics := NewTopics("test")
	top, err := Topology(topics)
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top, topologytest.Partitions(4))
	table, in := d.Input(topics.Airports), d.Input(topics.Flights)
	byCode, byDay := d.Output(topics.AirportDelays), d.Output(topics.StateDelays)
	for _, a := range airports {
		table.SendAt(airportsSince, a.Code, a)
	}
	for i, f := range flights {
		in.SendAt(f.Departed, f.Origin, f)
		if i == len(flights)/2 {
			d.Restart()
		}
	}
	got := Results{Airports: byCode.Map(), States: byDay.Map()}
	want := Batch(flights, airports)
	for _, line := range got.Diff(want) {
		t.Error(line)
	}
	if drops := d.Drops(); len(drops) > 0 {
		t.Errorf("%d flights were dropped, the first for %q", len(drops), drops[0].Reason)
	}
}

func TestFlightToNowhere(t *testing.T) {
	topics := NewTopics("test")
	top, err := Topology(topics)
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top)
	flight := data.Flight{Origin: "LAX", Destination: "???", Delay: 5}
	d.Input(topics.Flights).Send("LAX", flight)
	d.Output(topics.AirportDelays).None()
	d.Output(topics.StateDelays).None()
	if n := len(d.Drops(processor.NoRow)); n != 1 {
		t.Errorf("%d flights found no airport, want 1", n)
	}
	if rows := Batch([]data.Flight{flight}, nil).Rows(); rows != 0 {
		t.Errorf("the batch has %d rows", rows)
	}
}

func TestBatch(t *testing.T) {
	flights, airports := load(t)
	r := Batch(flights, airports)
	if r.Rows() != 223+3342 {
		t.Errorf("%d rows", r.Rows())
	}
	if byAirport, byState := r.Flights(); byAirport != 20_000 || byState != 20_000 {
		t.Errorf("%d and %d flights", byAirport, byState)
	}
	if d := (Delay{Flights: 4, Minutes: 10}); d.Average() != 2.5 || (Delay{}).Average() != 0 {
		t.Errorf("averages %v and %v", d.Average(), Delay{}.Average())
	}
}

func TestDiff(t *testing.T) {
	day := StateDay{"CA", "2001-01-01"}
	want, got := NewResults(), NewResults()
	want.Airports["A"], got.Airports["A"] = Delay{1, 2}, Delay{1, 2}
	want.Airports["B"], got.Airports["C"] = Delay{3, 4}, Delay{5, 6}
	want.States[day], got.States[day] = Delay{7, 8}, Delay{7, 9}
	lines := got.Diff(want)
	if len(lines) != 3 {
		t.Fatalf("differences %q", lines)
	}
	for i, part := range []string{"B: missing", "C: 5 flights", "2001-01-01}: 7 flights and 9 minutes, want 7 and 8"} {
		if !strings.Contains(lines[i], part) {
			t.Errorf("difference %q, want %q in it", lines[i], part)
		}
	}
	if lines := want.Diff(want); lines != nil {
		t.Errorf("a result differs from itself: %q", lines)
	}
}
