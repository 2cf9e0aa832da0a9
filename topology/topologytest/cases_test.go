package topologytest_test

import (
	"context"
	"fmt"
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

// written is what went to a topic, each as key=value.
func written(d *topologytest.Driver, topic string) (out []string) {
	for _, r := range d.Records(topic) {
		switch {
		case r.Value == nil:
			out = append(out, fmt.Sprintf("%s deleted", r.Key))
		case len(r.Value) == 8 && r.Value[0] == 0:
			out = append(out, fmt.Sprintf("%s=%d", r.Key, r.Value[7]))
		default:
			out = append(out, fmt.Sprintf("%s=%s", r.Key, r.Value))
		}
	}
	return out
}

// TA01: an aggregate of a table takes off exactly what is stored for a row, and nothing for a row that is not there.
func TestTA01(t *testing.T) {
	for name, lose := range map[string]func(*topologytest.Driver){"running": func(*topologytest.Driver) {}, "restored": (*topologytest.Driver).Restart} {
		t.Run(name, func(t *testing.T) {
			d := topologytest.New(t, build(t, func(b *topology.Builder) {
				b.Table("homes", names, few).GroupBy(func(k, area string) (string, string) { return area, k }).Count("per-area", few).To(totals)
			}), topologytest.Partitions(3))
			in := d.Input(names)
			in.Send("d1", "area1")
			lose(d)
			in.SendNull("d1")
			lose(d)
			in.SendNull("d1")
			in.SendNull("d9")
			lose(d)
			in.Send("d1", "area1")
			if got := written(d, "totals"); !slices.Equal(got, []string{"area1=1", "area1=0", "area1=1"}) {
				t.Errorf("got %q", got)
			}
		})
	}
}

var few = store.FiniteKeys(100)

// N01: an empty value is a value, and a null is none: in the rows, on the changelog and after a restore.
func TestN01(t *testing.T) {
	var rows store.KeyValueHandle[string, string]
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		table := b.Table("rows", names, few)
		rows = table.Store()
		table.To(greeting)
	}))
	in := d.Input(names)
	check := func(when string, want bool) {
		t.Helper()
		for _, lost := range []string{"", " after a restore"} {
			v, ok, err := d.Store(rows).Get(context.Background(), "k")
			if err != nil || ok != want || v != "" {
				t.Errorf("%s%s: got %q, %v, %v", when, lost, v, ok, err)
			}
			d.Restart()
		}
	}
	in.Send("k", "")
	check("an empty value", true)
	in.SendNull("k")
	check("a null", false)
	log := d.Changelog("rows")
	if len(log) != 2 || log[0].Value == nil || len(log[0].Value) != 0 || log[1].Value != nil {
		t.Errorf("changelog %+v", log)
	}
	if out := d.Records("greetings"); len(out) != 2 || out[0].Value == nil || out[1].Value != nil {
		t.Errorf("output %+v", out)
	}
}

// N02: keys that are zero values are keys like any other: they are sent as they are, to the partition of their bytes.
func TestN02(t *testing.T) {
	ints, strs := topology.NewTopic("ints", serde.Int64(), serde.String()), topology.NewTopic("strs", serde.String(), serde.String())
	bools := topology.NewTopic("bools", serde.Bool(), serde.String())
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		in := b.Stream(names)
		in.SelectKey(func(string, string) int64 { return 0 }).To(ints)
		in.SelectKey(func(string, string) string { return "" }).Repartition("empty").To(strs)
		in.SelectKey(func(string, string) bool { return false }).To(bools)
	}), topologytest.Partitions(7))
	d.Input(names).Send("old", "v")
	for topic, key := range map[string][]byte{"ints": make([]byte, 8), "strs": {}, "app-empty-repartition": {}, "bools": {0}} {
		r := d.Records(topic)
		if len(r) != 1 || r[0].Key == nil || !slices.Equal(r[0].Key, key) {
			t.Errorf("%s got %+v", topic, r)
			continue
		}
		if want := map[string]int32{"strs": 2, "app-empty-repartition": 2}[topic]; len(key) == 0 && r[0].Partition != want { // 275646681 modulo 7
			t.Errorf("%s: an empty key is in partition %d, want %d", topic, r[0].Partition, want)
		}
	}
	if n := len(d.Drops()); n > 0 {
		t.Errorf("%d drops", n)
	}
}

// N03: an aggregate drops a record without a key, says so, and goes on with those that have one.
func TestN03(t *testing.T) {
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		b.Stream(amounts).GroupByKey().Reduce("max", few, func(a, b int64) int64 { return max(a, b) }).To(totals)
	}))
	in := d.Input(amounts)
	in.SendRecord(processor.Record[string, int64]{NullKey: true, Value: 9})
	in.Send("k", 3)
	in.SendRecord(processor.Record[string, int64]{NullKey: true, Value: 9})
	in.Send("k", 2)
	if got := written(d, "totals"); !slices.Equal(got, []string{"k=3", "k=3"}) {
		t.Errorf("got %q", got)
	}
	if n := len(d.Drops(processor.NullKey)); n != 2 || len(d.Drops()) != 2 {
		t.Errorf("drops %+v", d.Drops())
	}
	for _, r := range d.Changelog("max") {
		if r.Key == nil {
			t.Error("the changelog has a null key")
		}
	}
}

// N05: what is deleted in a transaction is gone for every way of reading in it, whatever is committed below.
func TestN05(t *testing.T) {
	cells := store.NewKeyValue("cells", serde.String(), serde.String(), few)
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		b.Stream(names).Process("cells", func() *deleter { return new(deleter) }, cells).To(greeting)
	}), topologytest.ManualCommit())
	in := d.Input(names)
	in.Send("k", "put")
	in.Send("k1", "put")
	d.Commit()
	in.Send("k", "delete")
	in.Send("k", "look")
	in.Send("k", "again")
	in.Send("k", "look")
	d.Commit()
	want := []string{"k=put", "k1=put", "k=absent k1 k1 k1 k1", "k=again k,k1 k1,k k,k1 k,k1"}
	var got []string
	for _, r := range d.Records("greetings") {
		got = append(got, fmt.Sprintf("%s=%s", r.Key, r.Value))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// deleter puts, deletes and looks in every way there is.
type deleter struct {
	cells store.KeyValue[string, string]
}

func (p *deleter) Init(ctx *processor.Context[string, string]) error {
	p.cells = ctx.Store(store.NewKeyValue("cells", serde.String(), serde.String(), few))
	return nil
}

func (p *deleter) Process(ctx *processor.Context[string, string], r processor.Record[string, string]) error {
	switch r.Value {
	case "delete":
		p.cells.Delete(r.Key)
		return nil
	case "again":
		p.cells.Put(r.Key, r.Value)
		return nil
	case "put":
		p.cells.Put(r.Key, r.Value)
	case "look":
		keys := func(all func(func(string, string) bool)) string {
			var out []string
			for k := range all {
				out = append(out, k)
			}
			return strings.Join(out, ",")
		}
		v, ok := p.cells.Get(r.Key)
		if !ok {
			v = "absent"
		}
		r.Value = fmt.Sprintf("%s %s %s %s %s", v, keys(p.cells.Range("a", "z")), keys(p.cells.RangeBackward("a", "z")), keys(p.cells.Prefix([]byte("k"))), keys(p.cells.All()))
	}
	ctx.Forward(r)
	return nil
}

// Each record of a stream meets the row that is there when it is taken, whatever is lost between the records: as the naive join has it.
func TestStreamTableEqualsNaive(t *testing.T) {
	top := build(t, func(b *topology.Builder) {
		table := b.Table("names", names, few).Filter(func(_, v string) bool { return v != "hidden" })
		b.Stream(lines).LeftJoinTable(table, func(line string, name *string) string {
			if name == nil {
				return line + " nobody"
			}
			return line + " " + *name
		}).To(greeting)
		b.Stream(lines).JoinTable(table, func(line, name string) string { return line + " " + name }).To(both)
	})
	rapid.Check(t, func(rt *rapid.T) {
		d := topologytest.New(t, top, topologytest.Partitions(3), topologytest.ManualCommit())
		rows := make(map[string]string)
		left, inner := make(map[string][]string), make(map[string][]string)
		missed, at := 0, int64(1000)
		for i := range rapid.IntRange(1, 60).Draw(rt, "records") {
			at += rapid.SampledFrom([]int64{0, 0, 1, 7, -5, -40}).Draw(rt, "later")
			key, when := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(rt, "key"), d.At(time.Duration(at)*time.Millisecond)
			switch rapid.IntRange(0, 6).Draw(rt, "kind") {
			case 0, 1:
				rows[key] = rapid.SampledFrom([]string{"", "hidden", fmt.Sprint("n", i)}).Draw(rt, "name")
				d.Input(names).SendAt(when, key, rows[key])
			case 2:
				delete(rows, key)
				d.Input(names).SendNullAt(when, key)
			default:
				line := fmt.Sprint("l", i)
				d.Input(lines).SendAt(when, key, line)
				if name, ok := rows[key]; ok && name != "hidden" {
					left[key], inner[key] = append(left[key], line+" "+name), append(inner[key], line+" "+name)
				} else {
					left[key] = append(left[key], line+" nobody")
					missed++
				}
			}
			switch rapid.IntRange(0, 7).Draw(rt, "then") {
			case 0, 1:
				d.Commit()
			case 2:
				d.Abort()
			case 3:
				d.Crash()
			case 4:
				d.Restart()
			}
		}
		d.Commit()
		for topic, want := range map[string]map[string][]string{"greetings": left, "both": inner} {
			got := make(map[string][]string)
			for _, r := range d.Records(topic) {
				got[string(r.Key)] = append(got[string(r.Key)], string(r.Value))
			}
			for key := range want {
				if !slices.Equal(got[key], want[key]) {
					rt.Fatalf("%s of %q: got %q, want %q", topic, key, got[key], want[key])
				}
			}
			if len(got) != len(want) {
				rt.Fatalf("%s: got %q, want %q", topic, got, want)
			}
		}
		if n := len(d.Drops(processor.NoRow)); n != missed {
			rt.Fatalf("%d records without a row, want %d", n, missed)
		}
	})
}
