package kolk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The world's clock begins in 2000.
var longAgo = time.Date(1987, 10, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

var hourly = window.Tumbling(time.Hour).Grace(time.Hour)

func countingHours() *topology.Builder {
	b := topology.New()
	b.Stream(words).GroupByKey().Windowed(hourly).Count("hours").To(topology.NewTopic("totals", window.KeySerde(serde.String(), hourly), serde.Int64()))
	return b
}

func (w *world) setting(topic, key string) string {
	w.t.Helper()
	configs, err := w.adm.DescribeTopicConfigs(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == key {
			return c.MaybeValue()
		}
	}
	return ""
}

func (w *world) starts(topic string) int64 {
	w.t.Helper()
	starts, err := w.adm.ListStartOffsets(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	s, _ := starts.Lookup(topic, 0)
	return s.Offset
}

// X6, R02: brokers delete by record time against their own clock, which would take the state of a replay of old events away. With the limit taken off, a store
// that is lost is restored whole, and counts go on.
func TestX6WindowsOfLongAgo(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		at := func(minute int64, key string) {
			w.produce("words", []byte(key), []byte("v"), longAgo+60_000*minute)
		}
		c := w.config("app")
		c.InternalTopics.Config = nil
		r := w.start(countingHours(), c).ready()
		if got := w.setting("app-hours-changelog", "retention.ms"); got != "93600000" {
			t.Errorf("created with retention.ms=%s, want two hours and a day", got)
		}
		for i := range int64(50) {
			at(i, "a")
		}
		w.settled("app", "words")
		if got := w.setting("app-hours-changelog", "retention.ms"); got != "-1" {
			t.Errorf("retention.ms is %s after events of 1987", got)
		}
		w.fake.ApplyRetention()
		w.fake.Compact()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		c.StateDir = t.TempDir() // the disk is lost
		r = w.start(countingHours(), c).ready()
		at(55, "a")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		all := w.read("totals")
		if got := binary.BigEndian.Uint64(all[len(all)-1].Value); got != 51 {
			t.Errorf("the last count is %d, want 51: the state was deleted", got)
		}
	})
}

// A changelog without a limit of age stays bounded: the owner deletes what has expired by event time, and a store that is behind what was deleted is still used.
func TestExpiredChangelog(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		r := w.start(countingHours(), c).ready()
		hours := func(from, to int64) {
			for i := from; i < to; i++ {
				w.produce("words", []byte("a"), []byte("v"), longAgo+3_600_000*i)
				w.wait(time.Second)
			}
			w.settled("app", "words")
			w.wait(purgeEvery + c.CheckpointEvery + 15*time.Second)
		}
		hours(0, 20)
		w.produce("words", []byte("a"), []byte("v"), longAgo+3_600_000*20)
		w.settled("app", "words")
		w.wait(2*purgeEvery + time.Second)
		start, end := w.starts("app-hours-changelog"), int64(0)
		ends, err := w.adm.ListEndOffsets(w.t.Context(), "app-hours-changelog")
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := ends.Lookup("app-hours-changelog", 0); ok {
			end = e.Offset
		}
		// A commit is a record and a marker. Two hours are kept, and up to an hour more for the marks and the checkpoint.
		if start < 30 || start > end-4 {
			t.Errorf("the changelog goes from %d to %d after 21 windows of which 2 are needed", start, end)
		}
		old := c.StateDir
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		c.StateDir = t.TempDir() // another instance goes on
		r = w.start(countingHours(), c).ready()
		hours(20, 40)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if moved := w.starts("app-hours-changelog"); moved <= end {
			t.Fatalf("the changelog still begins at %d, what the first instance has goes to %d", moved, end)
		}
		c.StateDir = old // and the first one again
		log := new(strings.Builder)
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
		r = w.start(countingHours(), c).ready()
		w.produce("words", []byte("a"), []byte("v"), longAgo+3_600_000*39)
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "the local store is not used") {
			t.Errorf("a store was wiped because of what had expired anyhow: %s", log)
		}
		all := w.read("totals")
		if got := binary.BigEndian.Uint64(all[len(all)-1].Value); got != 2 {
			t.Errorf("the last count is %d, want 2", got)
		}
	})
}

// Whoever may not alter the topic is told what to run, before anything is written that would be lost.
func TestProtectDenied(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		w.fake.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.fake.KeepControl()
			resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
			for _, r := range req.(*kmsg.IncrementalAlterConfigsRequest).Resources {
				res := kmsg.NewIncrementalAlterConfigsResponseResource()
				res.ResourceName, res.ResourceType, res.ErrorCode = r.ResourceName, r.ResourceType, 29
				resp.Resources = append(resp.Resources, res)
			}
			return resp, nil, true
		})
		c := w.config("app")
		c.InternalTopics.Config = nil
		r := w.start(countingHours(), c).ready()
		w.produce("words", []byte("a"), []byte("v"), longAgo)
		err := r.failed()
		e, ok := errors.AsType[*TopicError](err)
		if !ok || e.Topic != "app-hours-changelog" || !strings.Contains(e.Problem, `"hours"`) || !strings.Contains(e.Problem, "1987-10-01") || !strings.Contains(e.Remedy, "--add-config 'retention.ms=-1'") {
			t.Errorf("got %v", err)
		}
		if n := len(w.read("app-hours-changelog")); n != 0 {
			t.Errorf("%d records were written", n)
		}
	})
}

// An input that stands still for long is a case of it too: nothing is written, and the clock goes on.
func TestProtectIdle(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.InternalTopics.Config = nil
		w.start(countingHours(), c).ready()
		w.produce("words", []byte("a"), []byte("v"), time.Now().Add(-11*time.Hour).UnixMilli())
		w.settled("app", "words")
		w.wait(2 * purgeEvery)
		if got := w.setting("app-hours-changelog", "retention.ms"); got == "-1" {
			t.Error("the limit was taken off without need")
		}
		w.wait(time.Hour)
		if got := w.setting("app-hours-changelog", "retention.ms"); got != "-1" {
			t.Errorf("retention.ms is %s after 12 hours", got)
		}
	})
}

func TestRetainer(t *testing.T) {
	r := newRetainer()
	d := &state.Decl{Name: "s", Kind: "window", Retention: 1000}
	now := time.UnixMilli(1_000_000_000_000)
	r.found("log", d, changelog.Topic{Retention: 25 * time.Hour})
	r.found("table", &state.Decl{Kind: "keyvalue"}, changelog.Topic{Retention: time.Hour})
	r.found("endless", d, changelog.Topic{})
	for lag, short := range map[time.Duration]bool{0: false, 12 * time.Hour: false, 13 * time.Hour: true, -time.Hour: false} {
		if got := r.short("log", now.Add(-lag).UnixMilli(), now); got != short {
			t.Errorf("lag %v: short is %v", lag, got)
		}
		if r.short("table", now.Add(-lag).UnixMilli(), now) || r.short("endless", now.Add(-lag).UnixMilli(), now) {
			t.Errorf("lag %v: topics without limit are short", lag)
		}
	}
	var got []string
	for i, at := range []int64{0, 100, 500, 999, 1000, 1240, 1600, 5000, 5000} {
		r.committed("log", 0, d, at, int64(10*(i+1)))
		if upTo := r.deletable("log", 0, 65); upTo > 0 {
			got = append(got, fmt.Sprint(at, ":", upTo))
		}
	}
	// What was written up to time 0 lies before 10, up to 500 before 30, up to 1600 before 70: each goes 1001 later, as far as it is in the local store.
	if want := "[1240:10 1600:30 5000:65 5000:65]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if old := r.idle(now); len(old) != 1 || old[0].Topic != "log" || old[0].Store != "s" || old[0].At.UnixMilli() != 5000 {
		t.Errorf("idle: %v", old)
	}
	r.lifted("log")
	if len(r.idle(now)) != 0 || r.short("log", 0, now) {
		t.Error("the limit is still there")
	}
	r.closed("log", 0)
	if len(r.logs) != 0 {
		t.Error("the partition is still there")
	}
}

// The history of a versioned table would not be deleted but compacted away.
func TestX6VersionedTableOfLongAgo(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.InternalTopics.Config = nil
		b := topology.New()
		b.VersionedTable("prices", words, store.FiniteKeys(10), time.Hour).Stream().MapValues(func(string) int64 { return 1 }).To(totals)
		r := w.start(b, c).ready()
		if got := w.setting("app-prices-changelog", "min.compaction.lag.ms"); got != "90000000" {
			t.Errorf("created with min.compaction.lag.ms=%s, want an hour and a day", got)
		}
		w.produce("words", []byte("a"), []byte("1"), longAgo)
		w.settled("app", "words")
		if got := w.setting("app-prices-changelog", "min.compaction.lag.ms"); got != "9223372036854775807" {
			t.Errorf("min.compaction.lag.ms is %s after an event of 1987", got)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = w.start(b, c).ready() // what kolk has altered is as good as what it has created
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	})
}
