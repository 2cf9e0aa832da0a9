package topology_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

// What is wrong with windows is told by Build, with what is allowed.
func TestWindowFaults(t *testing.T) {
	var out strings.Builder
	minute := window.Tumbling(time.Minute)
	for _, m := range []struct {
		name    string
		declare func(b *topology.Builder, g topology.Grouped[string, string])
	}{
		{"zero windows and sessions", func(b *topology.Builder, g topology.Grouped[string, string]) {
			g.Windowed(window.Spec{}).Count("a")
			g.Sessions(window.SessionSpec{}).Count("b")
		}},
		{"a size of zero, an advance that is too large", func(b *topology.Builder, g topology.Grouped[string, string]) {
			g.Windowed(window.Tumbling(0)).Count("a")
			g.Windowed(window.Hopping(time.Second, time.Minute)).Count("b")
		}},
		{"a grace below zero, a retention that is too short", func(b *topology.Builder, g topology.Grouped[string, string]) {
			g.Windowed(minute.Grace(-1)).Count("a")
			g.Windowed(minute.Grace(time.Second).Retain(time.Minute)).Count("b")
			g.Sessions(window.Sessions(time.Minute).Retain(time.Second)).Count("c")
		}},
		{"advances that are none", func(b *topology.Builder, g topology.Grouped[string, string]) {
			g.Windowed(window.Hopping(time.Minute, 0)).Count("a")
			g.Windowed(window.Hopping(time.Minute, -time.Second)).Count("b")
			g.Windowed(window.Tumbling(-time.Second)).Count("c")
			g.Windowed(window.Sliding(-time.Second)).Count("d")
			g.Windowed(window.Tumbling(time.Minute + time.Microsecond)).Count("e")
		}},
		{"graces and retentions that overflow", func(b *topology.Builder, g topology.Grouped[string, string]) {
			g.Windowed(minute.Grace(1<<63 - 1).Retain(time.Hour)).Count("a")
			g.Windowed(minute.Grace((1<<63 - 1) / time.Millisecond * time.Millisecond)).Count("b")
			g.Windowed(window.Sliding((1<<63 - 1) / time.Millisecond * time.Millisecond)).Count("c")
			g.Sessions(window.Sessions(time.Hour).Grace((1<<63 - 1) / time.Millisecond * time.Millisecond)).Count("d")
			g.Windowed(minute.Retain(-time.Second)).Count("e")
		}},
		{"sessions", func(b *topology.Builder, g topology.Grouped[string, string]) {
			g.Sessions(window.Sessions(0)).Count("a")
			g.Sessions(window.Sessions(-time.Second)).Count("b")
			g.Sessions(window.Sessions(time.Second).Grace(-time.Second)).Count("c")
			g.Sessions(window.Sessions(time.Second).MaxLength(0)).Count("d")
			g.Sessions(window.Sessions(time.Second).MaxLength(-time.Minute)).Count("e")
		}},
		{"calendars", func(b *topology.Builder, g topology.Grouped[string, string]) {
			unknown, err := time.LoadLocation("Europe/Atlantis")
			if err == nil {
				t.Error("Atlantis was found")
			}
			g.Windowed(window.Monthly(unknown)).Count("a")
			g.Windowed(window.Weekly(time.UTC, 7)).Count("b")
			g.Windowed(window.Weekly(time.UTC, -1)).Count("c")
			g.Windowed(window.Yearly(time.Local)).Count("d")
			g.Windowed(window.Quarterly(time.UTC).Grace(-time.Second)).Count("e")
		}},
		{"joins of windows", func(b *topology.Builder, g topology.Grouped[string, string]) {
			w := g.Windowed(minute).Count("a")
			sum := func(l, r int64) int64 { return l + r }
			w.Join(g.Windowed(window.Tumbling(time.Hour)).Count("b"), sum)
			w.Join(g.Sessions(window.Sessions(time.Minute)).Count("c"), sum).Stored("d")
			w.Join(topology.WindowTable[string, int64]{}, sum)
			w.LeftJoin[int64, int64](w, nil)
			w.Join(w.MapValues(func(n int64) int64 { return n }), sum).Filter(func(window.Key[string], int64) bool { return true }).Final()
		}},
		{"versioned tables", func(b *topology.Builder, g topology.Grouped[string, string]) {
			v := b.VersionedTable("prices", more, few, time.Hour)
			v.Throttle("a", time.Second)
			v.Filter(keep).MapValues(upper).Suppress("b", topology.UntilTimeLimit(time.Second))
			v.OnCommit().Throttle("c", time.Second)
			v.Filter(keep).Stored("newest").Throttle("right", time.Second)
			b.Table("plain", counts, few).Suppress[topology.Until]("none", nil)
		}},
		{"no time zone", func(b *topology.Builder, g topology.Grouped[string, string]) {
			g.Windowed(window.Daily(nil)).Count("a")
		}},
		{"no function, no serde", func(b *topology.Builder, g topology.Grouped[string, string]) {
			g.Windowed(minute).Reduce("a", nil)
			g.Windowed(minute).Aggregate("b", serde.Serde[shop](nil), func(_, _ string, s shop) shop { return s })
		}},
		{"keys of a topic in other windows", func(b *topology.Builder, g topology.Grouped[string, string]) {
			g.Windowed(minute).Count("a").To(topology.NewTopic("x", window.KeySerde(serde.String(), window.Tumbling(time.Hour)), serde.Int64()))
			g.Windowed(minute).Count("b").Final().To(topology.NewTopic("y", window.SessionKeySerde(serde.String()), serde.Int64()))
		}},
		{"what has no store, and sessions that are none", func(b *topology.Builder, g topology.Grouped[string, string]) {
			w := g.Windowed(minute).Count("a")
			w.MapValues(func(n int64) int64 { return n }).Store()
			w.SessionStore()
			w.Stored("again")
			w.OnCommit().Stored("late")
		}},
		{"suppress and throttle", func(b *topology.Builder, g topology.Grouped[string, string]) {
			w := g.Windowed(minute).Count("a")
			w.Suppress("s", topology.UntilWindowCloses(), topology.MaxRecords(0)).Final()
			w.Suppress("n", topology.WindowUntil(nil))
			w.Throttle("t", time.Duration(0), topology.MaxBytes(-1))
			w.Throttle("s-store", time.Second)
		}},
		{"cogroups", func(b *topology.Builder, g topology.Grouped[string, string]) {
			c := g.Cogroup(func(_, _ string, n int64) int64 { return n }).And(topology.Grouped[string, string]{}, func(_, _ string, n int64) int64 { return n })
			c.Aggregate("a", serde.Int64(), few)
			g.Cogroup[int64](nil).Windowed(minute).Aggregate("b", serde.Int64())
			c.Sessions(window.Sessions(time.Minute)).Aggregate("c", serde.Int64(), nil)
		}},
	} {
		b := topology.New()
		m.declare(b, b.Stream(words).GroupByKey())
		_, err := b.Build()
		if err == nil {
			t.Errorf("%s: no fault", m.name)
		}
		text := regexp.MustCompile(`[^\s]*windowfault_test.go:\d+`).ReplaceAllString(fmt.Sprint(err), "windowfault_test.go")
		fmt.Fprintf(&out, "# %s\n%s\n\n", m.name, text)
	}
	golden(t, "windowfaults.txt", out.String())
}
