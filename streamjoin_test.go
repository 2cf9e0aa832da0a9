package kolk

import (
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

// An outer join of two streams goes on after a restart, with its disk and without: records meet partners from before, what was matched is not sent without a partner, and what was not is sent once.
func TestOuterJoinOverRestarts(t *testing.T) {
	text := func(name string) topology.Topic[string, string] {
		return topology.NewTopic(name, serde.String(), serde.String())
	}
	job := func() *topology.Builder {
		b := topology.New()
		b.Stream(text("left")).OuterJoin("both", b.Stream(text("right")), window.Within(10*time.Second).Grace(5*time.Second), func(l, r *string) string {
			show := func(v *string) string {
				if v == nil {
					return "-"
				}
				return *v
			}
			return show(l) + "+" + show(r)
		}, topology.Named("join")).To(text("pairs"))
		return b
	}
	inWorld(t, map[string]int32{"left": 2, "right": 2, "pairs": 1}, func(w *world) {
		const base = 1_700_000_000_000
		at := func(topic string, second int64, key, value string) {
			w.produce(topic, []byte(key), []byte(value), base+1000*second)
		}
		c := w.config("app")
		// run starts the application, sends, and wants so many records that wait.
		run := func(send func(), waits int64) {
			t.Helper()
			r := w.start(job(), c).ready()
			send()
			w.settled("app", "left", "right")
			w.wait(time.Second)
			var entries, size int64
			for _, task := range r.app.Health().Tasks {
				for _, s := range task.Stores {
					if s.Name == "both-outer-shared-join-store" {
						entries, size = entries+s.Entries, size+s.Bytes
					}
				}
			}
			if entries != waits || size < 20*waits {
				t.Errorf("Health has %d records without a partner, %d bytes, want %d", entries, size, waits)
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
		}
		run(func() {
			at("left", 1, "a", "a1")
			at("left", 1, "a", "a2")
			at("right", 2, "b", "b1")
			at("right", 3, "a", "a3")
			at("left", 4, "c", "c1")
		}, 2)
		run(func() { at("right", 11, "a", "a4") }, 2)
		c.StateDir = t.TempDir()
		var misses atomic.Int64
		run(func() {
			at("left", 12, "b", "b2")
			for _, key := range []string{"a", "b", "c"} { // all partitions
				at("left", 40, key, "late")
			}
		}, 3)
		c.Hooks = &Hooks{OnMiss: func(d Drop) {
			if d.Reason == processor.Closed {
				misses.Add(1)
			}
		}}
		r := w.start(job(), c).ready()
		at("left", 60, "c", "later")
		w.settled("app", "left", "right")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		got := make(map[string]int)
		for _, rec := range w.read("pairs") {
			got[fmt.Sprintf("%s=%s@%d", rec.Key, rec.Value, (rec.Timestamp.UnixMilli()-base)/1000)]++
		}
		want := "a=a1+a3@3 a=a2+a3@3 a=a1+a4@11 a=a2+a4@11 b=b2+b1@12 c=c1+-@4"
		for _, x := range strings.Fields(want) {
			if got[x] != 1 {
				t.Errorf("%s came %d times", x, got[x])
			}
			delete(got, x)
		}
		for x, n := range got {
			if !strings.Contains(x, "late+-@40") {
				t.Errorf("%s came %d times, and was not wanted", x, n)
			}
		}
		if n := misses.Load(); n != int64(len(got)) || n == 0 {
			t.Errorf("%d misses, and %d records without a partner in the last run", n, len(got))
		}
	})
}

// A join's buffer and a window store that were read back from changelogs which keep everything count what is alive, at once: not what has expired since, which the next
// checkpoint was to take away.
func TestRestoredEntries(t *testing.T) {
	job := func() *topology.Builder {
		b := topology.New()
		s := b.Stream(words)
		s.Join("both", b.Stream(usersTopic), window.Within(10*time.Second), func(l, r string) string { return l + r }).To(painted)
		s.GroupByKey().Windowed(tenSeconds).Count("windows")
		return b
	}
	inWorld(t, map[string]int32{"words": 1, "users": 1, "painted": 1}, func(w *world) {
		entries := func(r *running) map[string]int64 {
			out := map[string]int64{}
			for _, s := range r.app.Health().Tasks[0].Stores {
				out[s.Name] = s.Entries
			}
			return out
		}
		c := w.config("app")
		c.CheckpointEvery = time.Second
		r := w.start(job(), c).ready()
		for minute := range int64(10) {
			w.word(60*minute, "a")
			w.word(60*minute+30, "b")
			w.settled("app", "words")
			w.wait(2 * time.Second) // a checkpoint, and another one
		}
		before := entries(r)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if n := len(w.read("app-windows-changelog")); n != 20 {
			t.Fatalf("the changelog has %d records, want all 20", n)
		}
		c.StateDir, c.CheckpointEvery = t.TempDir(), time.Hour
		r = w.start(job(), c).ready()
		after := entries(r)
		if after["windows"] == 2 {
			after["windows"] = 1 // the other one expired before it was written here, and lies in a segment that has not
		}
		if want := map[string]int64{"both-this-join-store": 2, "both-other-join-store": 0, "windows": 1}; !maps.Equal(before, want) || !maps.Equal(after, want) {
			t.Errorf("%v entries were there, %v were restored, want %v", before, after, want)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	})
}
