package topology_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

// windowRow is a row of a table of windows as it was sent: a value, or a delete.
type windowRow struct {
	key        string
	start, end int64
	value      string
	at         int64
}

func (u windowRow) String() string {
	return fmt.Sprintf("%s[%d,%d]=%s@%d", u.key, u.start, u.end, u.value, u.at)
}

func listed(us []windowRow) []string {
	out := []string{}
	for _, u := range us {
		out = append(out, u.String())
	}
	return out
}

// fixedModel is what windows give of which each time is in exactly one, worked out the long way. The end of a window does not belong to it.
func fixedModel(events []windowEvent, of func(at int64) (start, end int64), grace int64) (updates, finals []windowRow, late int) {
	var rows []windowRow
	now, sent := int64(-1), map[string]bool{}
	for _, e := range events {
		now = max(now, e.at)
		var closed []windowRow
		for _, r := range rows {
			if r.end <= now-grace && !sent[fmt.Sprint(r.key, r.start)] {
				closed = append(closed, r)
				sent[fmt.Sprint(r.key, r.start)] = true
			}
		}
		slices.SortFunc(closed, func(a, b windowRow) int {
			return cmp.Or(cmp.Compare(a.start, b.start), strings.Compare(a.key, b.key))
		})
		finals = append(finals, closed...)
		start, end := of(e.at)
		if end <= now-grace {
			late++
			continue
		}
		i := slices.IndexFunc(rows, func(r windowRow) bool { return r.key == e.key && r.start == start })
		if i < 0 {
			i, rows = len(rows), append(rows, windowRow{key: e.key, start: start, end: end})
		}
		rows[i].value, rows[i].at = rows[i].value+e.value, max(rows[i].at, e.at)
		updates = append(updates, rows[i])
	}
	return updates, finals, late
}

// sessionModel is what sessions give. A limit of 0 is none.
func sessionModel(events []windowEvent, gap, grace, limit int64) (updates, finals []windowRow, late int) {
	var rows []windowRow
	now := int64(-1)
	sent := map[windowRow]bool{}
	for _, e := range events {
		now = max(now, e.at)
		closed := now - grace - gap
		slices.SortFunc(rows, func(a, b windowRow) int {
			return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start), strings.Compare(a.key, b.key))
		})
		for _, r := range rows {
			if r.end < closed && !sent[r] {
				sent[r], finals = true, append(finals, r)
			}
		}
		one := windowRow{key: e.key, start: e.at, end: e.at}
		var near, merged []windowRow
		for _, r := range rows {
			if r.key == e.key && r.end >= closed && r.end >= e.at-gap && r.start <= e.at+gap {
				near = append(near, r)
			}
		}
		// What the record lies in comes first, then the others from the earliest on, as long as they do not become too long together.
		slices.SortStableFunc(near, func(a, b windowRow) int {
			lies := func(r windowRow) int {
				if r.start <= e.at && e.at <= r.end {
					return 0
				}
				return 1
			}
			return cmp.Compare(lies(a), lies(b))
		})
		for i, r := range near {
			start, end := min(one.start, r.start), max(one.end, r.end)
			if limit == 0 || end-start <= limit || i == 0 && start == r.start && end == r.end {
				one.start, one.end, merged = start, end, append(merged, r)
			}
		}
		if one.end < closed {
			late++
			continue
		}
		slices.SortFunc(merged, func(a, b windowRow) int { return cmp.Compare(a.end, b.end) })
		for _, r := range merged {
			one.value += r.value
			if one.start != one.end { // one instant keeps its row
				updates = append(updates, windowRow{r.key, r.start, r.end, null, r.end})
			}
		}
		one.value, one.at = one.value+e.value, one.end
		rows = append(slices.DeleteFunc(rows, func(r windowRow) bool { return slices.Contains(merged, r) }), one)
		updates = append(updates, one)
	}
	return updates, finals, late
}

// heldModel is what Throttle and Suppress with a time limit let through: of each row the last update, once time is wait past the first one that was held.
func heldModel(updates []windowRow, wait int64) (out []windowRow) {
	type held struct {
		windowRow
		since int64
	}
	var rows []held
	now := int64(-1)
	for _, u := range updates {
		now = max(now, u.at)
		i := slices.IndexFunc(rows, func(h held) bool { return h.key == u.key && h.start == u.start })
		if i < 0 {
			i, rows = len(rows), append(rows, held{since: u.at})
		}
		rows[i].windowRow = u
		slices.SortFunc(rows, func(a, b held) int {
			return cmp.Or(cmp.Compare(a.since, b.since), strings.Compare(a.key, b.key), cmp.Compare(a.start, b.start))
		})
		for len(rows) > 0 && rows[0].since+wait <= now {
			out, rows = append(out, rows[0].windowRow), rows[1:]
		}
	}
	return out
}

// pair is a driver that loses nothing, and one that loses what it can lose.
type pair struct{ straight, lossy *topologytest.Driver }

func newPair(t *testing.T, top *topology.Topology) pair {
	return pair{topologytest.New(t, top, epoch), topologytest.New(t, top, epoch, topologytest.ManualCommit())}
}

func (p pair) send(rt *rapid.T, topic topology.Topic[string, string], e windowEvent) {
	for _, d := range []*topologytest.Driver{p.straight, p.lossy} {
		d.Input(topic).SendAt(time.UnixMilli(e.at), e.key, e.value)
	}
	switch rapid.IntRange(0, 7).Draw(rt, "then") {
	case 0, 1:
		p.lossy.Commit()
	case 2:
		p.lossy.Abort()
	case 3:
		p.lossy.Crash()
	case 4:
		p.lossy.Restart()
	}
}

// same compares what was written to a topic with what was expected.
func (p pair) same(rt *rapid.T, topic string, session bool, size int64, want []windowRow, events []windowEvent) {
	rt.Helper()
	for name, d := range map[string]*topologytest.Driver{"straight": p.straight, "with losses": p.lossy} {
		got := append([]string{}, strings.Fields(inWindows(d.Records(topic), session, size))...)
		if diff := gocmp.Diff(listed(want), got); diff != "" {
			rt.Fatalf("%s of %v: model (-), %s (+):\n%s", topic, events, name, diff)
		}
	}
}

func (p pair) late(rt *rapid.T, node string, want int) {
	rt.Helper()
	got := 0
	for _, x := range p.straight.Drops(processor.Late) {
		if x.Node == node {
			got++
		}
	}
	if got != want {
		rt.Fatalf("%s: %d records late, want %d", node, got, want)
	}
}

// Calendar days with 23, 24 and 25 hours, out of order, whatever is lost in between.
func TestDaysAgainstModel(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const grace = 3 * 3_600_000
	days := window.Daily(berlin).Grace(millis(grace))
	top := build(t, func(b *topology.Builder) {
		rows := b.Stream(words).GroupByKey().Windowed(days).Reduce("days", concat, topology.Named("days"))
		rows.To(topology.NewTopic("updates", window.KeySerde(serde.String(), days), serde.String()))
		rows.Final().To(topology.NewTopic("finals", window.KeySerde(serde.String(), days), serde.String()))
	})
	of := func(at int64) (start, end int64) {
		y, m, d := time.UnixMilli(at).In(berlin).Date()
		return time.Date(y, m, d, 0, 0, 0, 0, berlin).UnixMilli(), time.Date(y, m, d+1, 0, 0, 0, 0, berlin).UnixMilli()
	}
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(t, top)
		now := rapid.SampledFrom([]time.Time{time.Date(2024, 3, 29, 20, 0, 0, 0, berlin), time.Date(2024, 10, 25, 20, 0, 0, 0, berlin), time.Date(2023, 12, 30, 23, 0, 0, 0, berlin)}).Draw(rt, "begin").UnixMilli()
		var events []windowEvent
		for i := range rapid.IntRange(1, 30).Draw(rt, "records") {
			now += rapid.SampledFrom([]int64{0, 1, 60_000, 3_600_000, 7_200_000, 5 * 3_600_000, 30 * 3_600_000}).Draw(rt, "later")
			e := windowEvent{rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key"), fmt.Sprintf("%d.", i),
				now - rapid.SampledFrom([]int64{0, 0, 0, 1, 3_600_000, grace, 2 * grace, 25 * 3_600_000}).Draw(rt, "late")}
			events = append(events, e)
			p.send(rt, words, e)
		}
		p.lossy.Commit()
		updates, finals, late := fixedModel(events, of, grace)
		for _, us := range [][]windowRow{updates, finals} {
			for i := range us {
				us[i].end = us[i].start // the end is not in the key
			}
		}
		p.same(rt, "updates", false, 0, updates, events)
		p.same(rt, "finals", false, 0, finals, events)
		p.late(rt, "days", late)
	})
}

// Sessions with and without a greatest length, their updates and results, cogroups in windows and sessions, and updates that are held back for a time.
func TestSessionsCogroupsAndHeldBackAgainstModel(t *testing.T) {
	const size, grace, gap, limit, wait = 10, 5, 4, 9, 7
	spec, runs := window.Tumbling(millis(size)).Grace(millis(grace)), window.Sessions(millis(gap)).Grace(millis(grace))
	timed := func(name string) topology.Topic[window.Key[string], string] {
		return topology.NewTopic(name, window.KeySerde(serde.String(), spec), serde.String())
	}
	inRuns := func(name string) topology.Topic[window.Key[string], string] {
		return topology.NewTopic(name, window.SessionKeySerde(serde.String()), serde.String())
	}
	top := build(t, func(b *topology.Builder) {
		in, other := b.Stream(words).GroupByKey(), b.Stream(more).GroupByKey()
		sessions := in.Sessions(runs).Reduce("sessions", concat, topology.Named("sessions"))
		sessions.To(inRuns("sessions-out"))
		sessions.Final().To(inRuns("sessions-results"))
		short := in.Sessions(runs.MaxLength(millis(limit))).Reduce("short", concat, topology.Named("short"))
		short.To(inRuns("short-out"))
		short.Final().To(inRuns("short-results"))
		both := in.Cogroup(func(_, v, sum string) string { return sum + v }).And(other, func(_, v, sum string) string { return sum + "+" + v })
		both.Windowed(spec).Aggregate("cogroup", serde.String()).To(timed("cogroup-out"))
		both.Sessions(runs).Aggregate("cosessions", serde.String(), func(_, earlier, later string) string { return earlier + later }).To(inRuns("cosessions-out"))
		in.Windowed(spec).Reduce("slow", concat).Throttle("slowly", millis(wait)).To(timed("throttled"))
		in.Windowed(spec).Reduce("soon", concat).Suppress("limit", topology.UntilTimeLimit(millis(wait))).To(timed("suppressed"))
	})
	tumbling := func(at int64) (start, end int64) { return at / size * size, at/size*size + size }
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(t, top)
		var all, first []windowEvent // of both topics, as they are added; of the first
		now := int64(0)
		for i := range rapid.IntRange(1, 40).Draw(rt, "records") {
			now += rapid.SampledFrom([]int64{0, 0, 1, 2, 3, 5, 9, 40}).Draw(rt, "later")
			e := windowEvent{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key"), fmt.Sprintf("%d.", i),
				max(0, now-rapid.SampledFrom([]int64{0, 0, 0, 1, 4, 7, 12, 30}).Draw(rt, "late"))}
			if rapid.IntRange(0, 2).Draw(rt, "topic") == 0 {
				p.send(rt, more, e)
				e.value = "+" + e.value
			} else {
				p.send(rt, words, e)
				first = append(first, e)
			}
			all = append(all, e)
		}
		p.lossy.Commit()
		sessions, results, late := sessionModel(first, gap, grace, 0)
		p.same(rt, "sessions-out", true, 0, sessions, first)
		p.same(rt, "sessions-results", true, 0, results, first)
		p.late(rt, "sessions", late)
		short, shortResults, shortLate := sessionModel(first, gap, grace, limit)
		p.same(rt, "short-out", true, 0, short, first)
		p.same(rt, "short-results", true, 0, shortResults, first)
		p.late(rt, "short", shortLate)
		cosessions, _, _ := sessionModel(all, gap, grace, 0)
		p.same(rt, "cosessions-out", true, 0, cosessions, all)
		cogroup, _, _ := fixedModel(all, tumbling, grace)
		p.same(rt, "cogroup-out", false, size, cogroup, all)
		rows, _, _ := fixedModel(first, tumbling, grace)
		p.same(rt, "throttled", false, size, heldModel(rows, wait), first)
		p.same(rt, "suppressed", false, size, heldModel(rows, wait), first)
	})
}
