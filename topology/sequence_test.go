package topology_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

var matches = topology.NewTopic("matches", serde.String(), serde.String())

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// seeking is the topology of one pattern.
func seeking(b *topology.Builder, p spec) {
	b.Stream(words).Sequence("seek", p.pattern(), func(_ string, m topology.Match[string]) string {
		first, last := m.Times()
		return p.show(lookup(m), first.UnixMilli(), last.UnixMilli())
	}).To(matches)
}

func sendEvent(d *topologytest.Driver, e event) {
	d.Input(words).SendAt(time.UnixMilli(e.at), e.key, e.value)
}

// parseEvents reads "k:ab@3 k:b@7".
func parseEvents(t *testing.T, text string) (out []event) {
	t.Helper()
	for _, f := range strings.Fields(text) {
		e := event{}
		head, at, _ := strings.Cut(f, "@")
		e.key, e.value, _ = strings.Cut(head, ":")
		if _, err := fmt.Sscan(at, &e.at); err != nil {
			t.Fatalf("record %q: %v", f, err)
		}
		out = append(out, e)
	}
	return out
}

// matched is what was sent from a partition on.
func matched(d *topologytest.Driver, partition int32) (out []event) {
	for _, r := range d.Records("matches") {
		if r.Partition == partition {
			out = append(out, event{string(r.Key), string(r.Value), r.Time.UnixMilli()})
		}
	}
	return out
}

// Each story of testdata/sequence.txt, by the operator and by the naive matcher.
func TestSequenceStories(t *testing.T) {
	text, err := os.ReadFile("testdata/sequence.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for story := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		var p spec
		for line := range strings.Lines(story) {
			line = strings.TrimSpace(line)
			verb, arg, _ := strings.Cut(line, " ")
			switch verb {
			case "pattern":
				if p, err = parseSpec(arg); err != nil {
					t.Fatal(err)
				}
			case "in":
				n := newNaive(p)
				d := topologytest.New(t, build(t, func(b *topology.Builder) { seeking(b, p) }))
				for _, e := range parseEvents(t, arg) {
					n.record(e)
					sendEvent(d, e)
				}
				got := matched(d, 0)
				if diff := cmp.Diff(n.out, got, cmp.AllowUnexported(event{})); diff != "" {
					t.Errorf("%s\nnaive (-), operator (+):\n%s", story, diff)
				}
				line += "\n"
				for _, e := range got {
					line += fmt.Sprintf("out %s@%d: %s\n", e.key, e.at, e.value)
				}
				if n := len(d.Drops("late")); n > 0 {
					line += fmt.Sprintf("late %d\n", n)
				}
				if n := len(d.Drops("overflow")); n > 0 {
					line += fmt.Sprintf("overflow %d\n", n)
				}
				line = strings.TrimSpace(line)
			case "out", "late", "overflow":
				continue
			}
			out.WriteString(line + "\n")
		}
	}
	golden(t, "sequence.txt", out.String())
}

// drawSpec makes any pattern that Build takes.
func drawSpec(t *rapid.T) (p spec) {
	letters := rapid.SampledFrom([]string{"a", "b", "c"})
	rarely := func(what string, n int) bool { return rapid.IntRange(1, n).Draw(t, what) == 1 }
	for i := range rapid.IntRange(1, 4).Draw(t, "steps") {
		if i > 0 && rarely("not", 3) {
			p.steps = append(p.steps, specStep{name: letters.Draw(t, "letter") + fmt.Sprint("not", i), not: true, times: 1, where: rarely("where", 4)})
		}
		s := specStep{name: letters.Draw(t, "letter") + fmt.Sprint(i), times: 1, where: rarely("where", 5)}
		s.strict = i > 0 && !p.steps[len(p.steps)-1].not && rarely("strict", 3)
		s.optional = i > 0 && rarely("optional", 4)
		if s.repeats = rarely("repeats", 3); s.repeats {
			s.times = rapid.IntRange(1, 3).Draw(t, "times")
		}
		p.steps = append(p.steps, s)
	}
	p.steps[len(p.steps)-1].optional = false
	if rarely("not at the end", 2) {
		p.steps = append(p.steps, specStep{name: letters.Draw(t, "letter") + "end", not: true, times: 1, where: rarely("where", 4)})
	}
	p.within = rapid.Int64Range(1, 30).Draw(t, "within")
	p.overlap = rapid.Bool().Draw(t, "overlap")
	p.most = rapid.SampledFrom([]int{100, 100, 3, 2, 1}).Draw(t, "most")
	return p
}

// Whatever the pattern and the stream, and whatever is lost between the records, the operator finds what the naive matcher finds.
func TestSequenceIsNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawSpec(rt)
		if again, err := parseSpec(p.String()); err != nil || again.String() != p.String() {
			rt.Fatalf("pattern %q is read as %q, %v", p, again, err)
		}
		rt.Logf("pattern %s", p)
		top := build(t, func(b *topology.Builder) { seeking(b, p) })
		const partitions = 2
		var want [partitions]*naive
		for i := range want {
			want[i] = newNaive(p)
		}
		straight := topologytest.New(t, top, topologytest.Partitions(partitions))
		lossy := topologytest.New(t, top, topologytest.Partitions(partitions), topologytest.ManualCommit())
		now := int64(40)
		for range rapid.IntRange(1, 40).Draw(rt, "records") {
			now += rapid.SampledFrom([]int64{0, 0, 1, 1, 2, 3, 5, 9, 40}).Draw(rt, "later")
			e := event{
				key:   rapid.SampledFrom([]string{"k", "k", "l", "m", ""}).Draw(rt, "key"),
				value: rapid.SampledFrom([]string{"a", "b", "c", "ab", "bc", "ac", "abc", "x"}).Draw(rt, "value") + rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(rt, "digit"),
				at:    max(0, now-rapid.SampledFrom([]int64{0, 0, 0, 0, 1, 2, 5, 15, 40}).Draw(rt, "behind")),
			}
			rt.Logf("record %s", e)
			want[engine.Partition([]byte(e.key), partitions)].record(e)
			sendEvent(straight, e)
			sendEvent(lossy, e)
			switch rapid.IntRange(0, 9).Draw(rt, "then") {
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
		late, overflow := 0, 0
		for i, n := range want {
			late, overflow = late+n.late, overflow+n.overflow
			if d := cmp.Diff(n.out, matched(straight, int32(i)), cmp.AllowUnexported(event{})); d != "" {
				rt.Fatalf("partition %d: naive (-), operator (+):\n%s", i, d)
			}
			if d := cmp.Diff(n.out, matched(lossy, int32(i)), cmp.AllowUnexported(event{})); d != "" {
				rt.Fatalf("partition %d: naive (-), operator with losses (+):\n%s", i, d)
			}
		}
		if a, b := len(straight.Drops("late")), len(straight.Drops("overflow")); a != late || b != overflow {
			rt.Fatalf("%d late and %d overflows, want %d and %d", a, b, late, overflow)
		}
		// Both end with the same rows, and when all time is over there are none.
		if d := cmp.Diff(liveRows(straight), liveRows(lossy)); d != "" {
			rt.Fatalf("rows of straight (-), with losses (+):\n%s", d)
		}
		for key := range want { // a key of each partition
			for _, k := range []string{"k", "l", "m", "", "n", "o"} {
				if engine.Partition([]byte(k), partitions) == int32(key) {
					sendEvent(straight, event{k, "x", now + 1000})
					break
				}
			}
		}
		if rows := liveRows(straight); len(rows) > 0 {
			rt.Fatalf("rows after all time is over: %q", slices.Collect(maps.Keys(rows)))
		}
	})
}

// liveRows is what the changelog keeps when it is compacted.
func liveRows(d *topologytest.Driver) map[string]string {
	live := make(map[string]string)
	for _, r := range d.Changelog("seek") {
		key := fmt.Sprintf("%d %x", r.Partition, r.Key)
		if delete(live, key); r.Value != nil {
			live[key] = fmt.Sprintf("%x", r.Value)
		}
	}
	return live
}

// What two keys have in common is only stream time, which the node keeps for itself: records that do not reach it do not move it.
func TestSequenceStreamTime(t *testing.T) {
	p, err := parseSpec("first a; not b; within 10")
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, build(t, func(b *topology.Builder) {
		in := b.Stream(words)
		in.FilterValues(func(v string) bool { return v != "hidden" }).Sequence("seek", p.pattern(), func(_ string, m topology.Match[string]) string { return m.At("a") }).To(matches)
	}), topologytest.ManualCommit())
	for _, e := range parseEvents(t, "k:a1@0 k:hidden@100 k:b@3 l:a2@5") {
		sendEvent(d, e)
	}
	if got := matched(d, 0); len(got) > 0 {
		t.Errorf("%v though the node has seen no record after 5", got)
	}
	d.Restart()
	for _, e := range parseEvents(t, "m:x@15 m:x@16") {
		if got := matched(d, 0); len(got) > 0 {
			t.Errorf("%v before %v", got, e)
		}
		sendEvent(d, e)
	}
	if got := fmt.Sprint(matched(d, 0)); got != "[l:a2@15]" {
		t.Errorf("matches %s", got)
	}
}

func TestSequenceOfRekeyedStream(t *testing.T) {
	p, err := parseSpec("first a; then b; within 10")
	if err != nil {
		t.Fatal(err)
	}
	top := build(t, func(b *topology.Builder) {
		b.Stream(words).SelectKey(func(k, _ string) string { return (k + " ")[:1] }).
			Sequence("seek", p.pattern(), func(k string, m topology.Match[string]) string { return k + m.At("a") + m.At("b") + m.At("?") }, topology.Named("seeker"), store.Version(2)).To(matches)
	})
	if text := top.Describe(); !strings.Contains(text, "seek-v2-repartition") || !strings.Contains(text, "Processor: seeker (stores: [seek])") {
		t.Error(text)
	}
	d := topologytest.New(t, top, topologytest.Partitions(3))
	for _, e := range parseEvents(t, "k1:a1@0 k2:b2@3") {
		sendEvent(d, e)
	}
	d.Output(matches).Next("k", "ka1b2")
}

// A function that fails leaves the partial matches as they were.
func TestSequenceFailure(t *testing.T) {
	fail := errors.New("no")
	check := func(name, letter string) func(string) bool {
		return func(v string) bool {
			if v == "!"+name {
				panic(fail)
			}
			return strings.Contains(v, letter)
		}
	}
	declare := func(b *topology.Builder) {
		b.Stream(words).Sequence("seek", topology.First("a", check("a", "a")).Then("b", check("b", "b")).Within(ms(10)), func(_ string, m topology.Match[string]) string {
			if m.At("b") == "bad" {
				panic(fail)
			}
			return m.At("a") + m.At("b")
		}).To(matches)
	}
	w := run(t, declare)
	if err := w.try("words", "k=!a@0"); !errors.Is(err, fail) || !strings.Contains(err.Error(), "KSTREAM-SEQUENCE-") {
		t.Errorf("error %v", err)
	}
	w = run(t, declare, func(w *world) { w.env.OnProcess = engine.Policy{Kind: engine.Skip} })
	w.send("words", "k=a@0", "k=!a@1", "k=!b@2", "k=bad@3")
	w.wants("matches", "")
	w.send("words", "k=b@4", "k=b@5")
	w.wants("matches", "k=ab@4")
	w.send("words", null+"=a@6")
	w.dropped("KSTREAM-SEQUENCE-0000000001 skipped", "KSTREAM-SEQUENCE-0000000001 skipped", "KSTREAM-SEQUENCE-0000000001 skipped", "KSTREAM-SEQUENCE-0000000001 null_key")
}

func TestSequenceFaults(t *testing.T) {
	is := func(string) bool { return true }
	first := topology.First("a", is)
	for _, c := range []struct {
		name string
		p    topology.Pattern[string]
		want string
	}{
		{"no Within", first, "the pattern has no Within"},
		{"Within negative", first.Within(-time.Second), "within -1s"},
		{"Within too short", first.Within(time.Microsecond), "within 1µs"},
		{"no step", topology.Pattern[string]{}.Within(time.Second), "no steps"},
		{"a modifier without a step", topology.Pattern[string]{}.Times(2).Within(time.Second), "Times(2) comes before any step"},
		{"optional first", first.Optional().Then("b", is).Within(time.Second), `first step "a" is optional`},
		{"optional last", first.Then("b", is).Optional().Within(time.Second), `last step "b" is optional`},
		{"optional last before a ThenNot", first.Then("b", is).Optional().ThenNot("c", is).Within(time.Second), `last step "b" is optional`},
		{"no times", first.Times(0).Within(time.Second), `step "a" is wanted 0 times`},
		{"two of one name", first.Then("a", is).Within(time.Second), `two steps are named "a"`},
		{"a bad name", first.Then("a b", is).Within(time.Second), `"a b" has an illegal character`},
		{"no name", first.Then("", is).Within(time.Second), "the name is empty"},
		{"ThenNot first", topology.Pattern[string]{}.ThenNot("a", is).Within(time.Second), `begins with the ThenNot "a"`},
		{"ThenNot twice", first.ThenNot("b", is).ThenNot("c", is).Within(time.Second), `ThenNot "c" follows another`},
		{"ThenNot before Next", first.ThenNot("b", is).Next("c", is).Within(time.Second), `ThenNot "b" before the Next "c"`},
		{"ThenNot with Times", first.ThenNot("b", is).Times(2).Within(time.Second), `ThenNot "b" has Times`},
		{"ThenNot optional", first.ThenNot("b", is).Optional().Within(time.Second), `ThenNot "b" is optional`},
		{"MaxPartial", first.MaxPartial(0).Within(time.Second), "MaxPartial(0)"},
		{"nil function", first.Then("b", nil).Within(time.Second), `step "b" has no function`},
		{"nil Where", first.Where(nil).Within(time.Second), "Where has no function"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := topology.New()
			b.Stream(words).Sequence("seek", c.p, func(string, topology.Match[string]) string { return "" })
			faultOf(t, b, c.want)
		})
	}
	good := first.Within(time.Second)
	b := topology.New()
	b.Stream(words).MapValues(toShop).Sequence("seek", topology.First("s", func(shop) bool { return true }).Within(time.Second), func(string, topology.Match[shop]) string { return "" })
	faultOf(t, b, "no serde is known for its value")
	b = topology.New()
	b.Stream(words).Sequence[string]("seek", good, nil)
	faultOf(t, b, "the function is nil")
	b = topology.New()
	b.Stream(words).Sequence("bad name", good, func(string, topology.Match[string]) string { return "" })
	faultOf(t, b, "illegal character")
	b = topology.New()
	b.Stream(words).Sequence("seek", good, func(string, topology.Match[string]) string { return "" }, topology.OnDrop(topology.Stop, "overflow"))
	faultOf(t, b, "OnDrop does not apply to overflow")
	b = topology.New()
	b.Stream(words).Sequence("counts", good, func(string, topology.Match[string]) string { return "" })
	b.Stream(words).GroupByKey().Count("counts", few)
	faultOf(t, b, "two stores have this name")
	if got := (topology.Stream[string, string]{}).Sequence("seek", good, func(string, topology.Match[string]) string { return "" }); got != (topology.Stream[string, string]{}) {
		t.Error("a zero stream leads somewhere")
	}
}

// faultOf fails the test unless Build finds exactly one fault, with this text.
func faultOf(t *testing.T, b *topology.Builder, want string) {
	t.Helper()
	_, err := b.Build()
	var faults topology.Faults
	if !errors.As(err, &faults) || len(faults) != 1 || !strings.Contains(err.Error(), want) {
		t.Errorf("fault %v, want %q", err, want)
	}
}

// Patterns are values: what is made longer leaves the shorter one as it was.
func TestPatternsAreCopies(t *testing.T) {
	is := func(letter string) func(string) bool {
		return func(v string) bool { return strings.Contains(v, letter) }
	}
	start := topology.First("a", is("a")).Then("b", is("b"))
	one, two := start.Then("c", is("c")).Within(ms(10)), start.Times(2).Then("d", is("d")).Within(ms(10))
	w := run(t, func(b *topology.Builder) {
		show := func(k string, m topology.Match[string]) string {
			return fmt.Sprintf("%s%t%t", k, m.Has("c"), m.Has("d"))
		}
		b.Stream(words).Sequence("one", one, show).To(matches)
		b.Stream(words).Sequence("two", two, show).To(matches)
	})
	w.send("words", "k=a@0", "k=b@1", "k=d@2", "k=b@3", "k=c@4", "k=d@5")
	w.wants("matches", "k=ktruefalse@4 k=kfalsetrue@5")
}
