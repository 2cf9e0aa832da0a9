package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/examples/flights/job"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

// flights is the flights job of the examples. When all flights have been sent they are sent again.
type flights struct {
	app      string
	topics   job.Topics
	airports []data.Airport
	flights  []data.Flight
	next     int
	sent     []data.Flight
	added    []data.Flight
}

func newFlights(application string, _ uint64) (Job, error) {
	f := &flights{app: application, topics: job.NewTopics(application)}
	var err error
	if f.airports, err = data.Airports(); err != nil {
		return nil, err
	}
	f.flights, err = data.Flights()
	return f, err
}

func (f *flights) Inputs() []string { return f.topics.Inputs() }

func (f *flights) Outputs() map[string]Output {
	return map[string]Output{
		f.topics.AirportDelays.Name(): {Counted, f.app + "-" + job.AirportStore + "-changelog"},
		f.topics.StateDelays.Name():   {Counted, f.app + "-" + job.StateStore + "-changelog"},
	}
}

func (f *flights) Internal() []string {
	return []string{f.app + "-flights-by-destination-repartition", f.app + "-" + job.StateStore + "-repartition"}
}

func (f *flights) Tasks(partitions int32) int { return 3 * int(partitions) }

// emitted is the serde of a result; it counts what is written, which every update is.
type emitted[V any] struct {
	serde.Serde[V]
	m    Meter
	slot int
}

// Encode implements serde.Serde.
func (e emitted[V]) Encode(dst []byte, v V) ([]byte, error) {
	e.m.Seen(e.slot)
	return e.Serde.Encode(dst, v)
}

// output is a topic whose records the meter is told of.
func output[K comparable, V any](name string, key serde.Serde[K], value serde.Serde[V], m Meter, slot int) topology.Topic[K, V] {
	return topology.NewTopic[K, V](name, key, emitted[V]{value, m, slot})
}

func (f *flights) Topology(m Meter) (*topology.Topology, error) {
	t := f.topics
	delay := serde.JSON[job.Delay]()
	t.AirportDelays = output(t.AirportDelays.Name(), serde.String(), delay, m, 0)
	t.StateDelays = output(t.StateDelays.Name(), serde.JSON[job.StateDay](), delay, m, 1)
	return job.Topology(t)
}

func (f *flights) First() (all []*kgo.Record) {
	for _, a := range f.airports {
		all = append(all, jsonRecord(f.topics.Airports.Name(), a.Code, a, time.Date(2000, 12, 31, 0, 0, 0, 0, time.UTC)))
	}
	return all
}

func jsonRecord(topic, key string, value any, at time.Time) *kgo.Record {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err) // plain structs can be written
	}
	return &kgo.Record{Topic: topic, Key: []byte(key), Value: b, Timestamp: at}
}

func (f *flights) Next() *kgo.Record {
	flight := f.flights[f.next%len(f.flights)]
	f.next++
	return f.send(flight)
}

func (f *flights) send(flight data.Flight) *kgo.Record {
	f.sent = append(f.sent, flight)
	return jsonRecord(f.topics.Flights.Name(), flight.Origin, flight, flight.Departed)
}

// Touch sends one flight for each airport and each day of a state that has had one.
func (f *flights) Touch() (all []*kgo.Record) {
	states := make(map[string]string)
	for _, a := range f.airports {
		states[a.Code] = a.State
	}
	touched := make(map[Row]bool)
	for _, flight := range slices.Clone(f.sent) {
		state, ok := states[flight.Destination]
		airport, day := Row{"airport", flight.Destination}, Row{state, flight.Day()}
		if ok && !(touched[airport] && touched[day]) {
			touched[airport], touched[day] = true, true
			all = append(all, f.send(flight))
		}
	}
	return all
}

func (f *flights) Last() []*kgo.Record { return nil }

func (f *flights) Sent() int64 { return int64(len(f.airports) + len(f.sent)) }

func (f *flights) Add(r *kgo.Record) error {
	if r.Topic != f.topics.Flights.Name() {
		return nil
	}
	var flight data.Flight
	if err := json.Unmarshal(r.Value, &flight); err != nil {
		return fmt.Errorf("flight: %w", err)
	}
	f.added = append(f.added, flight)
	return nil
}

func (f *flights) Want() map[Row]Value {
	want := make(map[Row]Value)
	r := job.Batch(f.added, f.airports)
	for code, d := range r.Airports {
		want[Row{f.topics.AirportDelays.Name(), code}] = Value{d.Flights, d.Minutes}
	}
	for day, d := range r.States {
		want[Row{f.topics.StateDelays.Name(), day.State + " " + day.Day}] = Value{d.Flights, d.Minutes}
	}
	return want
}

func (f *flights) Row(output string, key, value []byte) (Row, Value, error) {
	var d job.Delay
	if err := json.Unmarshal(value, &d); err != nil {
		return Row{}, Value{}, fmt.Errorf("delay of %q: %w", key, err)
	}
	name := string(key)
	if output == f.topics.StateDelays.Name() {
		var day job.StateDay
		if err := json.Unmarshal(key, &day); err != nil {
			return Row{}, Value{}, fmt.Errorf("state and day %q: %w", key, err)
		}
		name = day.State + " " + day.Day
	}
	return Row{output, name}, Value{d.Flights, d.Minutes}, nil
}

func (f *flights) Slots() int { return 2 }

func (f *flights) Slot(r Row) int {
	if r.Output == f.topics.AirportDelays.Name() {
		return 0
	}
	return 1
}
