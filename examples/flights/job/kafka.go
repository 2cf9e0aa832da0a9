package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/serde"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KeepForEver is the topic configuration that the job's topics need, internal ones included: its event times are of 2001, and a broker deletes
// records by their time.
var KeepForEver = map[string]string{"retention.ms": "-1"}

// Create makes the topics that the job reads and writes.
func Create(ctx context.Context, adm *kadm.Client, t Topics, partitions int32) error {
	config := make(map[string]*string)
	for k, v := range KeepForEver {
		config[k] = &v
	}
	made, err := adm.CreateTopics(ctx, partitions, -1, config, slices.Concat(t.Inputs(), t.Outputs())...)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	var faults []error
	for _, m := range made.Sorted() {
		if m.Err != nil {
			faults = append(faults, fmt.Errorf("create topic %s: %w %s", m.Topic, m.Err, m.ErrMessage))
		}
	}
	return errors.Join(faults...)
}

// Produce writes the airports and then the flights to the topics of the job, each under its own time.
func Produce(ctx context.Context, client *kgo.Client, t Topics, flights []data.Flight, airports []data.Airport) error {
	records := make([]*kgo.Record, 0, len(airports)+len(flights))
	var faults []error
	for _, a := range airports {
		r, err := record(t.Airports.Name(), airportsSince, text, a.Code, airportJSON, a)
		records, faults = append(records, r), append(faults, err)
	}
	for _, f := range flights {
		r, err := record(t.Flights.Name(), f.Departed, text, f.Origin, flightJSON, f)
		records, faults = append(records, r), append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce flights and airports: %w", err)
	}
	return nil
}

func record[K, V any](topic string, at time.Time, keys serde.Serde[K], key K, values serde.Serde[V], value V) (*kgo.Record, error) {
	k, badKey := keys.Encode(nil, key)
	v, badValue := values.Encode(nil, value)
	return &kgo.Record{Topic: topic, Timestamp: at, Key: k, Value: v}, errors.Join(badKey, badValue)
}

// partition is a partition of a topic.
type partition struct {
	topic string
	id    int32
}

// Output reads the job's output topics from their beginning: only what is committed, the last value of each key. It belongs to one goroutine.
type Output struct {
	Results
	Updates int64 // records read

	topics Topics
	client *kgo.Client
	adm    *kadm.Client
	next   map[partition]int64
}

// Follow opens the output topics. opts say where the brokers are.
func Follow(t Topics, opts ...kgo.Opt) (*Output, error) {
	// Markers of transactions take up offsets too: with them it can be seen that a partition was read to its end.
	opts = append(slices.Clip(opts), kgo.ConsumeTopics(t.Outputs()...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("read the output: %w", err)
	}
	return &Output{Results: NewResults(), topics: t, client: client, adm: kadm.NewClient(client), next: make(map[partition]int64)}, nil
}

// Close ends reading.
func (o *Output) Close() { o.client.Close() }

// Poll takes in what there is to read, and waits for something until ctx ends, which is no error.
func (o *Output) Poll(ctx context.Context) error {
	fetches := o.client.PollFetches(ctx)
	for _, e := range fetches.Errors() {
		if ctx.Err() == nil {
			return fmt.Errorf("read output %s, partition %d: %w", e.Topic, e.Partition, e.Err)
		}
	}
	for r := range fetches.RecordsAll() {
		o.next[partition{r.Topic, r.Partition}] = r.Offset + 1
		if r.Attrs.IsControl() {
			continue
		}
		if err := o.take(r); err != nil {
			return fmt.Errorf("decode output %s, partition %d, offset %d: %w", r.Topic, r.Partition, r.Offset, err)
		}
		o.Updates++
	}
	return nil
}

func (o *Output) take(r *kgo.Record) error {
	switch r.Topic {
	case o.topics.AirportDelays.Name():
		return put(o.Airports, text, r)
	default:
		return put(o.States, stateDayJSON, r)
	}
}

func put[K comparable](m map[K]Delay, keys serde.Serde[K], r *kgo.Record) error {
	k, err := keys.Decode(r.Key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if r.Value == nil {
		delete(m, k)
		return nil
	}
	v, err := delayJSON.Decode(r.Value)
	if err != nil {
		return fmt.Errorf("value: %w", err)
	}
	m[k] = v
	return nil
}

// ToEnd reads until the present end of what is committed.
func (o *Output) ToEnd(ctx context.Context) error {
	ends, err := o.adm.ListCommittedOffsets(ctx, o.topics.Outputs()...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("find the end of the output: %w", err)
	}
	left := make(map[partition]int64)
	ends.Each(func(l kadm.ListedOffset) { left[partition{l.Topic, l.Partition}] = l.Offset })
	for {
		maps.DeleteFunc(left, func(p partition, end int64) bool { return o.next[p] >= end })
		if len(left) == 0 {
			return nil
		}
		if err := o.Poll(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("read the output to its end, %d partitions are left: %w", len(left), context.Cause(ctx))
		}
	}
}
