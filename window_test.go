package kolk

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
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

// T5 over a move: two windows behind one source judge lateness by their own stream time and grace, whoever runs the task. It moves to an instance that joins,
// that is left alone, and that takes over from one whose network is cut.
func TestT5Moves(t *testing.T) {
	const begin = 1_700_000_000_000
	strict, patient := window.Tumbling(10*time.Second), window.Tumbling(10*time.Second).Grace(20*time.Second)
	job := func() *topology.Builder {
		b := topology.New()
		s := b.Stream(words)
		s.GroupByKey().Windowed(strict).Count("strict", topology.Named("strict")).Final().To(topology.NewTopic("finals", window.KeySerde(serde.String(), strict), serde.Int64()))
		s.Filter(func(_, v string) bool { return v == "x" }).GroupByKey().Windowed(patient).Count("patient", topology.Named("patient")).
			To(topology.NewTopic("updates", window.KeySerde(serde.String(), patient), serde.Int64()))
		return b
	}
	keys := []string{"", ""} // by partition
	for _, k := range []string{"a", "b", "c", "d", "e", "f"} {
		keys[byJava(k, 2)] = k
	}
	for name, move := range map[string]func(w *world, first *running, c Config) *running{
		"one joins": func(w *world, first *running, c Config) *running {
			second := w.start(job(), c).ready()
			w.wait(20 * time.Second)
			if a, b := len(first.app.Health().Tasks), len(second.app.Health().Tasks); a != 1 || b != 1 {
				w.t.Fatalf("the instances have %d and %d tasks, want one each", a, b)
			}
			return second
		},
		"one leaves": func(w *world, first *running, c Config) *running {
			second := w.start(job(), c).ready()
			w.wait(20 * time.Second)
			if err := first.stop(); err != nil {
				w.t.Fatal(err)
			}
			return second
		},
		"one is cut off": func(w *world, first *running, c Config) *running {
			first.cut.unplug()
			return w.start(job(), c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, map[string]int32{"words": 2, "finals": 1, "updates": 1}, func(w *world) {
				var mu sync.Mutex
				late := map[string]map[string]int{"before": {}, "after": {}}
				when := "before"
				config := func() Config {
					c := w.config("app")
					c.Hooks = &Hooks{OnDrop: func(d Drop) {
						mu.Lock()
						defer mu.Unlock()
						late[when][d.Task+" "+d.Node+" "+string(d.Reason)]++
					}}
					return c
				}
				send := func(second int64, value string) {
					for _, k := range keys {
						w.produce("words", []byte(k), []byte(value), begin+1000*second)
					}
				}
				took := map[string]int{}
				wants := func(topic string, want ...string) {
					t.Helper()
					for _, k := range keys {
						var got []string
						for _, r := range w.read(topic) {
							at, err := window.KeySerde(serde.String(), strict).Decode(r.Key)
							if err != nil {
								t.Fatal(err)
							}
							n, err := serde.Int64().Decode(r.Value)
							if err != nil {
								t.Fatal(err)
							}
							if at.Key == k {
								got = append(got, fmt.Sprintf("%d=%d@%d", (at.Start().UnixMilli()-begin)/1000, n, (r.Timestamp.UnixMilli()-begin)/1000))
							}
						}
						if !slices.Equal(got[took[topic+k]:], want) {
							t.Errorf("%s of %s: got %v, want %v", topic, k, got[took[topic+k]:], want)
						}
						took[topic+k] = len(got)
					}
				}

				first := w.start(job(), config()).ready()
				send(5, "x")
				send(25, "x")
				send(200, "y") // moves the time of the first window alone
				send(14, "x")  // late for it, at 200, and not for the second, at 25
				w.settled("app", "words")
				wants("finals", "0=1@5", "20=1@25")
				wants("updates", "0=1@5", "20=1@25", "10=1@14")

				second := move(w, first, config())
				mu.Lock()
				when = "after"
				mu.Unlock()
				send(9, "x")   // late for the first, at 200; in time for the second, at 25
				send(195, "y") // late for the first, at 200: a time that nobody who begins anew would find late
				send(30, "x")  // late for the first; the second is at 30 now
				send(8, "x")   // late for both
				send(201, "y") // in time
				w.settled("app", "words")
				for _, r := range []*running{first, second} {
					if err := r.stop(); err != nil && name != "one is cut off" {
						t.Fatal(err)
					}
				}
				wants("finals") // what was sent is not sent again, and 200 is open
				wants("updates", "0=2@9", "30=1@30")
				want := map[string]map[string]int{"before": {}, "after": {}}
				for _, task := range []string{"0_0 ", "0_1 "} {
					want["before"][task+"strict late"] = 1
					want["after"][task+"strict late"] = 4
					want["after"][task+"patient late"] = 1
				}
				if !reflect.DeepEqual(late, want) {
					t.Errorf("dropped %v, want %v", late, want)
				}
			})
		})
	}
}
