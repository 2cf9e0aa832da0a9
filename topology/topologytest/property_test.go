package topologytest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

var (
	perUser = topology.NewTopic("per-user", serde.String(), serde.Int64())
	recent  = topology.NewTopic("recent", serde.String(), serde.Int64())
	both    = topology.NewTopic("both", serde.String(), serde.String())
	grouped = topology.NewTopic("grouped", serde.String(), serde.String())
)

// shop sums amounts by group, through a repartition topic, and looks up names for the sums. Even sums are halved, stored and grouped again. It also
// counts by key, once for ever and once with a time to live.
func shop(b *topology.Builder) (handles map[string]store.KeyValueHandle[string, int64], named store.KeyValueHandle[string, string]) {
	orders := b.Stream(amounts)
	who := b.Table("names", names, store.FiniteKeys(100))
	sums := orders.GroupBy(func(_ string, n int64) string { return fmt.Sprint("group", n%3) }).
		Reduce("sums", store.FiniteKeys(3), func(sum, n int64) int64 { return sum + n })
	sums.Stream().LeftJoinTable(who, func(n int64, name *string) string {
		if name == nil {
			return fmt.Sprint("nobody has ", n)
		}
		return fmt.Sprint(*name, " has ", n)
	}).To(greeting)
	rows := sums.Filter(func(_ string, n int64) bool { return n%2 == 0 }).MapValues(func(n int64) string { return fmt.Sprint(n / 2) }).Stored("halves")
	rows.To(both)
	rows.GroupBy(func(_, half string) (string, string) { return fmt.Sprint(len(half)), half }).
		Reduce("grouped", store.FiniteKeys(10), func(sum, v string) string { return sum + "+" + v }, func(sum, v string) string { return sum + "-" + v }).To(grouped)
	users := orders.GroupByKey().Count("per-user", store.FiniteKeys(10), store.InMemory())
	users.To(perUser)
	lately := orders.GroupByKey().Count("recent", store.TTL(80*time.Millisecond))
	lately.To(recent)
	return map[string]store.KeyValueHandle[string, int64]{"sums": sums.Store(), "per-user": users.Store(), "recent": lately.Store()}, rows.Store()
}

// outcome is all that a driver leaves behind.
type outcome struct {
	Outputs    map[string][]string
	Changelogs map[string]map[string]string
	Rows       map[string]map[string]int64
	Named      map[string]string
}

func outcomeOf(t *testing.T, d *topologytest.Driver, handles map[string]store.KeyValueHandle[string, int64], named store.KeyValueHandle[string, string]) outcome {
	t.Helper()
	o := outcome{map[string][]string{}, map[string]map[string]string{}, map[string]map[string]int64{}, map[string]string{}}
	for _, topic := range []string{"greetings", "both", "per-user", "recent", "grouped", "app-sums-repartition", "app-grouped-repartition"} {
		for _, r := range d.Records(topic) {
			o.Outputs[topic] = append(o.Outputs[topic], fmt.Sprintf("%d/%d %s=%q@%d", r.Input, r.Partition, r.Key, r.Value, r.Time.UnixMilli()))
		}
	}
	for _, name := range []string{"sums", "names", "halves", "grouped", "per-user", "recent"} {
		live := make(map[string]string)
		for _, r := range d.Changelog(name) {
			key := fmt.Sprintf("%d %s", r.Partition, r.Key)
			if delete(live, key); r.Value != nil {
				live[key] = fmt.Sprintf("%q@%d", r.Value, r.Time.UnixMilli())
			}
		}
		o.Changelogs[name] = live
	}
	ctx := context.Background()
	for name, h := range handles {
		o.Rows[name] = make(map[string]int64)
		for e, err := range d.Store(h).All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			o.Rows[name][e.Key] = e.Value
		}
	}
	for e, err := range d.Store(named).All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		o.Named[e.Key] = e.Value
	}
	return o
}

// Whatever is lost between the records, the outcome is that of one straight run.
func TestLossesChangeNothing(t *testing.T) {
	var handles map[string]store.KeyValueHandle[string, int64]
	var named store.KeyValueHandle[string, string]
	top := build(t, func(b *topology.Builder) { handles, named = shop(b) })

	rapid.Check(t, func(rt *rapid.T) {
		straight := topologytest.New(t, top, topologytest.Partitions(3))
		lossy := topologytest.New(t, top, topologytest.Partitions(3), topologytest.ManualCommit())
		at := int64(0)
		for range rapid.IntRange(1, 30).Draw(rt, "records") {
			at += rapid.Int64Range(1, 40).Draw(rt, "later")
			late := rapid.SampledFrom([]int64{0, 0, 0, 30, 200}).Draw(rt, "late")
			key := rapid.SampledFrom([]string{"group0", "group1", "group2", "a", "b"}).Draw(rt, "key")
			value := rapid.Int64Range(0, 20).Draw(rt, "value")
			toNames := rapid.IntRange(0, 3).Draw(rt, "to names") == 0
			deleted := toNames && rapid.IntRange(0, 3).Draw(rt, "deleted") == 0
			for _, d := range []*topologytest.Driver{straight, lossy} {
				switch when := d.At(time.Duration(at-late) * time.Millisecond); {
				case deleted:
					d.Input(names).SendNullAt(when, key)
				case toNames:
					d.Input(names).SendAt(when, key, fmt.Sprint("n", value))
				default:
					d.Input(amounts).SendAt(when, key, value)
				}
			}
			switch rapid.IntRange(0, 7).Draw(rt, "then") {
			case 0, 1:
				lossy.Commit()
			case 2:
				lossy.Abort()
			case 3:
				lossy.Crash()
			case 4:
				lossy.Restart()
			}
		}
		lossy.Commit()
		want, got := outcomeOf(t, straight, handles, named), outcomeOf(t, lossy, handles, named)
		if d := cmp.Diff(want, got); d != "" {
			rt.Fatalf("straight (-), with losses (+):\n%s", d)
		}
	})
}
