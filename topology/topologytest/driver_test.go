package topologytest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

var (
	lines    = topology.NewTopic("lines", serde.String(), serde.String())
	totals   = topology.NewTopic("totals", serde.String(), serde.Int64())
	amounts  = topology.NewTopic("amounts", serde.String(), serde.Int64())
	names    = topology.NewTopic("names", serde.String(), serde.String())
	greeting = topology.NewTopic("greetings", serde.String(), serde.String())
)

func build(t testing.TB, declare func(b *topology.Builder)) *topology.Topology {
	t.Helper()
	b := topology.New()
	declare(b)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// words counts the words of lines, through a repartition topic.
func words(b *topology.Builder) {
	b.Stream(lines).FlatMapValues(strings.FieldsSeq).
		GroupBy(func(_, word string) string { return word }).
		Count("words", store.FiniteKeys(1000)).
		To(totals)
}

func TestWordCount(t *testing.T) {
	d := topologytest.New(t, build(t, words), topologytest.Partitions(4))
	in, out := d.Input(lines), d.Output(totals)
	in.Send("", "the quick the lazy")
	if d := cmp.Diff(map[string]int64{"the": 2, "quick": 1, "lazy": 1}, out.Map()); d != "" {
		t.Error(d)
	}
	d.Restart()
	in.Send("x", "the")
	out.Next("the", 3)
	out.None()
}

func TestRecordsAsTheyAre(t *testing.T) {
	d := topologytest.New(t, build(t, words), topologytest.Partitions(4))
	in := d.Input(lines)
	in.SendAt(d.At(time.Second), "", "b a")
	in.SendAt(d.At(2*time.Second), "", "a")

	counted := d.Changelog("words")
	if len(counted) != 3 {
		t.Fatalf("changelog %+v", counted)
	}
	last := counted[2]
	if string(last.Key) != "a" || last.Value[7] != 2 || !last.Time.Equal(d.At(2*time.Second)) || last.Input != 1 {
		t.Errorf("last entry %+v", last)
	}
	again := d.Records("app-words-repartition")
	if len(again) != 3 || string(again[2].Key) != "a" || again[2].Partition != last.Partition || again[2].Input != 1 {
		t.Errorf("repartition topic %+v", again)
	}
	if got := d.Output(totals).Take(); len(got) != 3 || got[2].Key != "a" || got[2].Value != 2 || got[2].Deleted || !got[2].Time.Equal(d.At(2*time.Second)) {
		t.Errorf("output %v", got)
	}
	if d.Records("nobody-writes-this") != nil {
		t.Error("records of a topic that nobody writes")
	}
}

func TestReadingStores(t *testing.T) {
	var counts store.KeyValueHandle[string, int64]
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		table := b.Stream(lines).GroupByKey().Count("by-key", store.FiniteKeys(10))
		counts = table.Store()
	}), topologytest.Partitions(3), topologytest.ManualCommit())
	in := d.Input(lines)
	for _, k := range []string{"a", "b", "c", "a"} {
		in.Send(k, "")
	}
	rows := func() map[string]int64 {
		t.Helper()
		m := make(map[string]int64)
		for e, err := range d.Store(counts).All(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			m[e.Key] = e.Value
		}
		return m
	}
	if got := rows(); len(got) > 0 {
		t.Errorf("uncommitted rows %v", got)
	}
	d.Commit()
	if d := cmp.Diff(map[string]int64{"a": 2, "b": 1, "c": 1}, rows()); d != "" {
		t.Error(d)
	}
	if n, ok, err := d.Store(counts).Get(context.Background(), "a"); n != 2 || !ok || err != nil {
		t.Errorf("a is %d, %v, %v", n, ok, err)
	}
}

func TestAbort(t *testing.T) {
	d := topologytest.New(t, build(t, words), topologytest.ManualCommit())
	in, out := d.Input(lines), d.Output(totals)
	in.Send("", "a b")
	d.Commit()
	in.Send("", "a")
	out.Next("a", 1)
	out.Next("b", 1)
	out.Next("a", 2)
	d.Abort()
	out.Next("a", 2) // once more, not 3
	out.None()
	d.Commit()
	d.Abort() // nothing is left to lose
	out.None()
	if got := d.Records("totals"); len(got) != 3 {
		t.Errorf("%d records", len(got))
	}
	if got := d.Changelog("words"); len(got) != 3 {
		t.Errorf("changelog %v", got)
	}
}

func TestCrash(t *testing.T) {
	d := topologytest.New(t, build(t, words), topologytest.ManualCommit(), topologytest.Partitions(2))
	in, out := d.Input(lines), d.Output(totals)
	for n := int64(1); n < 12; n++ { // from before the first checkpoint to behind the third
		in.Send("", "a")
		out.Next("a", n)
		if n%2 == 0 {
			d.Commit()
		} else {
			d.Crash()
		}
		out.None()
	}
	d.Crash()
	d.Restart()
	in.Send("", "a")
	out.Next("a", 12)
}

func TestDropsAndDeadLetters(t *testing.T) {
	bad := errors.New("no number")
	top := build(t, func(b *topology.Builder) {
		b.Stream(lines, topology.OnDrop(topology.DeadLetter("nulls"), processor.NullValue)).
			TryMapValues(func(s string) (int64, error) {
				if s == "x" {
					return 0, bad
				}
				return int64(len(s)), nil
			}, topology.OnError(topology.DeadLetter("dead")), topology.Named("measure")).
			GroupByKey().Reduce("sums", store.FiniteKeys(10), func(sum, v int64) int64 { return sum + v })
	})
	d := topologytest.New(t, top, topologytest.ManualCommit(), topologytest.Partitions(2))
	in := d.Input(lines)
	in.Send("k", "four")
	in.SendNull("k")
	in.SendRecord(processor.Record[string, string]{NullKey: true, Value: "abc"})
	d.Commit()
	in.Send("k", "x")
	for range 2 { // an abort does not count twice
		if got := d.Drops(processor.Skipped); len(got) != 1 || got[0].Node != "measure" || got[0].Input != 3 || string(got[0].Value) != "x" || got[0].Reason != processor.Skipped {
			t.Fatalf("skipped %+v", got)
		}
		if got := d.DeadLetters("dead"); len(got) != 1 || string(got[0].Key) != "k" || string(got[0].Value) != "x" {
			t.Fatalf("dead letters %+v", got)
		}
		d.Abort()
	}
	if got := d.DeadLetters("nulls"); len(got) != 1 || got[0].Value != nil || got[0].Input != 1 {
		t.Errorf("nulls %+v", got)
	}
	if v, _ := d.DeadLetters("dead")[0].Headers.Get("kolk.node"); string(v) != "measure" {
		t.Errorf("header %q", v)
	}
	if got := d.Drops(processor.NullKey); len(got) != 1 || got[0].Key != nil || got[0].Input != 2 {
		t.Errorf("null keys %+v", got)
	}
	if n := len(d.Drops()); n != 3 {
		t.Errorf("%d drops", n)
	}
}

// bell rings by both clocks.
type bell struct{}

func (bell) Init(ctx *processor.Context[string, string]) error {
	ctx.Every(time.Minute, processor.WallTime, func(now time.Time) error {
		ctx.Forward(processor.Record[string, string]{Key: "wall", Value: now.UTC().Format(time.TimeOnly), Time: now})
		return nil
	})
	ctx.Every(time.Minute, processor.StreamTime, func(now time.Time) error {
		ctx.Forward(processor.Record[string, string]{Key: "stream", Value: now.UTC().Format(time.TimeOnly), Time: now})
		return nil
	})
	return nil
}

func (bell) Process(*processor.Context[string, string], processor.Record[string, string]) error {
	return nil
}

func TestAdvance(t *testing.T) {
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		b.Stream(names).Process("bell", func() bell { return bell{} }).To(greeting)
	}), topologytest.StartAt(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)))
	in, out := d.Input(names), d.Output(greeting)
	d.Advance(59 * time.Second)
	out.None()
	d.Advance(time.Second)
	out.Next("wall", "12:01:00")
	d.Advance(time.Hour) // once for all that was missed
	out.Next("wall", "13:01:00")
	out.None()
	in.SendAt(d.At(30*time.Second), "a", "")
	out.Next("stream", "12:00:30")
	in.SendAt(d.At(59*time.Second), "a", "")
	out.None()
	in.SendAt(d.At(61*time.Second), "a", "")
	out.Next("stream", "12:01:01")
	if last := d.Records("greetings"); last[len(last)-1].Input != -1 {
		t.Errorf("a timer's record comes from input %d", last[len(last)-1].Input)
	}
}

// join greets whoever has a name, so amounts and names must be partitioned alike.
func join(b *topology.Builder) {
	table := b.Table("names", names, store.FiniteKeys(100))
	b.Stream(amounts).JoinTable(table, func(n int64, name string) string { return fmt.Sprint(name, n) }).To(greeting)
}

func TestTopicsThatDoNotFit(t *testing.T) {
	top := build(t, join)
	got := fails(func(tb topologytest.TB) {
		topologytest.New(tb, top, topologytest.Partitions(2), topologytest.Topic("names", 3))
	})
	if !strings.Contains(got, "names") || !strings.Contains(got, "3 partitions") || !strings.Contains(got, "amounts") {
		t.Errorf("failed with %q", got)
	}
	topologytest.New(t, top, topologytest.Partitions(3), topologytest.Topic("names", 3))
}

func TestMaxIdle(t *testing.T) {
	d := topologytest.New(t, build(t, join), topologytest.MaxIdle(time.Second))
	a, n, out := d.Input(amounts), d.Input(names), d.Output(greeting)
	a.SendAt(d.At(time.Minute), "k", 7)
	out.None() // it waits for the names
	n.SendAt(d.At(0), "k", "bert")
	out.None()
	d.Advance(time.Second)
	d.Advance(time.Second)
	out.Next("k", "bert7")
}

func TestMaxAhead(t *testing.T) {
	d := topologytest.New(t, build(t, words), topologytest.MaxAhead(time.Hour))
	in := d.Input(lines)
	in.SendAt(d.At(time.Hour), "", "a")
	in.SendAt(d.At(time.Hour+time.Millisecond), "", "a")
	if got := d.Drops(processor.Ahead); len(got) != 1 || got[0].Input != 1 {
		t.Errorf("dropped %+v", got)
	}
	d.Advance(time.Hour)
	in.SendAt(d.At(2*time.Hour), "", "a")
	d.Output(totals).Next("a", 1)
}

func TestTimesOfRecords(t *testing.T) {
	d := topologytest.New(t, build(t, func(b *topology.Builder) { b.Stream(names).To(greeting) }))
	in := d.Input(names)
	in.Send("a", "1")
	in.Send("a", "2")
	in.SendAt(d.At(time.Hour), "a", "3")
	in.Send("a", "4")
	in.SendBytes([]byte("a"), []byte("5"))
	in.SendRecord(processor.Record[string, string]{Key: "a", Value: "6", Headers: processor.Headers{}.With("h", []byte("x"))})
	var got []time.Duration
	all := d.Output(greeting).Take()
	for _, g := range all {
		got = append(got, g.Time.Sub(d.At(0)))
	}
	ms := time.Millisecond
	if want := []time.Duration{0, ms, time.Hour, time.Hour + ms, time.Hour + 2*ms, time.Hour + 3*ms}; !slices.Equal(got, want) {
		t.Errorf("times %v, not %v", got, want)
	}
	if v, ok := all[5].Headers.Get("h"); !ok || string(v) != "x" {
		t.Errorf("header %q, %v", v, ok)
	}
}

func TestNulls(t *testing.T) {
	maybe := topology.NewTopic("maybe", serde.String(), serde.Optional(serde.String()))
	copies := topology.NewTopic("copies", serde.String(), serde.Optional(serde.String()))
	d := topologytest.New(t, build(t, func(b *topology.Builder) { b.Stream(maybe).To(copies) }), topologytest.Partitions(3))
	in, out := d.Input(maybe), d.Output(copies)
	in.Send("a", nil)
	in.SendNull("b")
	empty := ""
	in.SendRecord(processor.Record[string, *string]{NullKey: true, Value: &empty})
	out.NextDeleted("a")
	out.NextDeleted("b")
	if got := out.Take(); len(got) != 1 || !got[0].NullKey || got[0].Deleted || *got[0].Value != "" {
		t.Errorf("got %v", got)
	}
}

func TestPartitionedBy(t *testing.T) {
	own := topology.NewTopic("own", serde.String(), serde.Int64()).PartitionedBy(func(_ string, v int64, n int) int { return int(v) % n })
	d := topologytest.New(t, build(t, func(b *topology.Builder) { b.Stream(own).To(totals) }), topologytest.Partitions(3))
	in := d.Input(own)
	in.Send("a", 4)
	if p := fails(func(tb topologytest.TB) {
		d := topologytest.New(tb, build(t, func(b *topology.Builder) { b.Stream(own).To(totals) }), topologytest.Partitions(3))
		d.Input(own).Send("a", -1)
	}); !strings.Contains(p, "partition -1 of 3") {
		t.Errorf("failed with %q", p)
	}
}

// A topic that is both written and read is followed.
func TestTopicThatLeadsBack(t *testing.T) {
	top := build(t, func(b *topology.Builder) {
		b.Stream(amounts).MapValues(func(n int64) int64 { return n / 2 }).FilterValues(func(n int64) bool { return n > 0 }).To(amounts)
	})
	d := topologytest.New(t, top)
	d.Input(amounts).Send("k", 9)
	out := d.Output(amounts)
	out.Next("k", 4)
	out.Next("k", 2)
	out.Next("k", 1)
	out.None()
}
