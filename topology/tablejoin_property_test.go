package topology_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

// lossy draws updates of two tables and, between them, commits and losses of a task, and sends both to two drivers: one that goes straight on, and one that suffers the
// losses. It returns what the tables hold in the end. A value of a left row names a right row, or with a minus none.
func lossy(rt *rapid.T, drivers ...*topologytest.Driver) (left, right map[string]string) {
	left, right = make(map[string]string), make(map[string]string)
	keys := []string{"", "a", "b", "c", "d"}
	at := int64(1000)
	for range rapid.IntRange(1, 40).Draw(rt, "records") {
		at += rapid.Int64Range(-30, 40).Draw(rt, "later")
		topic, rows := words, left
		key := rapid.SampledFrom(keys).Draw(rt, "key")
		value := rapid.SampledFrom(append([]string{"-", "-1"}, keys...)).Draw(rt, "refers to") + rapid.SampledFrom([]string{"", ":1", ":2"}).Draw(rt, "more")
		if rapid.Bool().Draw(rt, "right") {
			topic, rows = more, right
			value = rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(rt, "value")
		}
		deleted := rapid.IntRange(0, 3).Draw(rt, "delete") == 0
		for _, d := range drivers {
			if in, when := d.Input(topic), d.At(time.Duration(at)*time.Millisecond); deleted {
				in.SendNullAt(when, key)
			} else {
				in.SendAt(when, key, value)
			}
		}
		if rows[key] = value; deleted {
			delete(rows, key)
		}
		bad := drivers[len(drivers)-1]
		switch rapid.IntRange(0, 7).Draw(rt, "then") {
		case 0, 1:
			bad.Commit()
		case 2:
			bad.Abort()
		case 3:
			bad.Crash()
		case 4:
			bad.Restart()
		}
	}
	drivers[len(drivers)-1].Commit()
	return left, right
}

// last is the last value of each key of a topic, deletes left out.
func last(d *topologytest.Driver, topic string) map[string]string {
	out := make(map[string]string)
	for _, r := range d.Records(topic) {
		if out[string(r.Key)] = string(r.Value); r.Value == nil {
			delete(out, string(r.Key))
		}
	}
	return out
}

func inStore(t *testing.T, d *topologytest.Driver, h store.KeyValueHandle[string, string]) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for e, err := range d.Store(h).All(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		out[e.Key] = e.Value
	}
	return out
}

// joinedRows is the join of all rows, each with the row of the other side that partner names. keepLeft and keepRight keep those without one.
func joinedRows(left, right map[string]string, partner func(k, v string) (string, bool), keepLeft, keepRight bool) map[string]string {
	out := make(map[string]string)
	found := make(map[string]bool)
	for k, l := range left {
		key, ok := partner(k, l)
		r, has := right[key]
		found[key] = true
		switch {
		case ok && has:
			out[k] = l + r
		case keepLeft:
			out[k] = l + "_"
		}
	}
	for k, r := range right {
		if keepRight && !found[k] {
			out[k] = "_" + r
		}
	}
	return out
}

func itself(k, _ string) (string, bool) { return k, true }

// amounts is how often each value is in a table.
func amounts(rows map[string]string) map[string]string {
	n := make(map[string]int)
	for _, v := range rows {
		n[v]++
	}
	out := make(map[string]string)
	for v, n := range n {
		out[v] = fmt.Sprint(n)
	}
	return out
}

// positive are the counts above zero.
func positive(counts map[string]string) map[string]string {
	maps.DeleteFunc(counts, func(_, n string) bool { return n == "0" })
	return counts
}

var tally = topology.NewTopic("tally", serde.String(), serde.String())

// counted counts the rows of a table by value, which needs their old values.
func counted(t textTable, name string, to topology.Topic[string, string]) {
	t.GroupBy(func(k, v string) (string, string) { return v, k }).Count(name, few).MapValues(func(n int64) string { return fmt.Sprint(n) }).To(to)
}

// Whatever the order of updates and whatever is lost between them, a join holds what a naive join of the last rows holds, and so does a count of its rows.
func TestJoinsAreNaive(t *testing.T) {
	for kind, join := range joins {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " stored ", keep), func(t *testing.T) {
				var handle store.KeyValueHandle[string, string]
				top := build(t, func(b *topology.Builder) {
					j := join(b.Table("l", words, few), b.Table("r", more, few).Filter(func(_, v string) bool { return v != "z" }))
					if keep {
						j = j.Stored("j")
						handle = j.Store()
					}
					j.To(joinedTopic)
					counted(j, "n", tally)
				})
				rapid.Check(t, func(rt *rapid.T) {
					straight := topologytest.New(t, top, topologytest.Partitions(3))
					bad := topologytest.New(t, top, topologytest.Partitions(3), topologytest.ManualCommit())
					left, right := lossy(rt, straight, bad)
					maps.DeleteFunc(right, func(_, v string) bool { return v == "z" })
					want := joinedRows(left, right, itself, kind != "inner", kind == "outer")
					for _, d := range []*topologytest.Driver{straight, bad} {
						if diff := cmp.Diff(want, last(d, "joined")); diff != "" {
							rt.Fatalf("joined: want (-), got (+):\n%s", diff)
						}
						if diff := cmp.Diff(amounts(want), positive(last(d, "tally"))); diff != "" {
							rt.Fatalf("counted: want (-), got (+):\n%s", diff)
						}
						if keep {
							if diff := cmp.Diff(want, inStore(t, d, handle)); diff != "" {
								rt.Fatalf("stored: want (-), got (+):\n%s", diff)
							}
						}
					}
				})
			})
		}
	}
}

// The same for foreign-key joins, whose sides and internal topics have other tally of partitions. In the end there is one subscription for each row with a foreign key.
func TestForeignJoinsAreNaive(t *testing.T) {
	for kind, join := range foreignJoins {
		t.Run(kind, func(t *testing.T) {
			var handle store.KeyValueHandle[string, string]
			top := build(t, func(b *topology.Builder) {
				j := join(b.Table("l", words, few), b.Table("r", more, few).MapValues(func(v string) string { return v }))
				j.To(joinedTopic)
				j = j.Stored("j")
				handle = j.Store()
				counted(j, "n", tally)
			})
			rapid.Check(t, func(rt *rapid.T) {
				opts := []topologytest.Option{topologytest.Topic("words", 3), topologytest.Topic("more", 2)}
				straight := topologytest.New(t, top, opts...)
				bad := topologytest.New(t, top, append(opts, topologytest.ManualCommit())...)
				left, right := lossy(rt, straight, bad)
				want := joinedRows(left, right, named, kind == "left", false)
				for _, d := range []*topologytest.Driver{straight, bad} {
					if diff := cmp.Diff(want, last(d, "joined")); diff != "" {
						rt.Fatalf("joined: want (-), got (+):\n%s", diff)
					}
					if diff := cmp.Diff(want, inStore(t, d, handle)); diff != "" {
						rt.Fatalf("stored: want (-), got (+):\n%s", diff)
					}
					if diff := cmp.Diff(amounts(want), positive(last(d, "tally"))); diff != "" {
						rt.Fatalf("counted: want (-), got (+):\n%s", diff)
					}
					if got := len(d.Drops(processor.Skipped, processor.NullValue)); got > 0 {
						rt.Fatalf("%d drops", got)
					}
					checkSubscriptions(rt, d, left)
				}
			})
		})
	}
}

func checkSubscriptions(rt *rapid.T, d *topologytest.Driver, left map[string]string) {
	want, got := make(map[string]string), make(map[string]string)
	for k, v := range left {
		if fk, ok := named(k, v); ok {
			want[fmt.Sprintf("\x00\x00\x00%c%s%s", len(fk), fk, k)] = "kept"
		}
	}
	for _, r := range d.Changelog("fk-subscription-store") {
		if got[string(r.Key)] = "kept"; r.Value == nil {
			delete(got, string(r.Key))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("subscriptions: want (-), got (+):\n%s", diff)
	}
}

// Case FK01: in every interleaving of what is on its way, the last row for a key is that of its last value.
func TestFK01EveryInterleaving(t *testing.T) {
	for kind := range foreignJoins {
		top := build(t, foreign(kind))
		stale := 0
		rapid.Check(t, func(rt *rapid.T) {
			w := start(t, top)
			left, right := make(map[string]string), make(map[string]string)
			at := int64(0)
			// next delivers one record. Those of one topic stay in their order, but for subscriptions of different keys: they may be in different partitions.
			next := func() {
				var heads []int
				seen := make(map[string]bool)
				for i, e := range w.queue {
					line := e.topic
					if line == requests {
						line += text(e.key)
					}
					if !seen[line] {
						seen[line] = true
						heads = append(heads, i)
					}
				}
				if err := w.deliver(rapid.SampledFrom(heads).Draw(rt, "deliver")); err != nil {
					rt.Fatal(err)
				}
			}
			for range rapid.IntRange(1, 25).Draw(rt, "records") {
				at++
				topic, rows, key := "words", left, rapid.SampledFrom([]string{"k", "l"}).Draw(rt, "key")
				value := rapid.SampledFrom([]string{null, "-", "a", "a:2", "b", "c"}).Draw(rt, "value")
				if rapid.IntRange(0, 2).Draw(rt, "right") == 0 {
					topic, rows, key = "more", right, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "right key")
					value = rapid.SampledFrom([]string{null, "x", "y"}).Draw(rt, "right value")
				}
				if rows[key] = value; value == null {
					delete(rows, key)
				}
				w.queue = append(w.queue, emitted{topic: topic, key: data(key), value: data(value), at: at})
				for range rapid.IntRange(0, 6).Draw(rt, "steps") {
					if len(w.queue) > 0 {
						next()
					}
				}
			}
			for len(w.queue) > 0 {
				next()
			}
			got := make(map[string]string)
			for _, e := range w.sent["joined"] {
				if got[string(e.key)] = string(e.value); e.value == nil {
					delete(got, string(e.key))
				}
			}
			if diff := cmp.Diff(joinedRows(left, right, named, kind == "left", false), got); diff != "" {
				rt.Fatalf("%s: want (-), got (+):\n%s", kind, diff)
			}
			for _, d := range w.drops {
				if strings.HasSuffix(d, " stale") {
					stale++
				}
			}
		})
		if stale == 0 {
			t.Errorf("%s: no answer was ever stale", kind)
		}
	}
}

// Rows that expire are taken out of a join as they were in it, whatever the other side has become since, and also if both sides expire at once: at each moment a count of
// the join's rows is that of what it has sent.
func TestJoinsOfExpiringRowsAreNaive(t *testing.T) {
	ttl := store.TTL(ms(80))
	for kind, join := range joins {
		for which, bounds := range map[string][2]store.Bound{"left": {ttl, few}, "right": {few, ttl}, "both": {ttl, ttl}} {
			t.Run(kind+" "+which, func(t *testing.T) {
				top := build(t, func(b *topology.Builder) {
					j := join(b.Table("l", words, bounds[0]), b.Table("r", more, bounds[1]).MapValues(func(v string) string { return v }))
					j.To(joinedTopic)
					counted(j, "n", tally)
				})
				rapid.Check(t, func(rt *rapid.T) {
					straight := topologytest.New(t, top, epoch)
					bad := topologytest.New(t, top, epoch, topologytest.ManualCommit())
					now := int64(0)
					send := func(topic topology.Topic[string, string], key, value string) {
						straight.Input(topic).SendAt(time.UnixMilli(now), key, value)
						bad.Input(topic).SendAt(time.UnixMilli(now), key, value)
						if diff := cmp.Diff(amounts(last(straight, "joined")), positive(last(straight, "tally"))); diff != "" {
							rt.Fatalf("joined %s\ncounted: want (-), got (+):\n%s", lines(straight.Records("joined")), diff)
						}
					}
					for range rapid.IntRange(1, 15).Draw(rt, "records") {
						now += rapid.Int64Range(0, 60).Draw(rt, "later")
						key, value := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key"), rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "value")
						send(rapid.SampledFrom([]topology.Topic[string, string]{words, more}).Draw(rt, "side"), key, value)
						switch rapid.IntRange(0, 6).Draw(rt, "then") {
						case 0:
							bad.Restart()
						case 1:
							bad.Crash()
						case 2:
							bad.Abort()
						}
					}
					now += 1000
					send(words, "z", "l")
					send(more, "z", "r")
					if got := last(straight, "joined"); which == "both" && !cmp.Equal(got, map[string]string{"z": "lr"}) {
						rt.Fatalf("in the end joined are %v", got)
					}
					bad.Commit()
					for _, topic := range []string{"joined", "tally"} {
						if want, got := lines(straight.Records(topic)), lines(bad.Records(topic)); want != got {
							rt.Fatalf("%s: want\n%s, with losses\n%s", topic, want, got)
						}
					}
				})
			})
		}
	}
}
