package topology_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

// slidingModel is what sliding windows are, worked out the long way: it looks at all records each time. It knows of records for which all windows are open, and of
// such for which none is.
type slidingModel struct {
	d, grace int64
	taken    []windowEvent // that were not late
	now      int64
	sent     map[string]bool

	updates []string // each after the number of its record, in order of text
	finals  []windowRow
	late    int
}

// closed is the time before which windows may not end any more.
func (m *slidingModel) closed() int64 { return m.now - m.grace }

// starts are the windows of a key: one that ends with each record, and one that begins behind it if that holds any.
func (m *slidingModel) starts(key string) map[int64]bool {
	out := map[int64]bool{}
	for _, e := range m.taken {
		if e.key != key {
			continue
		}
		out[max(0, e.at-m.d)] = true
		if m.row(key, e.at+1).value != "" {
			out[e.at+1] = true
		}
	}
	return out
}

// row is what a window holds, in the order in which it came.
func (m *slidingModel) row(key string, start int64) windowRow {
	r := windowRow{key: key, start: start, end: start + m.d}
	for _, e := range m.taken {
		if e.key == key && start <= e.at && e.at <= r.end {
			r.value, r.at = r.value+e.value, max(r.at, e.at)
		}
	}
	return r
}

func (m *slidingModel) take(i int, e windowEvent) {
	m.now = max(m.now, e.at)
	var due []windowRow
	for _, key := range []string{"a", "b", "c"} {
		for start := range m.starts(key) {
			if r := m.row(key, start); r.end < m.closed() && !m.sent[fmt.Sprint(key, start)] {
				m.sent[fmt.Sprint(key, start)] = true
				due = append(due, r)
			}
		}
	}
	slices.SortFunc(due, func(a, b windowRow) int {
		return cmp.Or(cmp.Compare(a.start, b.start), strings.Compare(a.key, b.key))
	})
	m.finals = append(m.finals, due...)
	if e.at+m.d < m.closed() {
		m.late++
		return
	}
	was := m.starts(e.key)
	m.taken = append(m.taken, e)
	for start := range m.starts(e.key) {
		r := m.row(e.key, start)
		if start <= e.at && e.at <= r.end || !was[start] {
			m.updates = append(m.updates, fmt.Sprintf("%02d %v", i, r))
		}
	}
	slices.Sort(m.updates)
}

// grouped are updates, each after the number of its record, in order of text. A new window that begins behind one record and ends with
// another is made for both reasons, and may be sent twice, as by Kafka Streams: that counts once here.
func grouped(raws []topologytest.Raw, d int64) []string {
	out := []string{}
	for i, r := range raws {
		out = append(out, fmt.Sprintf("%02d %s", r.Input, inWindows(raws[i:i+1], false, d)))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sliding are windows of one size, and a topology with their updates and results.
type sliding struct {
	d, grace int64
	top      *topology.Topology
}

func slidings(t *testing.T) (out []sliding) {
	for _, s := range []sliding{{d: 8, grace: 6}, {d: 8}, {d: 5, grace: 30}, {d: 1, grace: 2}, {grace: 3}} {
		spec := window.Sliding(millis(s.d)).Grace(millis(s.grace))
		s.top = build(t, func(b *topology.Builder) {
			rows := b.Stream(words).GroupByKey().Windowed(spec).Reduce("sliding", concat, topology.Named("sliding"))
			rows.To(topology.NewTopic("sliding-updates", window.KeySerde(serde.String(), spec), serde.String()))
			rows.Final().To(topology.NewTopic("sliding-finals", window.KeySerde(serde.String(), spec), serde.String()))
		})
		out = append(out, s)
	}
	return out
}

// event draws a record, a step after the one before it or late.
func (s sliding) event(rt *rapid.T, i int, now *int64) windowEvent {
	*now += rapid.SampledFrom([]int64{0, 0, 1, 1, 2, 3, 5, 9, 40}).Draw(rt, "later")
	at := *now - rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 4, 7, 12, 30}).Draw(rt, "late")
	return windowEvent{rapid.SampledFrom([]string{"a", "a", "b", "c"}).Draw(rt, "key"), fmt.Sprintf("%d.", i), max(0, at)}
}

// alike compares what is left of the run with losses with the straight one, record by record.
func (p pair) alike(rt *rapid.T, topic string, d int64, events []windowEvent) {
	rt.Helper()
	want, got := strings.Fields(inWindows(p.straight.Records(topic), false, d)), strings.Fields(inWindows(p.lossy.Records(topic), false, d))
	if diff := gocmp.Diff(want, got); diff != "" {
		rt.Fatalf("%s of %v: straight (-), with losses (+):\n%s", topic, events, diff)
	}
}

// Sliding windows, out of order and with ties, whatever is lost in between: every update, every result and every drop is that of the model.
func TestSlidingAgainstModel(t *testing.T) {
	all := slidings(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(all).Draw(rt, "windows")
		m := slidingModel{d: s.d, grace: s.grace, now: -1, sent: map[string]bool{}}
		p := newPair(t, s.top)
		var events []windowEvent
		now := rapid.SampledFrom([]int64{0, 3, 100}).Draw(rt, "begin")
		for i := range rapid.IntRange(1, 40).Draw(rt, "records") {
			e := s.event(rt, i, &now)
			if closed := max(m.now, e.at) - s.grace; max(e.at, s.d) < closed && e.at+s.d >= closed {
				e.at = closed // some of its windows are open, and some are not: TestSlidingHalfLate
			}
			events = append(events, e)
			m.take(i, e)
			p.send(rt, words, e)
		}
		p.lossy.Commit()
		if diff := gocmp.Diff(append([]string{}, m.updates...), grouped(p.straight.Records("sliding-updates"), s.d)); diff != "" {
			rt.Fatalf("updates of %v with difference %d and grace %d: model (-), got (+):\n%s", events, s.d, s.grace, diff)
		}
		p.same(rt, "sliding-finals", false, s.d, m.finals, events)
		p.late(rt, "sliding", m.late)
		p.alike(rt, "sliding-updates", s.d, events)
		closedNeverChange(rt, events, p.straight, "sliding", false, s.d)
	})
}

// L02: a record of which some windows are closed and some are open is in the open ones that there are, and in what is made of them, which may begin behind it (see
// window.Sliding). Whatever it does, no window holds anything else from outside it or a record twice, all hold those that came when all was open, and none of
// their windows is missing.
func TestSlidingHalfLate(t *testing.T) {
	all := slidings(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(all).Draw(rt, "windows")
		p := newPair(t, s.top)
		var events []windowEvent
		var seen []string // what each record finds closed of its windows: nothing, some or all
		begin := rapid.SampledFrom([]int64{0, 3, 100}).Draw(rt, "begin")
		now := begin
		high := int64(-1)
		for i := range rapid.IntRange(1, 40).Draw(rt, "records") {
			e := s.event(rt, i, &now)
			events, high = append(events, e), max(high, e.at)
			switch closed := high - s.grace; {
			case e.at+s.d < closed:
				seen = append(seen, "all")
			case max(e.at, s.d) < closed:
				seen = append(seen, "some")
			default:
				seen = append(seen, "nothing")
			}
			p.send(rt, words, e)
		}
		p.lossy.Commit()
		p.alike(rt, "sliding-updates", s.d, events)
		p.alike(rt, "sliding-finals", s.d, events)
		closedNeverChange(rt, events, p.straight, "sliding", false, s.d)
		if x := p.straight.Drops(processor.Expired); len(x) > 0 {
			rt.Fatalf("%v with difference %d and grace %d: %d updates found no place", events, s.d, s.grace, len(x))
		}
		there := map[string]bool{}
		for _, r := range p.straight.Records("sliding-updates") {
			key, start := string(r.Key[:len(r.Key)-8]), number(r.Key[len(r.Key)-8:])
			there[fmt.Sprint(key, start)] = true
			holds := strings.Split(strings.TrimSuffix(string(r.Value), "."), ".")
			for i, e := range events[:r.Input+1] {
				n, in := 0, e.key == key && start <= e.at && e.at <= start+s.d
				for _, x := range holds {
					if x == fmt.Sprint(i) {
						n++
					}
				}
				behind := seen[i] == "some" && e.key == key && e.at < start
				if n > 1 || n == 1 && (!in && !behind || seen[i] == "all") || n == 0 && in && seen[i] == "nothing" {
					rt.Fatalf("%v with difference %d and grace %d: after record %d %s[%d,%d] is %s: it holds record %d %d times, which finds %s of its windows closed",
						events, s.d, s.grace, r.Input, key, start, start+s.d, r.Value, i, n, seen[i])
				}
			}
		}
		for i, e := range events {
			if seen[i] != "nothing" {
				continue
			}
			if start := max(0, e.at-s.d); !there[fmt.Sprint(e.key, start)] {
				rt.Fatalf("%v with difference %d and grace %d: record %d has no window [%d,%d]", events, s.d, s.grace, i, start, start+s.d)
			}
			for j, o := range events {
				if seen[j] == "nothing" && o.key == e.key && e.at < o.at && o.at <= e.at+1+s.d && !there[fmt.Sprint(e.key, e.at+1)] {
					rt.Fatalf("%v with difference %d and grace %d: records %d and %d have no window [%d,%d]", events, s.d, s.grace, i, j, e.at+1, e.at+1+s.d)
				}
			}
		}
	})
}
