package topology_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

var (
	trips  = topology.NewTopic("trips", serde.String(), serde.Optional(serde.String()))
	places = topology.NewTopic("places", serde.String(), serde.String())
	routes = topology.NewTopic("routes", serde.String(), serde.String())
)

// locate looks up where trips go: the value up to a comma, if it has one.
func locate(b *topology.Builder, left bool, opts ...topology.TableOption) topology.GlobalTable[string, string] {
	table := b.GlobalTable("places", places, store.FiniteKeys(100), opts...)
	to := func(_ string, v *string) (string, bool) {
		key, _, ok := strings.Cut(*v, ",")
		return key, ok
	}
	if left {
		b.Stream(trips).LeftJoinGlobal(table, to, func(v, place *string) string {
			if place == nil {
				return *v + "+none"
			}
			return *v + "+" + *place
		}, topology.Named("join")).To(routes)
	} else {
		b.Stream(trips).JoinGlobal(table, to, func(v *string, place string) string { return *v + "+" + place }, topology.Named("join")).To(routes)
	}
	return table
}

// Which records find a row, and what becomes of the others.
func TestJoinGlobal(t *testing.T) {
	for _, c := range []struct {
		left  bool
		want  string
		drops string
	}{
		{true, "A,1+here B,1+none C+none A,2+here ", "join null_value places null_key "},
		{false, "A,1+here A,2+here ", "join no_row join null_key join null_value places null_key "},
	} {
		var table topology.GlobalTable[string, string]
		top := build(t, func(b *topology.Builder) {
			table = locate(b, c.left)
			b.Table("own", places, few, topology.Named("own")).Store() // the topic is read by tasks too
		})
		d := topologytest.New(t, top, topologytest.Partitions(3))
		rows, in := d.Input(places), d.Input(trips)
		text := func(s string) *string { return &s }
		rows.SendAt(d.At(time.Minute), "A", "here")
		rows.SendRecord(processor.Record[string, string]{NullKey: true, Value: "nowhere"})
		in.Send("x", text("A,1"))
		in.Send("x", text("B,1"))
		in.Send("x", text("C"))
		in.Send("x", nil)
		in.SendRecord(processor.Record[string, *string]{NullKey: true, Value: text("A,2")})
		var got string
		for _, r := range d.Records("routes") {
			got += string(r.Value) + " "
		}
		if got != c.want {
			t.Errorf("left %v: got %q, want %q", c.left, got, c.want)
		}
		var drops []string
		for _, x := range d.Drops() {
			if node := x.Node; node != "own" {
				if x.Task == "global" {
					node = "places"
				}
				drops = append(drops, node+" "+string(x.Reason)+" ")
			}
		}
		slices.Sort(drops)
		if got := strings.Join(drops, ""); got != c.drops {
			t.Errorf("left %v: dropped %q, want %q", c.left, got, c.drops)
		}
		if e, ok, err := d.Store(table.Store()).Entry(context.Background(), "A"); err != nil || !ok || e.Value != "here" || !e.Time.Equal(d.At(time.Minute)) {
			t.Errorf("the row is %+v, %v, %v", e, ok, err)
		}
		before := len(d.Drops())
		d.Restart()
		if n := len(d.Drops()); n != before {
			t.Errorf("%d drops after a restart, %d before", n, before)
		}
		rows.SendNull("A")
		in.Send("x", text("A,3"))
		if _, ok, _ := d.Store(table.Store()).Get(context.Background(), "A"); ok {
			t.Error("a deleted row is there")
		}
	}
}

// The join is that of a naive one, whatever is lost on the way.
func TestJoinGlobalEqualsNaive(t *testing.T) {
	top := build(t, func(b *topology.Builder) { locate(b, true) })
	rapid.Check(t, func(rt *rapid.T) {
		d := topologytest.New(t, top, topologytest.Partitions(3), topologytest.ManualCommit())
		rows, in := d.Input(places), d.Input(trips)
		now := map[string]string{}
		want := map[string][]string{}
		for i := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key")
			switch rapid.SampledFrom([]string{"row", "row", "delete", "trip", "trip", "trip", "commit", "abort", "crash", "restart"}).Draw(rt, "step") {
			case "row":
				now[key] = fmt.Sprint("p", i)
				rows.Send(key, now[key])
			case "delete":
				delete(now, key)
				rows.SendNull(key)
			case "trip":
				v := fmt.Sprint(key, ",", i)
				place := "none"
				if p, ok := now[key]; ok {
					place = p
				}
				in.Send(fmt.Sprint("k", i%5), &v)
				want[fmt.Sprint("k", i%5)] = append(want[fmt.Sprint("k", i%5)], v+"+"+place)
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
		got := map[string][]string{}
		for _, r := range d.Records("routes") {
			got[string(r.Key)] = append(got[string(r.Key)], string(r.Value))
		}
		if !maps.EqualFunc(got, want, slices.Equal) {
			rt.Fatalf("got %q\nwant %q", got, want)
		}
	})
}

func TestDescribeGlobal(t *testing.T) {
	top := build(t, func(b *topology.Builder) { locate(b, true) })
	golden(t, "global.txt", top.Describe()+"\n"+top.DOT()+"\n"+top.Mermaid())
}

// What is wrong with global tables is reported by Build.
func TestGlobalFaults(t *testing.T) {
	for want, declare := range map[string]func(b *topology.Builder){
		"a global table has no TTL":               func(b *topology.Builder) { b.GlobalTable("places", places, store.TTL(time.Hour)) },
		"the store has no bound":                  func(b *topology.Builder) { b.GlobalTable("places", places, store.Bound{}) },
		"restored from its topic in any case":     func(b *topology.Builder) { locate(b, true, topology.SourceIsChangelog()) },
		"can send nothing to a dead letter topic": func(b *topology.Builder) { locate(b, true, topology.OnError(topology.DeadLetter("dead"))) },
		"two stores have this name":               func(b *topology.Builder) { locate(b, true); b.GlobalTable("places", routes, few) },
		"it was given a zero global table": func(b *topology.Builder) {
			b.Stream(routes).JoinGlobal(topology.GlobalTable[string, string]{}, func(k, _ string) (string, bool) { return k, true }, func(a, b string) string { return a })
		},
		"it was given a global table of another": func(b *topology.Builder) {
			b.Stream(routes).JoinGlobal(topology.New().GlobalTable("x", places, few), func(k, _ string) (string, bool) { return k, true }, func(a, b string) string { return a })
		},
		"the function is nil": func(b *topology.Builder) {
			b.Stream(routes).JoinGlobal[string, string, string](b.GlobalTable("places", places, few), nil, func(a, b string) string { return a })
		},
		"which belongs to no task": func(b *topology.Builder) {
			b.Stream(routes).Process("p", func() *idler { return &idler{} }, b.GlobalTable("places", places, few).Store())
		},
		"the topic is used with another serde of the value": func(b *topology.Builder) {
			b.Stream(topology.NewTopic("places", serde.String(), serde.Int64()))
			b.GlobalTable("places", places, few)
		},
	} {
		b := topology.New()
		declare(b)
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("want only %q, got %v", want, err)
		}
	}
}

// idler is a processor that does nothing.
type idler struct{}

func (*idler) Process(*processor.Context[string, string], processor.Record[string, string]) error {
	return nil
}
