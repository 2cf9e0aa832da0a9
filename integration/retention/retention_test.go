// Package retention_test runs windows over event times of years ago on a broker that looks for old records all the time.
package retention_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/integration/kafka"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 2

var (
	began  = time.Date(2015, 6, 1, 0, 0, 0, 0, time.UTC)
	hourly = window.Tumbling(time.Hour).Grace(6 * time.Hour) // two tasks write to each partition in between, one up to a batch ahead of the other
	visits = window.Sessions(10 * time.Minute).Grace(time.Hour)
)

// event is one record of the input.
type event struct {
	key   string
	value int64
	at    time.Time
}

// group is what events are counted by: another key than that of the input, so that they go through a repartition topic.
func group(value int64) string { return fmt.Sprintf("group-%d", value%11) }

// input is four days of events, out of order by up to an hour.
func input() (events []event) {
	for i := range int64(12_000) {
		at := began.Add(time.Duration(i) * 28800 * time.Millisecond)
		if i%7 == 3 {
			at = at.Add(-time.Duration(i%60) * time.Minute)
		}
		events = append(events, event{fmt.Sprintf("key-%d", i%97), i, at})
	}
	return events
}

// dump sends on every row of a store when a record asks for it.
type dump struct {
	rows func(ctx *processor.Context[string, string]) func(yield func(string))
	all  func(yield func(string))
}

func (d *dump) Init(ctx *processor.Context[string, string]) error {
	d.all = d.rows(ctx)
	return nil
}

func (d *dump) Process(ctx *processor.Context[string, string], r processor.Record[string, string]) error {
	d.all(func(row string) { ctx.Forward(processor.Record[string, string]{Key: r.Key, Value: row, Time: r.Time}) })
	return nil
}

type row struct {
	key   window.Key[string]
	count int64
}

func (r row) String() string {
	return fmt.Sprintf("%s %s..%s: %d", r.key.Key, r.key.Start().UTC().Format(time.DateTime), r.key.End().UTC().Format(time.DateTime), r.count)
}

// job counts by hour, behind a repartition topic, and by session; its stores can be looked into by way of two more topics.
func job(app string) (*topology.Topology, error) {
	b := topology.New()
	events := b.Stream(topology.NewTopic(app+"-in", serde.String(), serde.Int64()))
	hours := events.GroupBy(func(_ string, v int64) string { return group(v) }).Windowed(hourly).Count("hours")
	hours.To(topology.NewTopic(app+"-out", window.KeySerde(serde.String(), hourly), serde.Int64()))
	sessions := events.GroupByKey().Sessions(visits).Count("sessions")

	forever := began.AddDate(100, 0, 0)
	rows := topology.NewTopic(app+"-rows", serde.String(), serde.String())
	look := func(name string, open func(ctx *processor.Context[string, string]) func(func(string)), handle topology.ProcessOption) {
		b.Stream(topology.NewTopic(app+"-look-"+name, serde.String(), serde.String())).
			Process("look-"+name, func() *dump { return &dump{rows: open} }, handle).To(rows)
	}
	h, s := hours.Store(), sessions.SessionStore()
	look("hours", func(ctx *processor.Context[string, string]) func(func(string)) {
		var in store.Window[string, int64] = ctx.Store(h)
		return func(yield func(string)) {
			for k, n := range in.All(time.UnixMilli(0), forever) {
				yield(row{k, n}.String())
			}
		}
	}, h)
	look("sessions", func(ctx *processor.Context[string, string]) func(func(string)) {
		var in store.Session[string, int64] = ctx.Store(s)
		return func(yield func(string)) {
			for k, n := range in.All(time.UnixMilli(0), forever) {
				yield(row{k, n}.String())
			}
		}
	}, s)
	return b.Build()
}

// bed is a broker and what the test knows of it.
type bed struct {
	t         *testing.T
	cluster   *kafka.Cluster
	cl        *kgo.Client
	adm       *kadm.Client
	app       string
	guarantee kolk.Guarantee
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// until asks again until it is so.
func (b *bed) until(what string, so func() bool) {
	b.t.Helper()
	tick, late := time.NewTicker(100*time.Millisecond), time.After(90*time.Second)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-late:
			b.t.Fatalf("waited too long for: %s", what)
		}
	}
}

// start runs the job until the result is called.
func (b *bed) start(dir string) (stop func()) {
	b.t.Helper()
	top, err := job(b.app)
	b.must(err)
	app, err := kolk.New(top, kolk.Config{Application: b.app, Brokers: b.cluster.Seeds(), StateDir: dir, Guarantee: b.guarantee, CommitEvery: 100 * time.Millisecond, Workers: 2, Memory: 64 << 20,
		InternalTopics: kolk.InternalTopics{Config: map[string]string{"segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01"}},
		Logger:         slog.New(slog.NewTextHandler(io.Discard, nil))})
	b.must(err)
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	stop = func() {
		cancel()
		b.must(<-done)
	}
	ready, end := context.WithTimeout(b.t.Context(), time.Minute)
	defer end()
	if err := app.WaitReady(ready); err != nil {
		b.t.Fatal(err, app.Health().Err)
	}
	return stop
}

// settled waits until everything is committed.
func (b *bed) settled(topics ...string) {
	b.t.Helper()
	b.until("all input to be committed", func() bool {
		committed, err := b.adm.FetchOffsets(b.t.Context(), b.app)
		b.must(err)
		ends, err := b.adm.ListCommittedOffsets(b.t.Context(), topics...)
		b.must(err)
		lag := int64(0)
		ends.Each(func(o kadm.ListedOffset) {
			c, _ := committed.Lookup(o.Topic, o.Partition)
			lag += max(0, o.Offset-c.At)
		})
		return lag == 0
	})
}

// read is every committed record that a topic has now, by partition in order.
func (b *bed) read(topic string) (out []*kgo.Record) {
	b.t.Helper()
	starts, err := b.adm.ListStartOffsets(b.t.Context(), topic)
	b.must(err)
	ends, err := b.adm.ListCommittedOffsets(b.t.Context(), topic)
	b.must(err)
	from, left := make(map[int32]kgo.Offset), make(map[int32]int64)
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := starts.Lookup(topic, o.Partition); s.Offset < o.Offset {
			from[o.Partition], left[o.Partition] = kgo.NewOffset().At(s.Offset), o.Offset
		}
	})
	if len(left) == 0 {
		return nil
	}
	cl := b.cluster.Client(b.t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer cl.Close()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	for len(left) > 0 {
		b.must(ctx.Err())
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	slices.SortStableFunc(out, func(x, y *kgo.Record) int { return int(x.Partition) - int(y.Partition) })
	return out
}

// rows asks the running job for what is in its stores.
func (b *bed) rows(tag string, at time.Time) []string {
	b.t.Helper()
	for _, name := range []string{"hours", "sessions"} {
		for p := range int32(partitions) {
			b.must(b.cl.ProduceSync(b.t.Context(), &kgo.Record{Topic: b.app + "-look-" + name, Partition: p, Key: []byte(tag), Value: []byte("look"), Timestamp: at}).FirstErr())
		}
	}
	b.settled(b.app+"-look-hours", b.app+"-look-sessions")
	var out []string
	for _, r := range b.read(b.app + "-rows") {
		if string(r.Key) == tag {
			out = append(out, string(r.Value))
		}
	}
	slices.Sort(out)
	return out
}

// compacted is how many records are missing between the beginning and the end of a topic without transactions.
func (b *bed) compacted(topic string) int64 {
	b.t.Helper()
	ends, err := b.adm.ListEndOffsets(b.t.Context(), topic)
	b.must(err)
	missing := -b.beginning(topic) - int64(len(b.read(topic)))
	ends.Each(func(o kadm.ListedOffset) { missing += o.Offset })
	return missing
}

// beginning is the sum of the offsets at which a topic's partitions begin.
func (b *bed) beginning(topic string) (sum int64) {
	b.t.Helper()
	starts, err := b.adm.ListStartOffsets(b.t.Context(), topic)
	b.must(err)
	starts.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum
}

// X6, R02: the events are of 2015, and the broker looks five times a second for records that are too old to be kept. No event is lost on its way through a repartition
// topic, and after the broker has cleaned, a restore from nothing gives the store that was lost.
func TestR02WindowsOfYearsAgo(t *testing.T) {
	cluster, err := kafka.Launch(t.Context(), kafka.Config{Heap: "512m", QuickStart: true, Properties: map[string]string{
		"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "100", "log.cleaner.backoff.ms": "200"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	}()
	for name, guarantee := range map[string]kolk.Guarantee{"at-least-once": kolk.AtLeastOnce, "exactly-once": kolk.ExactlyOnce} {
		t.Run(name, func(t *testing.T) {
			b := &bed{t: t, cluster: cluster, app: name, guarantee: guarantee, cl: cluster.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))}
			b.adm = kadm.NewClient(b.cl)
			b.run()
		})
	}
}

func (b *bed) run() {
	t, cluster := b.t, b.cluster
	byKey := cluster.Client(t)
	in := b.app + "-in"
	b.must(cluster.CreateTopics(t.Context(), partitions, in, b.app+"-out", b.app+"-rows", b.app+"-look-hours", b.app+"-look-sessions"))
	unprotected := b.unprotected()

	dir := t.TempDir()
	stop := b.start(dir)
	events := input()
	for batch := range slices.Chunk(events, 500) {
		var records []*kgo.Record
		for _, e := range batch {
			value, err := serde.Int64().Encode(nil, e.value)
			b.must(err)
			records = append(records, &kgo.Record{Topic: in, Key: []byte(e.key), Value: value, Timestamp: e.at})
		}
		b.must(byKey.ProduceSync(t.Context(), records...).FirstErr())
		b.settled(in)
	}
	repartition := b.app + "-hours-repartition"
	b.settled(in, repartition)
	checkCounts(b, events)

	end := events[len(events)-1].at
	before := b.rows("before", end)
	if len(before) < 30 {
		t.Fatalf("%d rows in the stores: %v", len(before), before)
	}
	changelogs := []string{b.app + "-hours-changelog", b.app + "-sessions-changelog"}
	for _, name := range changelogs {
		if got := b.setting(name, "retention.ms"); got != "-1" {
			t.Errorf("retention.ms of %s is %s", name, got)
		}
	}
	// The broker compacts what has been written over, and kolk deletes what has expired. Segments with transactions do not end by event time: their markers are of now.
	plain := b.guarantee == kolk.AtLeastOnce
	b.until("the changelogs to be compacted", func() bool { return !plain || b.compacted(changelogs[0]) > 0 && b.compacted(changelogs[1]) > 0 })
	b.until("what has expired to be deleted", func() bool { return !plain || b.beginning(changelogs[0]) > 0 && b.beginning(changelogs[1]) > 0 })
	looks := b.beginning(unprotected)
	b.must(b.cl.ProduceSync(t.Context(), &kgo.Record{Topic: unprotected, Key: []byte("a"), Value: []byte("v"), Timestamp: end}).FirstErr())
	b.until("the broker to look for old records", func() bool { return b.beginning(unprotected) > looks })

	stop()
	stop = b.start(t.TempDir()) // the disk is lost
	after := b.rows("after", end)
	if !slices.Equal(before, after) {
		t.Errorf("the restored stores differ.\nbefore, %d rows: %s\nafter, %d rows: %s", len(before), strings.Join(before, "\n"), len(after), strings.Join(after, "\n"))
	}
	// Results go on where they were.
	more := event{"key-0", 11, end.Add(-time.Minute)}
	value, err := serde.Int64().Encode(nil, more.value)
	b.must(err)
	b.must(byKey.ProduceSync(t.Context(), &kgo.Record{Topic: in, Key: []byte(more.key), Value: value, Timestamp: more.at}).FirstErr())
	b.settled(in)
	b.settled(in, repartition)
	checkCounts(b, append(events, more))
	stop()
}

// unprotected makes a topic as kolk creates changelogs, without protection, and shows that it loses its records.
func (b *bed) unprotected() (topic string) {
	b.t.Helper()
	policy, retention, topic := "compact,delete", "97200000", b.app+"-unprotected"
	_, err := b.adm.CreateTopic(b.t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy, "retention.ms": &retention}, topic)
	b.must(err)
	b.must(b.cl.ProduceSync(b.t.Context(), &kgo.Record{Topic: topic, Key: []byte("a"), Value: []byte("v"), Timestamp: began}).FirstErr())
	b.until("the broker to delete old records", func() bool { return b.beginning(topic) == 1 })
	return topic
}

// checkCounts compares the last count of each group and hour with a plain loop over the events.
func checkCounts(b *bed, events []event) {
	b.t.Helper()
	want := make(map[string]int64)
	for _, e := range events {
		want[row{window.Of(group(e.value), e.at.Truncate(time.Hour), e.at.Truncate(time.Hour).Add(time.Hour)), 0}.String()]++
	}
	keys, got := window.KeySerde(serde.String(), hourly), make(map[string]int64)
	for _, r := range b.read(b.app + "-out") {
		k, err := keys.Decode(r.Key)
		b.must(err)
		n, err := serde.Int64().Decode(r.Value)
		b.must(err)
		got[row{k, 0}.String()] = n
	}
	if maps.Equal(got, want) {
		return
	}
	wrong := 0
	for k, n := range want {
		if got[k] != n {
			if wrong++; wrong <= 10 {
				b.t.Errorf("%s got %d, want %d", k, got[k], n)
			}
		}
	}
	b.t.Errorf("%d of %d counts are wrong, %d are there", wrong, len(want), len(got))
}

func (b *bed) setting(topic, key string) string {
	b.t.Helper()
	configs, err := b.adm.DescribeTopicConfigs(b.t.Context(), topic)
	b.must(err)
	for _, c := range configs[0].Configs {
		if c.Key == key {
			return c.MaybeValue()
		}
	}
	return ""
}
