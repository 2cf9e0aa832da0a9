package kolk

import (
	"testing"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

// Windows are counted, closed by stream time and sent once, over a restart and a lost disk: what was open before goes on after.
func TestFinalWindows(t *testing.T) {
	ten := window.Tumbling(10 * time.Second)
	results := topology.NewTopic("totals", window.KeySerde(serde.String(), ten), serde.Int64())
	job := func() *topology.Builder {
		b := topology.New()
		b.Stream(words).GroupByKey().Windowed(ten).Count("windows").Final().To(results)
		return b
	}
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		at := func(second int64, key string) {
			w.produce("words", []byte(key), []byte("v"), 1_700_000_000_000+1000*second)
		}
		c := w.config("app")
		r := w.start(job(), c).ready()
		at(1, "a")
		at(2, "b")
		at(9, "a")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if n := len(w.read("totals")); n != 0 {
			t.Fatalf("%d results before the window is closed", n)
		}
		c.StateDir = t.TempDir()
		r = w.start(job(), c).ready()
		at(5, "a")
		at(10, "a") // closes the first window
		at(3, "a")  // late
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = w.start(job(), c).ready()
		at(25, "c")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		type result struct {
			key   string
			start int64
			n     uint64
		}
		var got []result
		for _, rec := range w.read("totals") {
			k, err := window.KeySerde(serde.String(), ten).Decode(rec.Key)
			if err != nil {
				t.Fatal(err)
			}
			n, err := serde.Int64().Decode(rec.Value)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, result{k.Key, k.Start().UnixMilli() - 1_700_000_000_000, uint64(n)})
		}
		want := []result{{"a", 0, 3}, {"b", 0, 1}, {"a", 10000, 1}}
		if len(got) != len(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("result %d: got %v, want %v", i, got[i], want[i])
			}
		}
	})
}
