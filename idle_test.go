package kolk

import (
	"maps"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What was committed is on disk a checkpoint interval later, also if nothing was committed since.
func TestIdleCheckpoint(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		var rows int
		c := w.config("app")
		c.CheckpointEvery = 2 * time.Second
		c.Hooks = &Hooks{OnCheckpoint: func(_ string, n int, _ time.Duration, err error) {
			if err != nil {
				t.Error(err)
			}
			rows += n
		}}
		r := w.start(counting(), c).ready()
		w.wait(10 * time.Second)
		w.send("words", "a=", "b=") // the first commit in a while, and a checkpoint with it
		w.settled("app", "words")
		w.send("words", "c=") // committed, and nothing after it
		w.settled("app", "words")
		w.wait(10 * time.Second)
		if rows != 3 {
			t.Errorf("%d rows were written, want 3", rows)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	})
}

var tenSeconds = window.Tumbling(10 * time.Second)

// closing sends the counts of windows of ten seconds.
func closing(group func(topology.Stream[string, string]) topology.Grouped[string, string]) *topology.Builder {
	b := topology.New()
	group(b.Stream(words)).Windowed(tenSeconds).Count("windows").Final().To(topology.NewTopic("totals", window.KeySerde(serde.String(), tenSeconds), serde.Int64()))
	return b
}

func byKey(s topology.Stream[string, string]) topology.Grouped[string, string] {
	return s.GroupByKey()
}

const eventTime = 1_700_000_000_000

// word sends one with an event time, in seconds.
func (w *world) word(second int64, key string) {
	w.produce("words", []byte(key), []byte(key), eventTime+1000*second)
}

// closed are the results so far, by key and second.
func (w *world) closed(want map[string]int64) {
	w.t.Helper()
	got := make(map[string]int64)
	for _, r := range w.read("totals") {
		k, err := window.KeySerde(serde.String(), tenSeconds).Decode(r.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		n, err := serde.Int64().Decode(r.Value)
		if err != nil {
			w.t.Fatal(err)
		}
		got[k.Key] += n
	}
	if !maps.Equal(got, want) {
		w.t.Errorf("closed windows have %v, want %v", got, want)
	}
}

// Windows close when a partition has been quiet, and stay closed over a restart that has lost its disk. Time that is not idle counts for nothing.
func TestCloseIdle(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.CloseIdle = 5 * time.Second
		late := 0
		c.Hooks = &Hooks{OnDrop: func(d Drop) {
			if d.Reason == "late" {
				late++
			}
		}}
		r := w.start(closing(byKey), c).ready()
		w.wait(time.Minute) // nothing was ever read
		w.word(1, "a")
		w.word(8, "b")
		w.settled("app", "words")
		w.wait(4 * time.Second)
		w.closed(map[string]int64{})
		if h := r.app.Health(); !h.Tasks[0].ClosedIdle.IsZero() {
			t.Errorf("closed at %v", h.Tasks[0].ClosedIdle)
		}
		w.wait(2 * time.Second)
		w.closed(map[string]int64{"a": 1, "b": 1})
		h := r.app.Health().Tasks[0]
		if ahead := h.StreamTime.UnixMilli() - eventTime; ahead < 13_000 || ahead > 14_500 {
			t.Errorf("stream time is at %d ms, want some five seconds after the last record", ahead)
		}
		if age := time.Since(h.ClosedIdle); age > 2*time.Second {
			t.Errorf("closed %v ago", age)
		}
		commits := r.app.Health().Commits
		w.wait(time.Minute)
		if n := r.app.Health().Commits - commits; n != 0 {
			t.Errorf("%d commits with nothing to close", n)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}

		c.StateDir = t.TempDir()
		r = w.start(closing(byKey), c).ready()
		w.word(9, "a")  // of a window that is closed
		w.word(12, "c") // of one that is not
		w.settled("app", "words")
		w.wait(20 * time.Second)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.closed(map[string]int64{"a": 1, "b": 1, "c": 1})
		if late != 1 {
			t.Errorf("%d records were late, want 1", late)
		}
	})
}

// The time in which no instance ran is not idle time: stream time goes on from the start, and what came meanwhile is in time.
func TestCloseIdleDowntime(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.CloseIdle = 5 * time.Second
		r := w.start(closing(byKey), c).ready()
		w.word(1, "a")
		w.settled("app", "words")
		w.wait(3 * time.Second)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.wait(time.Hour)
		r = w.start(closing(byKey), c).ready()
		w.wait(4 * time.Second)
		w.closed(map[string]int64{})
		w.word(2, "a")
		w.settled("app", "words")
		w.wait(4 * time.Second)
		w.closed(map[string]int64{})
		w.wait(8 * time.Second)
		w.closed(map[string]int64{"a": 2})
		h := r.app.Health().Tasks[0]
		if ahead := h.StreamTime.UnixMilli() - eventTime; ahead < 10_000 || ahead > 14_000 {
			t.Errorf("stream time is at %d ms, want at the end of the window", ahead)
		}
		if n := h.Dropped["late"]; n != 0 {
			t.Errorf("%d records were late", n)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// An input that has records which do not come through is not at its end, however long it is quiet.
func TestCloseIdleWaitsForFetch(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.CloseIdle = 5 * time.Second
		r := w.start(closing(byKey), c).ready()
		w.word(1, "a")
		w.settled("app", "words")
		cut := w.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
		w.word(2, "a")
		w.wait(time.Minute)
		cut.Remove()
		w.settled("app", "words")
		w.closed(map[string]int64{})
		w.wait(30 * time.Second)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.closed(map[string]int64{"a": 2})
	})
}

// The end of an input is its last stable offset: what an open transaction has written is not there yet. It comes late when it comes.
func TestCloseIdleOpenTransaction(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.CloseIdle = 5 * time.Second
		r := w.start(closing(byKey), c).ready()
		w.word(1, "a")
		other, err := kgo.NewClient(kgo.SeedBrokers(w.fake.ListenAddrs()...), kgo.Dialer(w.net.DialContext), kgo.TransactionalID("upstream"), kgo.TransactionTimeout(5*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := other.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, second := range []int64{2, 12} {
			rec := &kgo.Record{Topic: "words", Key: []byte("a"), Value: []byte("v"), Timestamp: time.UnixMilli(eventTime + 1000*second)}
			if err := other.ProduceSync(w.t.Context(), rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		w.wait(30 * time.Second)
		w.closed(map[string]int64{"a": 1})
		if err := other.EndTransaction(w.t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		w.settled("app", "words")
		w.wait(30 * time.Second)
		dropped := r.app.Health().Tasks[0].Dropped["late"]
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.closed(map[string]int64{"a": 2})
		if dropped != 1 {
			t.Errorf("%d records were late, want 1", dropped)
		}
	})
}

// A task behind a repartition topic is not idle while a record that leads to it waits before that topic.
func TestCloseIdleBehindRepartition(t *testing.T) {
	inWorld(t, map[string]int32{"words": 2, "more": 2, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.CloseIdle, c.MaxIdle = 5*time.Second, time.Minute
		b := closing(func(s topology.Stream[string, string]) topology.Grouped[string, string] {
			return s.GroupBy(func(_, v string) string { return v })
		})
		r := w.start(b, c).ready()
		w.word(1, "a")
		w.settled("app", "words")
		w.wait(20 * time.Second)
		w.closed(map[string]int64{"a": 1})
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}

		both := topology.New()
		merged := both.Stream(words).Merge(both.Stream(topology.NewTopic("more", serde.String(), serde.String())))
		merged.GroupBy(func(_, v string) string { return "all" }).Windowed(tenSeconds).Count("windows").Final().
			To(topology.NewTopic("totals", window.KeySerde(serde.String(), tenSeconds), serde.Int64()))
		c = w.config("both")
		c.CloseIdle, c.MaxIdle = 5*time.Second, time.Minute
		r = w.start(both, c).ready()
		w.produce("words", []byte("k"), []byte("v"), eventTime+1000)
		w.produce("more", []byte("k"), []byte("v"), eventTime+2000) // waits for words
		w.wait(50 * time.Second)
		w.closed(map[string]int64{"a": 1})
		w.wait(time.Minute)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.closed(map[string]int64{"a": 1, "all": 3})
	})
}

// A partition that is read from its end, and has had nothing new, is not behind: its old records are not to be read. It was taken for one that nobody has read
// yet, and what lies behind a repartition topic never closed.
func TestCloseIdleFromLatest(t *testing.T) {
	for name, from := range map[string]topology.Offset{"latest": topology.Latest, "ago": topology.Ago(time.Second)} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, map[string]int32{"words": 4, "totals": 1}, func(w *world) {
				for _, k := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} { // some in each partition
					w.produce("words", []byte(k), []byte(k), time.Now().Add(-time.Hour).UnixMilli())
				}
				c := w.config("app")
				c.CloseIdle = 5 * time.Second
				b := topology.New()
				b.Stream(words, topology.From(from)).GroupBy(func(_, v string) string { return v }).Windowed(tenSeconds).Count("windows").Final().
					To(topology.NewTopic("totals", window.KeySerde(serde.String(), tenSeconds), serde.Int64()))
				r := w.start(b, c).ready()
				w.wait(time.Second)
				w.word(1, "a")
				w.wait(4 * time.Second)
				w.closed(map[string]int64{})
				w.wait(16 * time.Second)
				w.closed(map[string]int64{"a": 1})
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
