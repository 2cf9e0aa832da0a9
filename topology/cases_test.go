package topology_test

import (
	"fmt"
	"slices"
	"strconv"
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
	"github.com/kolkstreams/kolk/window"
)

// stamped are words whose value is their event time.
var stamped = words.TimedBy(func(_, v string) time.Time {
	ms, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic(err)
	}
	return time.UnixMilli(ms)
})

// W04: a time before 1970 opens no window, and least of all one that begins after it.
func TestW04(t *testing.T) {
	spec := window.Tumbling(millis(5))
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		b.Stream(stamped).GroupByKey().Windowed(spec).Count("counts").To(topology.NewTopic("updates", window.KeySerde(serde.String(), spec), serde.Int64()))
	}), epoch)
	for _, at := range []string{"-1", "-5", "0"} {
		d.Input(words).Send("k", at)
	}
	if got, want := inWindows(d.Records("updates"), false, 5), "k[0,5]=1@0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if n := len(d.Drops(processor.NoTime)); n != 2 {
		t.Errorf("%d records without a time, want 2", n)
	}
}

// T01: one clock that is a day fast drops everybody else's records, counted, unless there is a bound to what is believed.
func TestT01(t *testing.T) {
	for _, c := range []struct {
		name        string
		opts        []topologytest.Option
		counted     string
		late, ahead int
	}{
		{name: "with MaxAhead", opts: []topologytest.Option{topologytest.MaxAhead(5 * time.Minute)}, counted: "10", ahead: 1},
		{name: "without", counted: "1", late: 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := window.Tumbling(time.Hour).Grace(time.Minute)
			d := topologytest.New(t, build(t, func(b *topology.Builder) {
				b.Stream(words, topology.OnDrop(topology.DeadLetter("wrong"), processor.Ahead)).GroupByKey().Windowed(spec).Count("counts").
					To(topology.NewTopic("updates", window.KeySerde(serde.String(), spec), serde.Int64()))
			}), append(c.opts, epoch)...)
			in := d.Input(words)
			in.SendAt(d.At(24*time.Hour), "k", "wrong")
			for i := range 10 {
				d.Advance(time.Minute)
				in.SendAt(d.At(time.Duration(i+1)*time.Minute), "k", "right")
			}
			records := d.Records("updates")
			if got := text(records[len(records)-1].Value); got != c.counted {
				t.Errorf("the last count is %s, want %s", got, c.counted)
			}
			if got := len(d.Drops(processor.Late)); got != c.late {
				t.Errorf("%d late records, want %d", got, c.late)
			}
			if got := len(d.Drops(processor.Ahead)); got != c.ahead || len(d.DeadLetters("wrong")) != c.ahead {
				t.Errorf("%d records of the future, %d sent elsewhere, want %d", got, len(d.DeadLetters("wrong")), c.ahead)
			}
		})
	}
}

// T02: with FillTime a record without a time has that of its partition, also after a restart. There is none before the first record.
func TestT02(t *testing.T) {
	d := topologytest.New(t, build(t, func(b *topology.Builder) { b.Stream(stamped, topology.FillTime()).To(more) }), epoch, topologytest.Partitions(1))
	in := d.Input(words)
	times := func() (out []int64) {
		for _, r := range d.Records("more") {
			out = append(out, r.Time.UnixMilli())
		}
		return out
	}
	in.Send("k", "-1")
	if n := len(d.Drops(processor.NoTime)); n != 1 || len(times()) != 0 {
		t.Errorf("%d dropped, times %v", n, times())
	}
	for _, at := range []string{"100", "-1", "50", "-7"} {
		in.Send("k", at)
	}
	d.Restart()
	in.Send("k", "-1")
	if got, want := times(), []int64{100, 100, 50, 100, 100}; !slices.Equal(got, want) {
		t.Errorf("times %v, want %v", got, want)
	}
	if n := len(d.Drops(processor.NoTime)); n != 1 {
		t.Errorf("%d dropped, want 1", n)
	}
}

// timing notes when its timer fires.
type timing struct {
	every time.Duration
	kind  processor.Clock
	fired *[]int64
}

func (p *timing) Init(ctx *processor.Context[string, string]) error {
	ctx.Every(p.every, p.kind, func(now time.Time) error {
		*p.fired = append(*p.fired, now.UnixMilli())
		return nil
	})
	return nil
}

func (p *timing) Process(*processor.Context[string, string], processor.Record[string, string]) error {
	return nil
}

func timed(t *testing.T, every time.Duration, kind processor.Clock) (*topologytest.Driver, *[]int64) {
	fired := new([]int64)
	return topologytest.New(t, build(t, func(b *topology.Builder) {
		b.Stream(words).Process("timing", func() *timing { return &timing{every, kind, fired} })
	}), epoch), fired
}

// P01: a timer of the wall clock fires an interval after it was made, and from then on once an interval.
func TestP01(t *testing.T) {
	d, fired := timed(t, ms(100), processor.WallTime)
	for _, step := range []int64{99, 1, 99, 1, 350, 49, 1} {
		d.Advance(millis(step))
	}
	if want := []int64{100, 200, 550, 600}; !slices.Equal(*fired, want) {
		t.Errorf("fired at %v, want %v", *fired, want)
	}
}

// P02: a timer of stream time that missed some of its times fires once, and is next due on the grid from 1970.
func TestP02(t *testing.T) {
	d, fired := timed(t, ms(10), processor.StreamTime)
	for _, at := range []int64{5, 35, 39, 40, 40, 49, 50} {
		d.Input(words).SendAt(time.UnixMilli(at), "k", "v")
	}
	if want := []int64{5, 35, 40, 50}; !slices.Equal(*fired, want) {
		t.Errorf("fired at %v, want %v", *fired, want)
	}
}

// deadlines keeps when each key is to go, and takes those out whose time has come, along with what lies around.
type deadlines struct {
	rows store.KeyValue[string, int64]
	seen *[]string
}

var deadlineRows = store.NewKeyValue("deadlines", serde.String(), serde.Int64(), few)

func (p *deadlines) Init(ctx *processor.Context[string, string]) error {
	p.rows = ctx.Store(deadlineRows)
	ctx.Every(time.Millisecond, processor.StreamTime, func(now time.Time) error {
		var seen []string
		for k, due := range p.rows.Range("a", "z") {
			seen = append(seen, k)
			if due <= now.UnixMilli() {
				p.rows.Delete(k)
				ctx.Forward(processor.Record[string, string]{Key: k, Value: "expired", Time: now})
			}
			if k == "k" {
				p.rows.Delete("l") // which is yet to come
				p.rows.Delete("b") // which was there
				p.rows.Put("m", 1000)
			}
		}
		*p.seen = append(*p.seen, fmt.Sprintf("%d %s", now.UnixMilli(), strings.Join(seen, "")))
		return nil
	})
	return nil
}

func (p *deadlines) Process(_ *processor.Context[string, string], r processor.Record[string, string]) error {
	p.rows.Put(r.Key, r.Time.UnixMilli()+10)
	return nil
}

// P03: a timer sees what the record in whose turn it fires has written. What it deletes and writes while it goes through a store is not seen in that loop, which sees the
// rows as they were when it began, each once.
func TestP03(t *testing.T) {
	var seen []string
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		b.Stream(words).Process("deadlines", func() *deadlines { return &deadlines{seen: &seen} }, deadlineRows).To(more)
	}), epoch, topologytest.ManualCommit())
	in := d.Input(words)
	for _, r := range []struct {
		at  int64
		key string
	}{{0, "k"}, {12, "k"}, {13, "b"}, {13, "l"}, {14, "c"}, {21, "z"}, {22, "z"}} {
		in.SendAt(time.UnixMilli(r.at), r.key, "v")
	}
	out := d.Output(more)
	got := out.Take()
	if len(got) != 1 || got[0].Key != "k" || got[0].Time.UnixMilli() != 22 {
		t.Errorf("expired: %v, want k at 22", got)
	}
	if want := []string{"0 k", "12 km", "13 bkm", "14 cklm", "21 ckmz", "22 ckmz"}; !slices.Equal(seen, want) {
		t.Errorf("the timer saw %q, want %q", seen, want)
	}
}

// O01: sums and counts have 64 bits, and a count that has no room for another record is an error.
func TestO01(t *testing.T) {
	numbers := topology.NewTopic("numbers", serde.String(), serde.Int32())
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		b.Stream(numbers).GroupByKey().Aggregate("sums", serde.Int64(), few, func(_ string, v int32, sum int64) int64 { return sum + int64(v) }).To(counts)
	}))
	in := d.Input(numbers)
	in.Send("k", 2147483647)
	in.Send("k", 1)
	d.Output(counts).Next("k", 2147483647)
	if got := d.Output(counts).Map()["k"]; got != 2147483648 {
		t.Errorf("the sum is %d, want 2147483648", got)
	}
	for _, c := range []struct{ before, after int64 }{{2147483647, 2147483648}, {1<<63 - 1, 0}} {
		w := run(t, func(b *topology.Builder) { b.Stream(words).GroupByKey().Count("c", few).To(counts) })
		value, err := serde.Int64().Encode(nil, c.before)
		if err == nil {
			err = w.tasks[0].Restore(0, []byte("k"), value, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		err = w.try("words", "k=v@1")
		if c.after == 0 {
			if err == nil || !strings.Contains(err.Error(), "9223372036854775807") {
				t.Errorf("a count too large: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		w.wants("counts", fmt.Sprintf("k=%d@1", c.after))
	}
}

// T5: two windows behind one source judge lateness by their own stream time and grace, as before after a restart or a crash: the one behind the filter has seen less.
func TestT5OwnStreamTimes(t *testing.T) {
	for name, lose := range map[string]func(*topologytest.Driver){"running": func(*topologytest.Driver) {}, "restart": (*topologytest.Driver).Restart, "crash": (*topologytest.Driver).Crash} {
		t.Run(name, func(t *testing.T) {
			strict, patient := window.Tumbling(millis(10)), window.Tumbling(millis(10)).Grace(millis(20))
			top := build(t, func(b *topology.Builder) {
				s := b.Stream(words)
				s.GroupByKey().Windowed(strict).Count("strict", topology.Named("strict")).To(topology.NewTopic("strict", window.KeySerde(serde.String(), strict), serde.Int64()))
				s.Filter(func(_, v string) bool { return v == "x" }).GroupByKey().Windowed(patient).Count("patient", topology.Named("patient")).
					To(topology.NewTopic("patient", window.KeySerde(serde.String(), patient), serde.Int64()))
			})
			d := topologytest.New(t, top, epoch, topologytest.ManualCommit())
			in := d.Input(words)
			send := func(at int64, value string) { in.SendAt(time.UnixMilli(at), "k", value) }
			send(5, "x")
			send(25, "x")
			send(200, "y") // moves the first window's time alone
			d.Commit()
			lose(d)
			send(9, "x")  // late for the first, of 200; in time for the second, of 25 with a grace of 20
			send(30, "x") // the second is at 30 now
			send(8, "x")  // late for both
			d.Commit()
			if got, want := inWindows(d.Records("strict"), false, 10), "k[0,10]=1@5 k[20,30]=1@25 k[200,210]=1@200"; got != want {
				t.Errorf("strict %s, want %s", got, want)
			}
			if got, want := inWindows(d.Records("patient"), false, 10), "k[0,10]=1@5 k[20,30]=1@25 k[0,10]=2@9 k[30,40]=1@30"; got != want {
				t.Errorf("patient %s, want %s", got, want)
			}
			late := map[string]int{}
			for _, x := range d.Drops(processor.Late) {
				late[x.Node]++
			}
			if diff := cmp.Diff(map[string]int{"strict": 3, "patient": 1}, late); diff != "" {
				t.Errorf("late (-want +got):\n%s", diff)
			}
		})
	}
}

// Every operator counts what it drops by reason, tells of it, and sends it on request to a topic, as it came, with the reason in its headers.
func TestDropsOfAllOperators(t *testing.T) {
	dead := topology.OnDrop(topology.DeadLetter("dead"), processor.Late, processor.Expired, processor.NullKey, processor.NullValue, processor.Duplicate)
	top := build(t, func(b *topology.Builder) {
		s := b.Stream(words)
		byKey := s.GroupByKey()
		byKey.Windowed(window.Tumbling(ms(10))).Count("tumbling", dead, topology.Named("tumbling"))
		byKey.Windowed(window.Hopping(ms(10), ms(5))).Count("hopping", dead, topology.Named("hopping"))
		byKey.Windowed(window.Sliding(ms(10))).Count("sliding", dead, topology.Named("sliding"))
		byKey.Sessions(window.Sessions(ms(10))).Count("sessions", dead, topology.Named("sessions"))
		byKey.Windowed(window.Tumbling(ms(10))).Count("suppressed", dead, topology.Named("suppressed")).Suppress("closed", topology.UntilWindowCloses())
		s.Deduplicate("dedup", ms(10), byValue, dead, topology.Named("dedup"))
		p := topology.First("a", func(v string) bool { return strings.HasPrefix(v, "v") }).Then("b", func(v string) bool { return v == "end" }).Within(ms(10)).MaxPartial(1)
		s.Sequence("sequence", p, func(string, topology.Match[string]) string { return "" }, dead, topology.Named("sequence"))
		byKey.Count("counted", store.TTL(ms(10)), dead, topology.Named("counted"))
	})
	d := topologytest.New(t, top, epoch)
	in := d.Input(words)
	in.SendAt(time.UnixMilli(100), "k", "v1")
	in.SendAt(time.UnixMilli(100), "k", "v1") // a duplicate, and a second partial match where one may be
	in.SendAt(time.UnixMilli(10), "l", "v2")  // late
	in.SendRecord(processor.Record[string, string]{NullKey: true, Value: "v3", Time: time.UnixMilli(100)})
	want := map[string]int{"dedup duplicate": 1, "sequence overflow": 1,
		"tumbling late": 1, "hopping late": 2, "sliding late": 1, "sessions late": 1, "suppressed late": 1, "dedup late": 1, "sequence late": 1}
	for _, n := range []string{"tumbling", "hopping", "sliding", "sessions", "suppressed", "dedup", "sequence", "counted"} {
		want[n+" null_key"] = 1
	}
	told := map[string]int{}
	for _, x := range d.Drops() {
		told[x.Node+" "+string(x.Reason)]++
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	// A record goes to the topic once for each node and reason. What a sequence gives up is no record any more.
	want["hopping late"] = 1
	delete(want, "sequence overflow")
	sent := map[string]int{}
	for _, r := range d.DeadLetters("dead") {
		node, _ := r.Headers.Get("kolk.node")
		why, _ := r.Headers.Get("kolk.reason")
		offset, _ := r.Headers.Get("__streams.errors.offset")
		sent[string(node)+" "+string(why)]++
		if wants := map[string]string{"v1": "1", "v2": "2", "v3": "3"}[string(r.Value)]; string(offset) != wants || (r.Key == nil) != (wants == "3") {
			t.Errorf("record %q=%q of offset %s, want %s", r.Key, r.Value, offset, wants)
		}
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// What a TTL removes is sent on as deletes, by expiry and then by key, the same with restarts, crashes and aborts between any two records: rows that come from the changelog expire too.
func TestExpiryIsReplayed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		top := build(t, func(b *topology.Builder) {
			rows := b.Table("rows", words, store.TTL(ms(80)))
			rows.To(more)
			rows.GroupBy(func(_, v string) (string, string) { return v, v }).Count("by-value", few).To(counts)
		})
		straight := topologytest.New(t, top, epoch)
		broken := topologytest.New(t, top, epoch, topologytest.ManualCommit())
		now := int64(0)
		for range rapid.IntRange(1, 20).Draw(rt, "records") {
			now += rapid.Int64Range(0, 60).Draw(rt, "gap")
			at := time.UnixMilli(max(0, now-rapid.SampledFrom([]int64{0, 0, 0, 30, 120}).Draw(rt, "disorder")))
			key, value := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key"), rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "value")
			straight.Input(words).SendAt(at, key, value)
			broken.Input(words).SendAt(at, key, value)
			switch rapid.IntRange(0, 6).Draw(rt, "then") {
			case 0:
				broken.Restart()
			case 1:
				broken.Crash()
			case 2:
				broken.Abort()
			case 3:
				broken.Commit()
			}
		}
		broken.Commit()
		for _, topic := range []string{"more", "counts"} {
			if got, want := lines(broken.Records(topic)), lines(straight.Records(topic)); got != want {
				rt.Fatalf("%s with failures\n%s, without\n%s", topic, got, want)
			}
		}
	})
}

// The order of deletes: by expiry, then by key, at the moment at which stream time passes the bucket.
func TestExpiryOrder(t *testing.T) {
	d := topologytest.New(t, build(t, func(b *topology.Builder) { b.Table("rows", words, store.TTL(ms(80))).To(more) }), epoch)
	in := d.Input(words)
	for _, r := range []struct {
		at  int64
		key string
	}{{3, "d"}, {1, "b"}, {3, "a"}, {1, "c"}} {
		in.SendAt(time.UnixMilli(r.at), r.key, "v")
	}
	d.Restart()
	d.Output(more).Take()
	in.SendAt(time.UnixMilli(89), "z", "v")
	if n := len(d.Records("more")); n != 5 {
		t.Errorf("%d records, want 5: the bucket has not passed", n)
	}
	in.SendAt(time.UnixMilli(90), "z", "v")
	if got, want := lines(d.Records("more")[5:]), "z=v@90 b=∅@90 c=∅@90 a=∅@90 d=∅@90"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func lines(raws []topologytest.Raw) string {
	var out []string
	for _, r := range raws {
		out = append(out, emitted{key: r.Key, value: r.Value, at: r.Time.UnixMilli()}.String())
	}
	return strings.Join(out, " ")
}
