package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

// deduping drops duplicates by value.
func deduping(horizon time.Duration) func(*topology.Builder) {
	return func(b *topology.Builder) { b.Stream(words).Deduplicate("seen", horizon, byValue).To(more) }
}

// What was let through before a crash that its offset has not survived, without transactions, is let through again.
func TestD01Deduplicate(t *testing.T) {
	top := build(t, func(b *topology.Builder) {
		b.Stream(words).FlatMapValues(strings.FieldsSeq).Deduplicate("seen", ms(10), byValue).To(more)
	})
	records := []string{"k=a@5", "k=a@6", "k=b c b@7", "k=d b@8"}
	const out = "k=a@5 k=b@7 k=c@7 k=d@8"
	crashed := start(t, top)
	crashed.send("words", records...)
	crashed.wants("more", out)
	crashed.commit()

	w := start(t, top)
	for _, e := range crashed.changelogs["seen"] {
		if err := w.tasks[0].Restore(0, e.key, e.value, e.at); err != nil {
			t.Fatal(err)
		}
	}
	w.send("words", records...)
	w.wants("more", out)
	w.send("words", records...) // again, at other offsets
	w.wants("more", "")
	w.commit()
	if n := len(w.changelogs["seen"]); n > 0 {
		t.Errorf("%d entries were written again", n)
	}
}

// The same when the store has forgotten the record in the meantime, and so cannot take it.
func TestD01DeduplicateForgotten(t *testing.T) {
	top := build(t, deduping(ms(10)))
	crashed := start(t, top)
	crashed.send("words", "k=a@0", "k=b@1000")
	crashed.commit()
	w := start(t, top)
	for _, e := range crashed.changelogs["seen"] {
		if err := w.tasks[0].Restore(0, e.key, e.value, e.at); err != nil {
			t.Fatal(err)
		}
	}
	w.send("words", "k=a@0", "k=b@1000", "k=b@1001")
	w.wants("more", "k=a@0 k=b@1000")
}

func TestD02Deduplicate(t *testing.T) {
	for _, c := range []struct{ name, in, out string }{
		{"same time", "k=a@5 k=a@5 k=b@5", "k=a@5 k=b@5"},
		{"exactly the horizon", "k=a@0 k=a@10 k=a@11", "k=a@0 k=a@11"},
		{"exactly the horizon earlier", "k=a@20 k=a@10", "k=a@20"},
		{"earlier", "k=a@10 k=a@2", "k=a@10"},
		{"earlier, beyond the horizon of the kept one", "k=a@18 k=b@11 k=b@15 k=a@8", "k=a@18 k=b@11"},
		{"between two that were kept", "k=a@0 k=a@11 k=a@5", "k=a@0 k=a@11"},
		{"no extension", "k=a@0 k=a@6 k=a@12", "k=a@0 k=a@12"},
		{"as late as may be", "k=a@30 k=b@20", "k=a@30 k=b@20"},
		{"late", "k=a@30 k=b@19", "k=a@30"},
		{"the largest time", fmt.Sprintf("k=a@%d k=a@%d", int64(1)<<62, int64(1)<<62), fmt.Sprintf("k=a@%d", int64(1)<<62)},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := build(t, deduping(ms(10)))
			w := start(t, top)
			w.send("words", strings.Fields(c.in)...)
			w.wants("more", c.out)
			// The same after restarts.
			d := topologytest.New(t, top, topologytest.ManualCommit())
			for _, e := range parseEvents(t, strings.ReplaceAll(c.in, "=", ":")) {
				sendEvent(d, e)
				d.Commit()
				d.Restart()
			}
			var got []string
			for _, r := range d.Records("more") {
				got = append(got, emitted{key: r.Key, value: r.Value, at: r.Time.UnixMilli()}.String())
			}
			if text := strings.Join(got, " "); text != c.out {
				t.Errorf("with restarts %s, want %s", text, c.out)
			}
		})
	}
}

// checkpoint applies what is committed to the backend.
func checkpoint(t *testing.T, w *world) {
	t.Helper()
	for _, task := range w.tasks {
		c, err := task.Freeze([]byte("x"))
		if err == nil {
			err = c.Apply()
		}
		if err == nil {
			err = task.Applied(c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Ids that never come again go with time.
func TestD03Deduplicate(t *testing.T) {
	w := run(t, deduping(time.Minute))
	rows := w.tasks[0].StoreNamed("seen")
	most := int64(0)
	for i := range 3000 {
		w.send("words", fmt.Sprintf("k=id%d@%d000", i, i))
		if i%20 == 19 {
			w.commit()
			checkpoint(t, w)
			most = max(most, rows.Stats().Entries)
		}
	}
	// Three cells of a minute, one segment of a minute, and what came since the last commit.
	if most < 120 || most > 270 {
		t.Errorf("there were %d ids at a time", most)
	}
	if n := len(w.changelogs["seen"]); n != 3000 {
		t.Errorf("%d records went to the changelog", n) // of which it keeps those of the retention
	}
}

// An id that comes again in the commit in which its old entry expires is remembered from then on.
func TestD04Deduplicate(t *testing.T) {
	w := run(t, deduping(ms(60_000)))
	w.send("words", "k=a@1000")
	w.commit()
	checkpoint(t, w)
	w.send("words", "k=a@200000", "k=b@500000", "k=a@500000")
	w.commit()
	checkpoint(t, w)
	w.send("words", "k=a@500001", "k=b@560000")
	w.wants("more", "k=a@1000 k=a@200000 k=b@500000 k=a@500000")
	w.send("words", "k=a@560001", "k=b@560000")
	w.commit()
	checkpoint(t, w)
	w.wants("more", "k=a@560001")
	if n := w.tasks[0].StoreNamed("seen").Stats().Entries; n != 3 {
		t.Errorf("%d ids are left", n)
	}
}

// Ids that are the beginning of others, or hold any byte, are different.
func TestD05Deduplicate(t *testing.T) {
	ids := []string{"", "\x00", "\x00\x00", "\xff", "\xff\xff", "key", "key2", "key\x00", "key\xff", "ke"}
	d := topologytest.New(t, build(t, deduping(time.Minute)), topologytest.ManualCommit())
	in, want := d.Input(words), 0
	for _, at := range []int64{1000, 50_000, 70_000, 300_000, 300_001, 420_000} {
		for i, id := range ids {
			if at == 70_000 && i%2 == 0 {
				continue // only half of them is remembered from then on
			}
			in.SendAt(time.UnixMilli(at), "k", id)
		}
		d.Commit()
		d.Restart()
	}
	got := d.Records("more")
	if want = len(ids) + len(ids)/2 + 2*len(ids); len(got) != want {
		t.Errorf("%d records, want %d", len(got), want)
	}
}

// An id that is not the key must be made the key, which takes a repartition topic.
func TestD06Deduplicate(t *testing.T) {
	top := build(t, func(b *topology.Builder) {
		b.Stream(words).SelectKey(byValue).Deduplicate("seen", ms(10), byValue, topology.Named("once"), store.Version(2)).To(more)
	})
	if text := top.Describe(); !strings.Contains(text, "seen-v2-repartition") || !strings.Contains(text, "Processor: once (stores: [seen])") {
		t.Error(text)
	}
	d := topologytest.New(t, top, topologytest.Partitions(2))
	keys := map[int32]string{}
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		keys[engine.Partition([]byte(k), 2)] = k
	}
	if len(keys) != 2 {
		t.Fatal("all keys are in one partition")
	}
	sendEvent(d, event{keys[0], "id7", 0})
	sendEvent(d, event{keys[1], "id7", 1})
	out := d.Output(more)
	out.Next("id7", "id7")
	out.None()
	if n := len(d.Drops(processor.Duplicate)); n != 1 {
		t.Errorf("%d duplicates", n)
	}
}

// once is the documentation of Deduplicate as a program, for one partition. It remembers everything.
type once struct {
	horizon, clock  int64
	kept            map[string][]int64
	out             []event
	late, duplicate int
}

func (o *once) record(e event) {
	o.clock = max(o.clock, e.at)
	if e.at < o.clock-o.horizon {
		o.late++
		return
	}
	for _, at := range o.kept[e.value] {
		if max(at-e.at, e.at-at) <= o.horizon {
			o.duplicate++
			return
		}
	}
	o.kept[e.value] = append(o.kept[e.value], e.at)
	o.out = append(o.out, e)
}

// written is what was written to a partition of topic more.
func written(d *topologytest.Driver, partition int32) (out []event) {
	for _, r := range d.Records("more") {
		if r.Partition == partition {
			out = append(out, event{string(r.Key), string(r.Value), r.Time.UnixMilli()})
		}
	}
	return out
}

// Whatever the stream, and whatever is lost between the records, the operator keeps what the naive one keeps.
func TestDeduplicateIsNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		scale := rapid.SampledFrom([]int64{1, 1, 9000}).Draw(rt, "scale") // a segment of the store is a minute or longer
		horizon := rapid.Int64Range(1, 20).Draw(rt, "horizon") * scale
		top := build(t, deduping(ms(horizon)))
		const partitions = 2
		var want [partitions]*once
		for i := range want {
			want[i] = &once{horizon: horizon, kept: map[string][]int64{}}
		}
		straight := topologytest.New(t, top, topologytest.Partitions(partitions))
		lossy := topologytest.New(t, top, topologytest.Partitions(partitions), topologytest.ManualCommit())
		now := int64(0)
		for range rapid.IntRange(1, 60).Draw(rt, "records") {
			now += rapid.SampledFrom([]int64{0, 0, 1, 1, 2, 3, 5, 9, 40}).Draw(rt, "later")
			e := event{
				key:   rapid.SampledFrom([]string{"k", "k", "l", ""}).Draw(rt, "key"),
				value: rapid.SampledFrom([]string{"a", "a", "ab", ""}).Draw(rt, "id"),
				at:    max(0, now-rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 5, 10, 19, 20, 21}).Draw(rt, "behind")) * scale,
			}
			if scale > 1 {
				e.at += rapid.Int64Range(-1, 1).Draw(rt, "beside")
				e.at = max(0, e.at)
			}
			rt.Logf("record %s", e)
			want[engine.Partition([]byte(e.key), partitions)].record(e)
			sendEvent(straight, e)
			sendEvent(lossy, e)
			switch rapid.IntRange(0, 9).Draw(rt, "then") {
			case 0, 1, 2:
				lossy.Commit()
			case 3:
				lossy.Abort()
			case 4:
				lossy.Crash()
			case 5:
				lossy.Restart()
			}
		}
		lossy.Commit()
		late, duplicate := 0, 0
		for i, o := range want {
			late, duplicate = late+o.late, duplicate+o.duplicate
			if d := cmp.Diff(o.out, written(straight, int32(i)), cmp.AllowUnexported(event{})); d != "" {
				rt.Fatalf("partition %d: naive (-), operator (+):\n%s", i, d)
			}
			if d := cmp.Diff(o.out, written(lossy, int32(i)), cmp.AllowUnexported(event{})); d != "" {
				rt.Fatalf("partition %d: naive (-), operator with losses (+):\n%s", i, d)
			}
		}
		if a, b := len(straight.Drops(processor.Late)), len(straight.Drops(processor.Duplicate)); a != late || b != duplicate {
			rt.Fatalf("%d late and %d duplicates, want %d and %d", a, b, late, duplicate)
		}
	})
}

func TestDeduplicateDrops(t *testing.T) {
	fail := errors.New("no")
	declare := func(b *topology.Builder) {
		b.Stream(words).Deduplicate("seen", ms(10), func(_, v string) string {
			if v == "!" {
				panic(fail)
			}
			return v
		}).To(more)
	}
	w := run(t, declare)
	if err := w.try("words", "k=!@0"); !errors.Is(err, fail) || !strings.Contains(err.Error(), "KSTREAM-DEDUPLICATE-0000000001") {
		t.Errorf("error %v", err)
	}
	w = run(t, declare, func(w *world) { w.env.OnProcess = engine.Policy{Kind: engine.Skip} })
	w.send("words", null+"=a@0", "k=a@20", "k=!@21", "l=a@22", "k=a@5")
	w.wants("more", "k=a@20")
	const node = "KSTREAM-DEDUPLICATE-0000000001 "
	w.dropped(node+"null_key", node+"skipped", node+"duplicate", node+"late")
}

// Nodes judge by their own stream time: what does not reach one does not make anything late there.
func TestDeduplicateStreamTime(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		b.Stream(words).FilterValues(func(v string) bool { return v != "hidden" }).Deduplicate("seen", ms(10), byValue).To(more)
	})
	w.send("words", "k=a@20", "k=hidden@1000", "k=b@12", "k=a@12")
	w.wants("more", "k=a@20 k=b@12")
	w.dropped("KSTREAM-DEDUPLICATE-0000000002 duplicate")
}

func TestDeduplicateFaults(t *testing.T) {
	declare := func(horizon time.Duration) *topology.Builder {
		b := topology.New()
		b.Stream(words).Deduplicate("seen", horizon, byValue)
		return b
	}
	faultOf(t, declare(0), "the horizon is 0s")
	faultOf(t, declare(-time.Second), "the horizon is -1s")
	faultOf(t, declare(time.Microsecond), "at least one millisecond")
	faultOf(t, declare(1<<63-1), "100 years")
	const century = 100 * 365 * 24 * time.Hour
	if _, err := declare(century).Build(); err != nil {
		t.Error(err)
	}
	b := topology.New()
	b.Stream(words).Deduplicate[string]("seen", time.Second, nil)
	faultOf(t, b, "the function is nil")
	b = topology.New()
	b.Stream(words).Deduplicate("bad name", time.Second, byValue)
	faultOf(t, b, "illegal character")
	b = topology.New()
	b.Stream(words).Deduplicate("seen", time.Second, func(string, string) float64 { return 0 })
	faultOf(t, b, "NaN")
	b = topology.New()
	b.Stream(words).Deduplicate("seen", time.Second, func(_, v string) *string { return &v })
	faultOf(t, b, "pointers")
	b = topology.New()
	b.Stream(words).Deduplicate("seen", time.Second, func(_, v string) shop { return shop{v} })
	faultOf(t, b, "no serde is known for its ids, of type topology_test.shop")
	b = topology.New()
	b.Stream(words).Deduplicate("seen", time.Second, byValue)
	b.Stream(words).GroupByKey().Count("seen", few)
	faultOf(t, b, "two stores have this name")
	if got := (topology.Stream[string, string]{}).Deduplicate("seen", time.Second, byValue); got != (topology.Stream[string, string]{}) {
		t.Error("a zero stream leads somewhere")
	}
}

// loud is a serde of another name.
type loud struct{ serde.Serde[shop] }

func (loud) String() string { return "loud" }

// The ids have the serde of the keys or values if they are of their type, else that of the builder.
func TestDeduplicateSerdes(t *testing.T) {
	b := topology.New()
	b.Default(serde.JSON[shop]())
	in := b.Stream(words).MapValues(toShop)
	in.Deduplicate("default", time.Second, func(_ string, s shop) shop { return s })
	in.WithValue(loud{serde.JSON[shop]()}).Deduplicate("values", time.Second, func(_ string, s shop) shop { return s })
	in.Deduplicate("builtin", time.Second, func(_ string, s shop) int64 { return int64(len(s.Name)) })
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range engine.GraphOf(top).Subs[0].Stores {
		got = append(got, d.Name+" "+d.Key)
	}
	slices.Sort(got)
	want := []string{"builtin windowed(int64,1.001s)", "default windowed(json,1.001s)", "values windowed(loud,1.001s)"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
