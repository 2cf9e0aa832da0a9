package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

func either(l, r *string) string {
	show := func(v *string) string {
		if v == nil {
			return "-"
		}
		return *v
	}
	return show(l) + "|" + show(r)
}

// joinedWindows joins the windows of two topics in every way, over tables with stores of their own and without.
func joinedWindows(b *topology.Builder) {
	spec := window.Tumbling(millis(10)).Grace(millis(20))
	out := func(name string) topology.Topic[window.Key[string], string] {
		return topology.NewTopic(name, window.KeySerde(serde.String(), spec), serde.String())
	}
	left := b.Stream(words).GroupByKey().Windowed(spec).Reduce("left", concat)
	right := b.Stream(more).GroupByKey().Windowed(window.Tumbling(millis(10)).Grace(millis(5))).Reduce("right", concat)
	left.Join(right, func(l, r string) string { return l + "|" + r }).To(out("inner"))
	left.LeftJoin(right, func(l string, r *string) string { return either(&l, r) }).To(out("left-out"))
	outer := left.OuterJoin(right, either).Stored("joined")
	outer.To(out("outer"))
	outer.Suppress("closed", topology.UntilWindowCloses()).To(out("finals"))
	// A side that is not stored is worked out from what is.
	left.MapValues(strings.ToUpper).Filter(func(_ window.Key[string], v string) bool { return len(v) > 1 }).Join(right, func(l, r string) string { return l + "|" + r }).To(out("long"))
}

func TestWindowTableJoins(t *testing.T) {
	d := topologytest.New(t, build(t, joinedWindows), epoch)
	w := &windowWorld{Driver: d, t: t, in: d.Input(words), at: map[string]int{}}
	other := &windowWorld{Driver: d, t: t, in: d.Input(more), at: map[string]int{}}
	w.send("k=a@3")
	other.send("k=x@5")
	d.Restart()
	w.send("k=b@1")
	other.send("k=y@14")
	w.send("l=c@15")
	w.wants("inner", false, 10, "k[0,10]=a|x@5 k[0,10]=ab|x@5")
	w.wants("left-out", false, 10, "k[0,10]=a|-@3 k[0,10]=a|x@5 k[0,10]=ab|x@5 l[10,20]=c|-@15")
	w.wants("outer", false, 10, "k[0,10]=a|-@3 k[0,10]=a|x@5 k[0,10]=ab|x@5 k[10,20]=-|y@14 l[10,20]=c|-@15")
	w.wants("long", false, 10, "k[0,10]=AB|x@5")
	other.send("m=z@15") // closes the first window of the right table, not of the left one
	other.send("k=late@2")
	w.late(1)
	w.send("k=d@2")
	w.wants("inner", false, 10, "k[0,10]=abd|x@5")
	w.wants("finals", false, 10, "")
	w.send("l=e@30") // now it is closed on both sides
	w.wants("finals", false, 10, "k[0,10]=abd|x@5")
	w.send("l=f@41")
	w.wants("finals", false, 10, "k[10,20]=-|y@14 l[10,20]=c|-@15 m[10,20]=-|z@15")
}

// Sessions meet where they begin and end alike; a session that became part of a longer one is gone.
func TestSessionTableJoin(t *testing.T) {
	runs := window.Sessions(millis(5)).Grace(millis(100))
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		left, right := b.Stream(words).GroupByKey().Sessions(runs).Reduce("left", concat), b.Stream(more).GroupByKey().Sessions(runs).Reduce("right", concat)
		left.Join(right, func(l, r string) string { return l + "|" + r }).To(topology.NewTopic("inner", window.SessionKeySerde(serde.String()), serde.String()))
	}), epoch)
	w := &windowWorld{Driver: d, t: t, in: d.Input(words), at: map[string]int{}}
	other := &windowWorld{Driver: d, t: t, in: d.Input(more), at: map[string]int{}}
	w.send("k=a@3")
	other.send("k=x@3")
	w.wants("inner", true, 0, "k[3,3]=a|x@3")
	w.send("k=b@6")
	other.send("k=y@6")
	w.wants("inner", true, 0, "k[3,3]=∅@3 k[3,6]=ab|xy@6")
}

// Whatever comes in between, the rows of a join are in the end those of both tables joined.
func TestWindowTableJoinsAreNaive(t *testing.T) {
	top := build(t, joinedWindows)
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(t, top)
		tables := [2]map[string]string{{}, {}}
		var events []windowEvent
		for i := range rapid.IntRange(1, 30).Draw(rt, "records") {
			e := windowEvent{rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key"), string(rune('A' + i)), rapid.Int64Range(0, 14).Draw(rt, "at")}
			side := rapid.IntRange(0, 1).Draw(rt, "side")
			p.send(rt, []topology.Topic[string, string]{words, more}[side], e)
			events = append(events, e)
			start := e.at / 10 * 10 // none is late: the right side has a grace of five
			tables[side][fmt.Sprintf("%s[%d,%d]", e.key, start, start+10)] += e.value
		}
		p.lossy.Commit()
		inner, left, outer := map[string]string{}, map[string]string{}, map[string]string{}
		for k, l := range tables[0] {
			r, ok := tables[1][k]
			if ok {
				inner[k], left[k] = l+"|"+r, l+"|"+r
			} else {
				left[k] = l + "|-"
			}
			outer[k] = left[k]
		}
		for k, r := range tables[1] {
			if tables[0][k] == "" {
				outer[k] = "-|" + r
			}
		}
		for name, d := range map[string]*topologytest.Driver{"straight": p.straight, "with losses": p.lossy} {
			for topic, want := range map[string]map[string]string{"inner": inner, "left-out": left, "outer": outer} {
				got := map[string]string{}
				for _, x := range strings.Fields(inWindows(d.Records(topic), false, 10)) {
					key, value, _ := strings.Cut(x, "=")
					got[key], _, _ = strings.Cut(value, "@")
				}
				if diff := cmp.Diff(want, got); diff != "" {
					rt.Fatalf("%s of %v, %s: naive (-), operator (+):\n%s", topic, events, name, diff)
				}
			}
		}
	})
}

// A key in a window is sent to the partition of the key, as a sink does, so that a task finds its rows.
func TestWindowKeysInput(t *testing.T) {
	spec := window.Tumbling(millis(10))
	counted := topology.NewTopic("counted", window.KeySerde(serde.String(), spec), serde.Int64())
	summed := topology.NewTopic("summed", window.KeySerde(serde.String(), spec), serde.Int64())
	top := build(t, func(b *topology.Builder) {
		b.Stream(words).GroupByKey().Windowed(spec).Count("n").To(counted)
		b.Stream(topology.NewTopic("again", window.KeySerde(serde.String(), spec), serde.Int64())).GroupByKey().
			Reduce("sum", store.FiniteKeys(10), func(a, b int64) int64 { return a + b }).To(summed)
	})
	const partitions = 4
	d := topologytest.New(t, top, epoch, topologytest.Partitions(partitions))
	again := d.Input(topology.NewTopic("again", window.KeySerde(serde.String(), spec), serde.Int64()))
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		d.Input(words).Send(key, "v")
		for start := range int64(3) {
			again.Send(window.Of(key, epochTime(10*start), epochTime(10*start+10)), 1)
		}
	}
	for _, topic := range []string{"counted", "summed"} {
		for _, r := range d.Records(topic) {
			if want := engine.Partition(r.Key[:len(r.Key)-8], partitions); r.Partition != want {
				t.Errorf("%s: key %q is in partition %d, want %d", topic, r.Key, r.Partition, want)
			}
		}
	}
	if got := len(d.Records("summed")); got != 18 {
		t.Errorf("%d records", got)
	}
}

// A count of joined windows goes by what was joined, also when a window of one side has expired before that of the other changes; and an update that comes when the stored join
// has forgotten the window is dropped, rather than taken for one of another row.
func TestWindowTableJoinsForget(t *testing.T) {
	spec := window.Tumbling(millis(10)).Grace(millis(20))
	declare := func(stored bool) func(b *topology.Builder) {
		return func(b *topology.Builder) {
			left := b.Stream(words).GroupByKey().Windowed(spec).Reduce("left", concat)
			right := b.Stream(more).GroupByKey().Windowed(window.Tumbling(millis(10)).Grace(millis(5))).Reduce("right", concat)
			j := left.OuterJoin(right, either)
			if stored {
				j = j.Stored("j")
			}
			j.To(topology.NewTopic("joined", window.KeySerde(serde.String(), spec), serde.String()))
			j.GroupBy(func(_ window.Key[string], v string) (string, string) { return v, v }).Count("n", few).MapValues(func(n int64) string { return fmt.Sprint(n) }).To(tally)
		}
	}
	b := topology.New()
	declare(false)(b)
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "call Stored with a name on the join") {
		t.Errorf("got %v", err)
	}
	d := topologytest.New(t, build(t, declare(true)), epoch)
	w := &windowWorld{Driver: d, t: t, in: d.Input(words), at: map[string]int{}}
	other := &windowWorld{Driver: d, t: t, in: d.Input(more), at: map[string]int{}}
	w.send("k=a@3")
	other.send("k=x@5", "m=z@25") // the right side forgets k
	w.send("k=b@2")
	w.wants("joined", false, 10, "k[0,10]=a|-@3 k[0,10]=a|x@5 m[20,30]=-|z@25 k[0,10]=ab|-@3")
	other.send("m=y@95", "m=y@96") // and now the join does
	w.send("k=c@2")
	w.wants("joined", false, 10, "m[90,100]=-|y@95 m[90,100]=-|yy@96")
	if drops := d.Drops(); len(drops) != 1 || drops[0].Reason != processor.Expired {
		t.Errorf("dropped %+v", drops)
	}
	if diff := cmp.Diff(map[string]string{"ab|-": "1", "-|z": "1", "-|yy": "1"}, positive(last(d, "tally"))); diff != "" {
		t.Errorf("counted: want (-), got (+):\n%s", diff)
	}
}
