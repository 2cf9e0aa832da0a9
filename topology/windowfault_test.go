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
