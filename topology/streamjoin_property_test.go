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

	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

func orNull(v *string) string {
	if v == nil {
		return "-"
	}
	return *v
}

// streamJoins declares a join of each kind of the streams words and more, to the topic joined.
var streamJoins = map[string]func(b *topology.Builder, within window.JoinSpec, opts ...topology.StateOption){
	"inner": func(b *topology.Builder, within window.JoinSpec, opts ...topology.StateOption) {
		b.Stream(words).Join("j", b.Stream(more), within, func(l, r string) string { return l + "+" + r }, opts...).To(joined)
	},
	"left": func(b *topology.Builder, within window.JoinSpec, opts ...topology.StateOption) {
		b.Stream(words).LeftJoin("j", b.Stream(more), within, func(l string, r *string) string { return l + "+" + orNull(r) }, opts...).To(joined)
	},
	"outer": func(b *topology.Builder, within window.JoinSpec, opts ...topology.StateOption) {
		b.Stream(words).OuterJoin("j", b.Stream(more), within, func(l, r *string) string { return orNull(l) + "+" + orNull(r) }, opts...).To(joined)
	},
}

// near is a window of a join, in ms.
type near struct{ before, after, grace int64 }

func (n near) spec() window.JoinSpec {
	return window.Following(millis(n.after)).Before(millis(n.before)).Grace(millis(n.grace))
}

var nears = []near{{10, 10, 5}, {0, 12, 3}, {7, 0, 0}, {0, 0, 4}, {-2, 9, 6}, {8, -3, 20}, {3, 11, 60}}

// meetEvent is a record of one of two streams.
type meetEvent struct {
	right      bool
	key, value string
	at         int64
}

// model is a join of two streams as its documentation has it, over lists.
type joinModel struct {
	near
	keepLeft, keepRight bool

	now      int64
	observed [2]int64 // by side, the right one is 1
	kept     [2][]meetEvent
	lone     []meetEvent
	out      []string
}

func (m *joinModel) send(e meetEvent, at int64, left, right string) {
	m.out = append(m.out, fmt.Sprintf("%s=%s+%s@%d", e.key, left, right, at))
}

func (m *joinModel) alone(e meetEvent) {
	if e.right {
		m.send(e, e.at, "-", e.value)
	} else {
		m.send(e, e.at, e.value, "-")
	}
}

// over is the last stream time at which a partner may come.
func (m *joinModel) over(e meetEvent) int64 {
	if e.right {
		return e.at + m.before + m.grace
	}
	return e.at + m.after + m.grace
}

func (m *joinModel) take(e meetEvent) {
	m.now = max(m.now, e.at)
	slices.SortStableFunc(m.lone, func(a, b meetEvent) int {
		side := func(e meetEvent) int {
			if e.right {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(side(a), side(b)), cmp.Compare(a.key, b.key))
	})
	m.lone = slices.DeleteFunc(m.lone, func(x meetEvent) bool {
		if m.over(x) >= m.now {
			return false
		}
		m.alone(x)
		return true
	})
	own, other := 0, 1
	if e.right {
		own, other = 1, 0
	}
	retention := max(m.before, 0) + max(m.after, 0) + m.grace
	slices.SortStableFunc(m.kept[other], func(a, b meetEvent) int { return cmp.Compare(a.at, b.at) })
	found := false
	for _, p := range m.kept[other] {
		l, r := e, p
		if e.right {
			l, r = p, e
		}
		if p.key != e.key || r.at < l.at-m.before || r.at > l.at+m.after || p.at < m.observed[other]-retention {
			continue
		}
		found = true
		m.send(e, max(l.at, r.at), l.value, r.value)
		m.lone = slices.DeleteFunc(m.lone, func(x meetEvent) bool { return x.right == p.right && x.key == p.key && x.at == p.at })
	}
	if !found && (e.right && m.keepRight || !e.right && m.keepLeft) {
		if m.over(e) < m.now {
			m.alone(e)
		} else {
			m.lone = append(m.lone, e)
		}
	}
	m.observed[own] = max(m.observed[own], e.at)
	m.kept[own] = append(m.kept[own], e)
}

// meetings draws records of both streams, and what happens to a driver between them. disorder is by how much a record may be late at most.
func meetings(rt *rapid.T, disorder int64, straight, lossy *topologytest.Driver) (events []meetEvent) {
	now := int64(0)
	for i := range rapid.IntRange(1, 40).Draw(rt, "records") {
		now += rapid.SampledFrom([]int64{0, 0, 1, 2, 3, 5, 9, 40, 100_000}).Draw(rt, "later")
		late := min(disorder, rapid.SampledFrom([]int64{0, 0, 0, 1, 3, 5, 12, 30, 70_000}).Draw(rt, "late"))
		e := meetEvent{rapid.Bool().Draw(rt, "right"), rapid.SampledFrom([]string{"", "a", "aa", "b"}).Draw(rt, "key"), fmt.Sprint(i), max(0, now-late)}
		events = append(events, e)
		topic := words
		if e.right {
			topic = more
		}
		for _, d := range []*topologytest.Driver{straight, lossy} {
			d.Input(topic).SendAt(time.UnixMilli(e.at), e.key, e.value)
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
	return events
}

func inOrder(raws []topologytest.Raw) []string {
	out := []string{}
	for _, r := range raws {
		out = append(out, fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.Time.UnixMilli()))
	}
	return out
}

// Whatever is lost between the records, the results are those of one straight run, and those are the model's; with the moments of Kafka Streams, too, nothing depends on
// losses.
func TestStreamJoinsAgainstModel(t *testing.T) {
	for kind, declare := range streamJoins {
		t.Run(kind, func(t *testing.T) {
			var tops, late []*topology.Topology
			for _, n := range nears {
				tops = append(tops, build(t, func(b *topology.Builder) { declare(b, n.spec()) }))
				late = append(late, build(t, func(b *topology.Builder) { declare(b, n.spec(), topology.UnmatchedLate()) }))
			}
			rapid.Check(t, func(rt *rapid.T) {
				i := rapid.IntRange(0, len(nears)-1).Draw(rt, "window")
				asKafka := rapid.IntRange(0, 3).Draw(rt, "late") == 0
				top := tops[i]
				if asKafka {
					top = late[i]
				}
				straight, lossy := topologytest.New(t, top, epoch), topologytest.New(t, top, epoch, topologytest.ManualCommit())
				events := meetings(rt, 1<<40, straight, lossy)
				got := inOrder(straight.Records("joined"))
				if d := gocmp.Diff(got, inOrder(lossy.Records("joined"))); d != "" {
					rt.Fatalf("%v of %v: straight (-), with losses (+):\n%s", nears[i], events, d)
				}
				if asKafka {
					return
				}
				m := &joinModel{near: nears[i], keepLeft: kind != "inner", keepRight: kind == "outer", observed: [2]int64{-1, -1}, out: []string{}}
				for _, e := range events {
					m.take(e)
				}
				if d := gocmp.Diff(m.out, got); d != "" {
					rt.Fatalf("%v of %v: model (-), got (+):\n%s", nears[i], events, d)
				}
			})
		})
	}
}

// As long as no record is later than the grace, the results are those of a join over the whole input: all pairs, and each record that is kept and has no partner once, if its
// time is over.
func TestStreamJoinsOverWholeInput(t *testing.T) {
	for kind, declare := range streamJoins {
		t.Run(kind, func(t *testing.T) {
			var tops []*topology.Topology
			for _, n := range nears {
				tops = append(tops, build(t, func(b *topology.Builder) { declare(b, n.spec()) }))
			}
			rapid.Check(t, func(rt *rapid.T) {
				i := rapid.IntRange(0, len(nears)-1).Draw(rt, "window")
				n := nears[i]
				straight, lossy := topologytest.New(t, tops[i], epoch), topologytest.New(t, tops[i], epoch, topologytest.ManualCommit())
				events := meetings(rt, n.grace, straight, lossy)
				m := &joinModel{near: n}
				for _, e := range events {
					m.now = max(m.now, e.at)
				}
				paired := make([]bool, len(events))
				for li, l := range events {
					for ri, r := range events {
						if !l.right && r.right && l.key == r.key && r.at >= l.at-n.before && r.at <= l.at+n.after {
							paired[li], paired[ri] = true, true
							m.send(l, max(l.at, r.at), l.value, r.value)
						}
					}
				}
				for x, e := range events {
					if !paired[x] && (e.right && kind == "outer" || !e.right && kind != "inner") && m.over(e) < m.now {
						m.alone(e)
					}
				}
				want := slices.Sorted(slices.Values(m.out))
				for _, d := range []*topologytest.Driver{straight, lossy} {
					if diff := gocmp.Diff(strings.Join(want, "\n"), strings.Join(slices.Sorted(slices.Values(inOrder(d.Records("joined")))), "\n")); diff != "" {
						rt.Fatalf("%v of %v: want (-), got (+):\n%s", n, events, diff)
					}
				}
			})
		})
	}
}
