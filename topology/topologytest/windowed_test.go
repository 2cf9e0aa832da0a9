package topologytest_test

import (
	"fmt"
	"slices"
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
