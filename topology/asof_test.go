package topology_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

var (
	fares   = topology.NewTopic("fares", serde.String(), serde.String())
	rides   = topology.NewTopic("rides", serde.String(), serde.String())
	charged = topology.NewTopic("charged", serde.String(), serde.String())
)

// charge joins rides with the fares of their time.
func charge(b *topology.Builder, history time.Duration, opts ...topology.AsOfOption) topology.VersionedTable[string, string] {
	table := b.VersionedTable("fares", fares, store.FiniteKeys(10), history)
	b.Stream(rides).LeftJoinAsOf(table, func(ride string, fare *string) string {
		if fare == nil {
			return ride + "+none"
		}
		return ride + "+" + *fare
	}, opts...).To(charged)
	return table
}

// ST02: a table that is updated later than the event.
func TestST02(t *testing.T) {
	for name, after := range map[string]func(*topologytest.Driver){"running": func(*topologytest.Driver) {}, "restored": (*topologytest.Driver).Restart} {
		t.Run(name, func(t *testing.T) {
			top := build(t, func(b *topology.Builder) {
				table := charge(b, time.Minute)
				b.Stream(rides).JoinTable(table.Table, func(ride, fare string) string { return ride + "+" + fare }).To(joined)
			})
			d := topologytest.New(t, top)
			table, stream := d.Input(fares), d.Input(rides)
			table.SendAt(d.At(100*time.Millisecond), "u", "A")
			table.SendAt(d.At(300*time.Millisecond), "u", "B")
			after(d)
			stream.SendAt(d.At(200*time.Millisecond), "u", "e")
			d.Output(charged).Next("u", "e+A")
			d.Output(joined).Next("u", "e+B")
		})
	}
}

// fareVersion is a row of the naive table.
type fareVersion struct {
	from int64
	fare string // empty is a delete
}

// naiveFares is the join over all that was sent to one partition.
type naiveFares struct {
	history, wait int64
	rows          map[string][]fareVersion
	observed      int64 // of the table
	seen          int64 // by the join
	number        int
	waits         []waitingRide
	out           []string
}

type waitingRide struct {
	key, ride string
	at        int64
	number    int
}

func (n *naiveFares) fare(key, fare string, at int64) {
	n.observed = max(n.observed, at)
	if at < n.observed-n.history {
		return
	}
	list := slices.DeleteFunc(n.rows[key], func(v fareVersion) bool { return v.from == at })
	list = append(list, fareVersion{at, fare})
	slices.SortFunc(list, func(a, b fareVersion) int { return cmp.Compare(a.from, b.from) })
	n.rows[key] = list
}

func (n *naiveFares) ride(key, ride string, at int64) {
	if n.wait == 0 {
		n.join(key, ride, at)
		return
	}
	n.seen = max(n.seen, at)
	if at < n.seen-n.wait {
		n.join(key, ride, at)
		return
	}
	n.number++
	n.waits = append(n.waits, waitingRide{key, ride, at, n.number})
	slices.SortFunc(n.waits, func(a, b waitingRide) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.key, b.key), cmp.Compare(a.number, b.number))
	})
	for len(n.waits) > 0 && n.waits[0].at <= n.seen-n.wait {
		w := n.waits[0]
		n.waits = n.waits[1:]
		n.join(w.key, w.ride, w.at)
	}
}

func (n *naiveFares) join(key, ride string, at int64) {
	fare := ""
	list := n.rows[key]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].from <= at {
			if i == len(list)-1 || at >= n.observed-n.history {
				fare = list[i].fare
			}
			break
		}
	}
	if fare == "" {
		fare = "none"
	}
	n.out = append(n.out, fmt.Sprintf("%s=%s+%s@%d", key, ride, fare, at))
}

// The join is that of a naive one over the whole input, whatever the order of times, and whatever is lost on the way.
func TestJoinAsOfEqualsNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const partitions = 3
		history := rapid.SampledFrom([]int64{5, 40}).Draw(rt, "history")
		wait := rapid.SampledFrom([]int64{0, 1, 5}).Draw(rt, "wait")
		top := build(t, func(b *topology.Builder) {
			var opts []topology.AsOfOption
			if wait > 0 {
				opts = append(opts, topology.WaitFor("waiting", time.Duration(wait)*time.Millisecond))
			}
			charge(b, time.Duration(history)*time.Millisecond, opts...)
		})
		d := topologytest.New(t, top, topologytest.Partitions(partitions), topologytest.ManualCommit())
		table, stream := d.Input(fares), d.Input(rides)
		var want [partitions]naiveFares
		for p := range want {
			want[p] = naiveFares{history: history, wait: wait, rows: map[string][]fareVersion{}, observed: -1, seen: -1}
		}
		base := d.At(0).UnixMilli()
		now := base
		for i := range rapid.IntRange(1, 120).Draw(rt, "steps") {
			now += rapid.Int64Range(0, 3).Draw(rt, "passes")
			at := max(base, now-rapid.SampledFrom([]int64{0, 0, 1, 4, 30, 50}).Draw(rt, "late"))
			key := rapid.SampledFrom([]string{"a", "b", "c", "d", ""}).Draw(rt, "key")
			switch rapid.SampledFrom([]string{"fare", "fare", "delete", "ride", "ride", "ride", "commit", "abort", "crash", "restart"}).Draw(rt, "step") {
			case "fare":
				table.SendAt(time.UnixMilli(at), key, fmt.Sprint("f", i))
				want[partitionOf(key, partitions)].fare(key, fmt.Sprint("f", i), at)
			case "delete":
				table.SendNullAt(time.UnixMilli(at), key)
				want[partitionOf(key, partitions)].fare(key, "", at)
			case "ride":
				stream.SendAt(time.UnixMilli(at), key, fmt.Sprint("r", i))
				want[partitionOf(key, partitions)].ride(key, fmt.Sprint("r", i), at)
			case "commit":
				d.Commit()
			case "abort":
				d.Abort()
			case "crash":
				d.Crash()
			case "restart":
				d.Restart()
			}
		}
		d.Commit()
		var got [partitions][]string
		for _, r := range d.Records("charged") {
			got[r.Partition] = append(got[r.Partition], fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.Time.UnixMilli()))
		}
		for p := range got {
			if !slices.Equal(got[p], want[p].out) {
				rt.Fatalf("partition %d:\n%q\nwant\n%q", p, got[p], want[p].out)
			}
		}
	})
}

// partitionOf is where Java's producers send a key.
func partitionOf(key string, n int32) int32 { return engine.Partition([]byte(key), n) }

// What waits keeps its headers, and what is late or has no key does not wait.
func TestWaitFor(t *testing.T) {
	top := build(t, func(b *topology.Builder) { charge(b, time.Minute, topology.WaitFor("waiting", 10*time.Second)) })
	d := topologytest.New(t, top)
	table, stream, out := d.Input(fares), d.Input(rides), d.Output(charged)
	var h processor.Headers
	stream.SendRecord(processor.Record[string, string]{Key: "u", Value: "1", Time: d.At(time.Second), Headers: h.With("h", []byte("x"))})
	out.None()
	table.SendAt(d.At(0), "u", "A")
	stream.SendRecord(processor.Record[string, string]{NullKey: true, Value: "2", Time: d.At(time.Hour)})
	if r := d.Records("charged"); len(r) != 1 || r[0].Key != nil || string(r[0].Value) != "2+none" {
		t.Fatalf("a record without a key: %v", r)
	}
	d.Restart()
	stream.SendAt(d.At(20*time.Second), "u", "3")
	r := d.Records("charged")
	if len(r) != 2 || string(r[1].Value) != "1+A" || !r[1].Time.Equal(d.At(time.Second)) || fmt.Sprint(r[1].Headers) != fmt.Sprint(h.With("h", []byte("x"))) {
		t.Fatalf("after waiting: %v", r)
	}
	stream.SendAt(d.At(2*time.Second), "u", "late")
	if r := d.Records("charged"); len(r) != 3 || string(r[2].Value) != "late+A" {
		t.Fatalf("a late record: %v", r)
	}
}

// What VersionedTable hands on: late updates change the past, and show where the past shows.
func TestVersionedTable(t *testing.T) {
	var table topology.VersionedTable[string, string]
	top := build(t, func(b *topology.Builder) {
		table = b.VersionedTable("fares", fares, few, time.Second)
		table.Stream().To(charged)
		table.Changes(func(_ string, c topology.Change[string]) string {
			text := func(v *string) string {
				if v == nil {
					return "none"
				}
				return *v
			}
			return text(c.Old) + ">" + text(c.New)
		}).To(joined)
		table.Filter(func(_, v string) bool { return v != "" }).GroupBy(func(k, v string) (string, string) { return "all", v }).
			Reduce("sum", few, func(sum, v string) string { return sum + "+" + v }, func(sum, v string) string { return sum + "-" + v }).To(topology.NewTopic("sums", serde.String(), serde.String()))
	})
	d := topologytest.New(t, top)
	in := d.Input(fares)
	for _, x := range []struct {
		ms   int
		fare string
	}{{1000, "A"}, {3000, "B"}, {2500, "C"}, {1999, "too old"}} {
		in.SendAt(d.At(time.Duration(x.ms)*time.Millisecond), "u", x.fare)
	}
	in.SendNullAt(d.At(2700*time.Millisecond), "u")
	values := func(topic string) (out string) {
		for _, r := range d.Records(topic) {
			out += string(r.Value) + " "
		}
		return out
	}
	for topic, want := range map[string]string{"charged": "A B C ", "joined": "none>A A>B A>C C>none ", "sums": "A A-A+B "} {
		if got := values(topic); got != want {
			t.Errorf("%s has %q, want %q", topic, got, want)
		}
	}
	if drops := d.Drops(processor.Expired); len(drops) != 1 {
		t.Errorf("expired: %v", drops)
	}
	reader := d.Store(table.Store())
	v, ok, err := reader.AsOf(context.Background(), "u", d.At(2600*time.Millisecond))
	if err != nil || !ok || v.Value != "C" || !v.To.Equal(d.At(2700*time.Millisecond)) {
		t.Errorf("as of 2.6 s: %+v, %v, %v", v, ok, err)
	}
}

// What is wrong with joins as of a time is reported by Build.
func TestAsOfFaults(t *testing.T) {
	second := topology.WaitFor("waiting", time.Second)
	for want, declare := range map[string]func(b *topology.Builder){
		"the table's history is 1s":         func(b *topology.Builder) { charge(b, time.Second, topology.WaitFor("waiting", time.Minute)) },
		"it waits for 0s":                   func(b *topology.Builder) { charge(b, time.Minute, topology.WaitFor("waiting", 0)) },
		"it waits twice":                    func(b *topology.Builder) { charge(b, time.Minute, second, topology.WaitFor("again", time.Second)) },
		"the name is empty":                 func(b *topology.Builder) { charge(b, time.Minute, topology.WaitFor("", time.Second)) },
		"two stores have this name":         func(b *topology.Builder) { charge(b, time.Minute, topology.WaitFor("fares", time.Second)) },
		"a history of 0s remembers nothing": func(b *topology.Builder) { charge(b, 0) },
		"it was given a zero table": func(b *topology.Builder) {
			b.Stream(rides).JoinAsOf(topology.VersionedTable[string, string]{}, func(a, b string) string { return a })
		},
		"the function is nil":          func(b *topology.Builder) { b.Stream(rides).JoinAsOf[string, string](charge(b, time.Minute), nil) },
		"a versioned store has no TTL": func(b *topology.Builder) { b.VersionedTable("fares", fares, store.TTL(time.Hour), time.Minute) },
		"cannot be restored from its source": func(b *topology.Builder) {
			b.VersionedTable("fares", fares, few, time.Minute, topology.SourceIsChangelog())
		},
		"use VersionedTable.Store":             func(b *topology.Builder) { charge(b, time.Minute).Table.Store() },
		"the table has a store already, fares": func(b *topology.Builder) { charge(b, time.Minute).Stored("again") },
		"the stream was given new keys": func(b *topology.Builder) {
			b.Stream(rides).SelectKey(func(_, v string) string { return v }).JoinAsOf(charge(b, time.Minute), func(a, b string) string { return a })
		},
		"no serde is known for its value": func(b *topology.Builder) {
			b.Stream(rides).MapValues(func(string) struct{ X chan int } { return struct{ X chan int }{} }).JoinAsOf(charge(b, time.Minute), func(struct{ X chan int }, string) string { return "" }, second)
		},
	} {
		b := topology.New()
		declare(b)
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("want only %q, got %v", want, err)
		}
	}
}
