package job

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// world is a broker with the job's topics.
type world struct {
	topics Topics
	client *kgo.Client
	seeds  kgo.Opt
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{topics: NewTopics("test"), seeds: kgo.SeedBrokers(c.ListenAddrs()...)}
	if w.client, err = kgo.NewClient(w.seeds, kgo.TransactionalID("job")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	if err := Create(t.Context(), kadm.NewClient(w.client), w.topics, 2); err != nil {
		t.Fatal(err)
	}
	return w
}

// commit writes records in a transaction, and commits or aborts it.
func (w *world) commit(t *testing.T, commit kgo.TransactionEndTry, records ...*kgo.Record) {
	t.Helper()
	if err := w.client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := w.client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := w.client.EndTransaction(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
}

func (w *world) airport(t *testing.T, code string, d Delay) *kgo.Record {
	t.Helper()
	r, err := record(w.topics.AirportDelays.Name(), time.Now(), text, code, delayJSON, d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) follow(t *testing.T) *Output {
	t.Helper()
	o, err := Follow(w.topics, w.seeds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

func TestCreate(t *testing.T) {
	w := newWorld(t)
	adm := kadm.NewClient(w.client)
	made, err := adm.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"test-flights", "test-airports", "test-airport-delays", "test-state-delays"} {
		if len(made[name].Partitions) != 2 {
			t.Errorf("%s has %d partitions, want 2", name, len(made[name].Partitions))
		}
	}
	if err := Create(t.Context(), adm, w.topics, 2); err == nil || !strings.Contains(err.Error(), "test-flights") {
		t.Errorf("a second Create gives %v, want an error that names the topic", err)
	}
}

func TestProduce(t *testing.T) {
	w := newWorld(t)
	flights, airports := load(t)
	if err := w.client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := Produce(t.Context(), w.client, w.topics, flights[:10], airports[:20]); err != nil {
		t.Fatal(err)
	}
	if err := w.client.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	reader, err := kgo.NewClient(w.seeds, kgo.ConsumeTopics(w.topics.Inputs()...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var got []data.Flight
	for seen := 0; seen < 30; {
		fetches := reader.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for r := range fetches.RecordsAll() {
			seen++
			if r.Topic != w.topics.Flights.Name() {
				if !r.Timestamp.Before(flights[0].Departed) {
					t.Errorf("airport %s is from %v, after the first flight", r.Key, r.Timestamp)
				}
				continue
			}
			f, err := flightJSON.Decode(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Key) != f.Origin || !r.Timestamp.Equal(f.Departed) {
				t.Errorf("flight %v has key %s and time %v", f, r.Key, r.Timestamp)
			}
			got = append(got, f)
		}
	}
	if len(got) != 10 {
		t.Errorf("%d flights, want 10", len(got))
	}
}

// Only what is committed counts, the last value of a key, and markers at the end of a partition do not keep a reader waiting.
func TestOutput(t *testing.T) {
	w := newWorld(t)
	day := StateDay{"CA", "2001-01-01"}
	state, err := record(w.topics.StateDelays.Name(), time.Now(), stateDayJSON, day, delayJSON, Delay{7, 8})
	if err != nil {
		t.Fatal(err)
	}
	gone := w.airport(t, "LAX", Delay{})
	gone.Value = nil
	w.commit(t, kgo.TryCommit, w.airport(t, "SFO", Delay{1, 2}), w.airport(t, "LAX", Delay{5, 6}), state)
	w.commit(t, kgo.TryAbort, w.airport(t, "SFO", Delay{100, 200}))
	w.commit(t, kgo.TryCommit, w.airport(t, "SFO", Delay{3, 4}), gone)
	w.commit(t, kgo.TryAbort, w.airport(t, "SFO", Delay{100, 200}))

	o := w.follow(t)
	if err := o.ToEnd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := map[string]Delay{"SFO": {3, 4}}; !maps.Equal(o.Airports, want) {
		t.Errorf("airports %v, want %v", o.Airports, want)
	}
	if want := map[StateDay]Delay{day: {7, 8}}; !maps.Equal(o.States, want) {
		t.Errorf("states %v, want %v", o.States, want)
	}
	if o.Updates != 5 {
		t.Errorf("%d updates, want 5", o.Updates)
	}
}

func TestOutputThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	bad := w.airport(t, "SFO", Delay{})
	bad.Value = []byte("late")
	w.commit(t, kgo.TryCommit, bad)
	out := w.follow(t)
	if err := out.ToEnd(t.Context()); err == nil || !strings.Contains(err.Error(), "test-airport-delays") {
		t.Errorf("error %v, want one that names the topic", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := out.ToEnd(ctx); err == nil {
		t.Error("a reader that was told to stop has read to the end")
	}
}
