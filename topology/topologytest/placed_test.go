package topologytest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

// The window of a key has no part in choosing its partition, wherever the key is written: so records that go through a repartition topic, and foreign keys, find the rows of a topic with
// windowed keys. Before, the window was hashed too, and most found nothing.
func TestWindowedKeysMeet(t *testing.T) {
	minute := window.Tumbling(time.Minute)
	keys := window.KeySerde(serde.String(), minute)
	limits := topology.NewTopic("limits", keys, serde.String())
	at := func(i int) window.Key[string] {
		start := time.UnixMilli(0).Add(time.Duration(i) * time.Minute)
		return window.Of(fmt.Sprint("k", i%3), start, start.Add(time.Minute))
	}
	index := func(i int64) window.Key[string] { return at(int(i)) }
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		table := b.Table("limits", limits, few)
		b.Default[window.Key[string]](keys)
		b.Stream(amounts).SelectKey(func(_ string, n int64) window.Key[string] { return index(n) }).Repartition("by-window").
			JoinTable(table, func(n int64, limit string) string { return fmt.Sprint(n, limit) }).SelectKey(func(window.Key[string], string) string { return "k" }).To(greeting)
		b.Table("orders", topology.NewTopic("orders", serde.String(), serde.Int64()), few).
			JoinForeign("fk", table, func(_ string, n int64) (window.Key[string], bool) { return index(n), true }, func(n int64, limit string) string { return fmt.Sprint(n, limit) }).To(both)
	}), topologytest.Partitions(5))
	var want []string
	for i := range 9 {
		d.Input(limits).Send(at(i), fmt.Sprint(" of ", i))
		want = append(want, fmt.Sprint(i, " of ", i))
	}
	for i := range int64(9) {
		d.Input(amounts).Send("x", i)
		d.Input(topology.NewTopic("orders", serde.String(), serde.Int64())).Send(fmt.Sprint("o", i), i)
	}
	for _, topic := range []string{"greetings", "both"} {
		var got []string
		for _, r := range d.Records(topic) {
			got = append(got, string(r.Value))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", topic, got, want)
		}
	}
}

// Topics with a partitioner of their own are joined as others are, by foreign keys too if it goes by the key alone; a partition that does not exist is an error that says so.
func TestOwnPartitionersMeet(t *testing.T) {
	byLength := func(k string, n int) int {
		if k == "nowhere" {
			return n
		}
		return len(k) % n
	}
	owners := topology.NewTopic("owners", serde.String(), serde.String()).PartitionedByKey(byLength)
	visits := topology.NewTopic("visits", serde.String(), serde.String()).PartitionedByKey(byLength)
	pets := topology.NewTopic("pets", serde.String(), serde.String()) // by hash
	top := build(t, func(b *topology.Builder) {
		table := b.Table("owners", owners, few)
		pair := func(a, b string) string { return a + " " + b }
		b.Stream(visits).JoinTable(table, pair).To(greeting)
		b.Table("pets", pets, few).JoinForeign("fk", table, func(_, owner string) (string, bool) { return owner, true }, pair).To(both)
	})
	opts := []topologytest.Option{topologytest.Topic("owners", 3), topologytest.Topic("visits", 3), topologytest.Topic("pets", 4)}
	d := topologytest.New(t, top, opts...)
	var want []string
	for i := range 6 {
		owner := "o" + "......"[:i]
		d.Input(owners).Send(owner, fmt.Sprint("row ", i))
		d.Input(visits).Send(owner, owner)
		d.Input(pets).Send(fmt.Sprint("pet ", i), owner)
		want = append(want, fmt.Sprintf("%s row %d", owner, i))
	}
	for _, topic := range []string{"greetings", "both"} {
		var got []string
		for _, r := range d.Records(topic) {
			got = append(got, string(r.Value))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", topic, got, want)
		}
	}
	failed := fails(func(tb topologytest.TB) { topologytest.New(tb, top, opts...).Input(pets).Send("p", "nowhere") })
	if !strings.Contains(failed, "PartitionedByKey chose partition 3 for a foreign key: its topic has the partitions 0 to 2") {
		t.Errorf("a partition that is not there: %s", failed)
	}
}
