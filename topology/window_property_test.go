package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

// shapes are windows of each kind.
var shapes = map[string]window.Spec{
	"tumbling": window.Tumbling(millis(10)).Grace(millis(5)),
	"hopping":  window.Hopping(millis(10), millis(4)).Grace(millis(3)),
	"sliding":  window.Sliding(millis(8)).Grace(millis(6)),
}

var inSessions = window.Sessions(millis(4)).Grace(millis(5)).MaxLength(millis(15))

// everyWindow writes the updates and results of every kind of windows to topics of their names.
func everyWindow(b *topology.Builder) {
	in := b.Stream(words)
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for n := range shapes {
			if !yield(n) {
				return
			}
		}
	}) {
		spec := shapes[name]
		t := in.GroupByKey().Windowed(spec).Reduce(name, concat, topology.Named(name))
		t.To(topology.NewTopic(name+"-updates", window.KeySerde(serde.String(), spec), serde.String()))
		t.Final().To(topology.NewTopic(name+"-finals", window.KeySerde(serde.String(), spec), serde.String()))
		t.Suppress(name+"-closed", topology.UntilWindowCloses()).To(topology.NewTopic(name+"-suppressed", window.KeySerde(serde.String(), spec), serde.String()))
		t.Throttle(name+"-slow", millis(7)).To(topology.NewTopic(name+"-throttled", window.KeySerde(serde.String(), spec), serde.String()))
	}
	t := in.GroupByKey().Sessions(inSessions).Reduce("session", concat)
	t.To(topology.NewTopic("session-updates", window.SessionKeySerde(serde.String()), serde.String()))
	t.Final().To(topology.NewTopic("session-finals", window.SessionKeySerde(serde.String()), serde.String()))
	t.Suppress("session-closed", topology.UntilWindowCloses()).To(topology.NewTopic("session-suppressed", window.SessionKeySerde(serde.String()), serde.String()))
}

// windowEvent is a record of a test.
type windowEvent struct {
	key, value string
	at         int64
}

// modelled is what windows of a fixed place in time give, worked out the long way.
func modelled(events []windowEvent, size, advance, grace int64) (updates, finals []string, late int) {
	type place struct {
		key   string
		start int64
	}
	type row struct {
		value string
		at    int64
	}
	rows := map[place]row{}
	sent := map[place]bool{}
	updates, finals = []string{}, []string{}
	now := int64(-1)
	for _, e := range events {
		now = max(now, e.at)
		var closed []place
		for p := range rows {
			if p.start+size <= now-grace && !sent[p] {
				closed = append(closed, p)
			}
		}
		slices.SortFunc(closed, func(a, b place) int {
			if a.start != b.start {
				return int(a.start - b.start)
			}
			return strings.Compare(a.key, b.key)
		})
		for _, p := range closed {
			sent[p] = true
			finals = append(finals, fmt.Sprintf("%s[%d,%d]=%s@%d", p.key, p.start, p.start+size, rows[p].value, rows[p].at))
		}
		for start := int64(0); start <= e.at; start += advance {
			if start+size <= e.at {
				continue
			}
			if start+size <= now-grace {
				late++
				continue
			}
			p := place{e.key, start}
			r := rows[p]
			rows[p] = row{r.value + e.value, max(r.at, e.at)}
			updates = append(updates, fmt.Sprintf("%s[%d,%d]=%s@%d", p.key, start, start+size, rows[p].value, rows[p].at))
		}
	}
	return updates, finals, late
}

// Whatever is lost between the records, outputs are those of one straight run; those of a straight run are those of a model, and no closed window
// changes.
func TestWindowsAgainstModel(t *testing.T) {
	top := build(t, everyWindow)
	rapid.Check(t, func(rt *rapid.T) {
		straight := topologytest.New(t, top, epoch)
		lossy := topologytest.New(t, top, epoch, topologytest.ManualCommit())
		var events []windowEvent
		now := int64(0)
		for i := range rapid.IntRange(1, 40).Draw(rt, "records") {
			now += rapid.SampledFrom([]int64{0, 0, 1, 2, 3, 5, 9, 40, 200}).Draw(rt, "later")
			e := windowEvent{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key"), fmt.Sprintf("%d.", i), now - rapid.SampledFrom([]int64{0, 0, 0, 1, 4, 7, 12, 30}).Draw(rt, "late")}
			e.at = max(e.at, 0)
			events = append(events, e)
			for _, d := range []*topologytest.Driver{straight, lossy} {
				d.Input(words).SendAt(time.UnixMilli(e.at), e.key, e.value)
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
		for name, size := range map[string]int64{"tumbling": 10, "hopping": 10, "sliding": 8, "session": 0} {
			session := name == "session"
			for _, topic := range []string{name + "-updates", name + "-finals", name + "-suppressed", name + "-throttled"} {
				want, got := strings.Fields(inWindows(straight.Records(topic), session, size)), strings.Fields(inWindows(lossy.Records(topic), session, size))
				if d := cmp.Diff(want, got); d != "" {
					rt.Fatalf("%s of %v: straight (-), with losses (+):\n%s", topic, events, d)
				}
			}
			updates, finals := strings.Fields(inWindows(straight.Records(name+"-updates"), session, size)), strings.Fields(inWindows(straight.Records(name+"-finals"), session, size))
			closedNeverChange(rt, events, straight, name, session, size)
			if advance := map[string]int64{"tumbling": 10, "hopping": 4}[name]; advance > 0 {
				grace := map[string]int64{"tumbling": 5, "hopping": 3}[name]
				wantUpdates, wantFinals, wantLate := modelled(events, size, advance, grace)
				if d := cmp.Diff(wantUpdates, updates); d != "" {
					rt.Fatalf("%s updates of %v: model (-), got (+):\n%s", name, events, d)
				}
				late := 0
				for _, x := range straight.Drops(processor.Late) {
					if x.Node == name {
						late++
					}
				}
				if late != wantLate {
					rt.Fatalf("%s of %v: %d records late, want %d", name, events, late, wantLate)
				}
				if d := cmp.Diff(wantFinals, finals); d != "" {
					rt.Fatalf("%s results of %v: model (-), got (+):\n%s", name, events, d)
				}
			}
		}
	})
}

// closedNeverChange checks that each window has one result, the last of its updates, and none after it. What suppress lets go is the same.
func closedNeverChange(rt *rapid.T, events []windowEvent, d *topologytest.Driver, name string, session bool, size int64) {
	last, closed := map[string]string{}, map[string]string{}
	updates, finals := d.Records(name+"-updates"), d.Records(name+"-finals")
	for len(updates) > 0 || len(finals) > 0 {
		// Results come before the updates of the record that closed their windows.
		if len(finals) > 0 && (len(updates) == 0 || finals[0].Input <= updates[0].Input) {
			key, value, _ := strings.Cut(inWindows(finals[:1], session, size), "=")
			if closed[key] != "" || last[key] != value {
				rt.Fatalf("%s of %v: the result of %s is %s; before it was %q, and the last update is %q", name, events, key, value, closed[key], last[key])
			}
			closed[key] = value
			finals = finals[1:]
			continue
		}
		key, value, _ := strings.Cut(inWindows(updates[:1], session, size), "=")
		if closed[key] != "" {
			rt.Fatalf("%s of %v: %s was closed with %s and becomes %s", name, events, key, closed[key], value)
		}
		last[key] = value
		updates = updates[1:]
	}
	suppressed := map[string]bool{}
	for _, x := range strings.Fields(inWindows(d.Records(name+"-suppressed"), session, size)) {
		key, value, _ := strings.Cut(x, "=")
		if suppressed[key] || closed[key] != value {
			rt.Fatalf("%s of %v: suppress let go %s, the result is %q", name, events, x, closed[key])
		}
		suppressed[key] = true
	}
}

// Within the grace, the windows and sessions that there are do not depend on the order of the records.
func TestWindowsOfAnyOrder(t *testing.T) {
	spec, runs := window.Sliding(millis(10)).Grace(millis(1000)), window.Sessions(millis(6)).Grace(millis(1000))
	top := build(t, func(b *topology.Builder) {
		in := b.Stream(words)
		in.GroupByKey().Windowed(spec).Reduce("sliding", concat).To(topology.NewTopic("sliding", window.KeySerde(serde.String(), spec), serde.String()))
		in.GroupByKey().Sessions(runs).Reduce("session", concat).To(topology.NewTopic("session", window.SessionKeySerde(serde.String()), serde.String()))
	})
	rapid.Check(t, func(rt *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(0, 60), 1, 12).Draw(rt, "times")
		d := topologytest.New(t, top, epoch)
		for i, at := range times {
			d.Input(words).SendAt(time.UnixMilli(at), "k", string(rune('a'+i)))
		}
		want := map[string]string{}
		put := func(start, end int64) {
			in := ""
			for i, at := range times {
				if start <= at && at <= end {
					in += string(rune('a' + i))
				}
			}
			if in != "" {
				want[fmt.Sprintf("k[%d,%d]", start, end)] = in
			}
		}
		for _, at := range times {
			put(max(at-10, 0), max(at, 10))
			put(at+1, at+11)
		}
		if got := lastOf(d.Records("sliding"), false, 10); !cmp.Equal(want, got) {
			rt.Fatalf("sliding windows of %v: want (-), got (+)\n%s", times, cmp.Diff(want, got))
		}
		clear(want)
		sorted := slices.Sorted(slices.Values(times))
		start := sorted[0]
		for i, at := range sorted {
			if i+1 == len(sorted) || sorted[i+1]-at > 6 {
				put(start, at)
				if i+1 < len(sorted) {
					start = sorted[i+1]
				}
			}
		}
		if got := lastOf(d.Records("session"), true, 0); !cmp.Equal(want, got) {
			rt.Fatalf("sessions of %v: want (-), got (+)\n%s", times, cmp.Diff(want, got))
		}
	})
}

// lastOf is the last value of each window, its letters sorted, without deleted ones.
func lastOf(raws []topologytest.Raw, session bool, size int64) map[string]string {
	out := map[string]string{}
	for _, x := range strings.Fields(inWindows(raws, session, size)) {
		key, value, _ := strings.Cut(x, "=")
		value, _, _ = strings.Cut(value, "@")
		if value == null {
			delete(out, key)
			continue
		}
		letters := strings.Split(value, "")
		slices.Sort(letters)
		out[key] = strings.Join(letters, "")
	}
	return out
}
