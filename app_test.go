package kolk

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

// The whole way, through a repartition topic: what is committed equals the batch, and a clean restart goes on without reading a record again.
func TestCountAndRestart(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		inWorld(t, map[string]int32{"words": 3, "totals": 2}, func(w *world) {
			c := w.config("app")
			c.Guarantee, c.CommitEvery = g, 100*time.Millisecond
			r := w.start(countingValues(), c).ready()
			w.send("words", "1=a", "2=b", "3=a", "4=c", "5=a")
			w.settled("app", "words", "app-counts-repartition")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			w.same("counts", w.counts("totals"), map[string]int64{"a": 3, "b": 1, "c": 1})

			w.send("words", "6=b", "7=a")
			r = w.start(countingValues(), c).ready()
			w.settled("app", "words", "app-counts-repartition")
			for _, task := range r.app.Health().Tasks {
				for _, p := range task.Restores {
					if p.Records > 0 {
						t.Errorf("%d records of %s were read again after a clean stop", p.Records, p.Topic)
					}
				}
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			w.same("counts after restart", w.counts("totals"), map[string]int64{"a": 4, "b": 2, "c": 1})
		})
	}
}

// Losing the disk costs a restore.
func TestRestoreFromNothing(t *testing.T) {
	for _, memory := range []bool{false, true} {
		inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
			b := counting
			if memory {
				b = func(...topology.StateOption) *topology.Builder { return counting(store.InMemory()) }
			}
			c := w.config("app")
			r := w.start(b(), c).ready()
			w.send("words", "a=", "b=", "a=")
			w.settled("app", "words")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			c.StateDir = t.TempDir()
			r = w.start(b(), c).ready()
			restored := int64(0)
			for _, task := range r.app.Health().Tasks {
				for _, p := range task.Restores {
					restored += p.Records
				}
			}
			w.send("words", "a=")
			w.settled("app", "words")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			w.same("counts", w.counts("totals"), map[string]int64{"a": 3, "b": 1})
			if restored == 0 {
				t.Error("nothing was restored")
			}
		})
	}
}

// What is read from its end is so once: what comes while the application is down is read after, also from a partition that had nothing new before.
func TestFromLatest(t *testing.T) {
	for name, g := range map[string]Guarantee{"exactly once": ExactlyOnce, "at least once": AtLeastOnce} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
				job := func() *topology.Builder {
					b := topology.New()
					b.Stream(words, topology.From(topology.Latest)).GroupByKey().Count("counts", few).To(totals)
					return b
				}
				c := w.config("app")
				c.Guarantee = g
				w.send("words", "a=", "b=", "c=", "d=")
				r := w.start(job(), c).ready()
				w.wait(time.Second)
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				w.send("words", "a=", "b=", "c=", "d=")
				r = w.start(job(), c).ready()
				w.send("words", "a=")
				w.settled("app", "words")
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				w.same("counts", w.counts("totals"), map[string]int64{"a": 2, "b": 1, "c": 1, "d": 1})
			})
		})
	}
}

// Scaling 1 -> 3 -> 2 under load: results equal the batch.
func TestScale(t *testing.T) {
	inWorld(t, map[string]int32{"words": 4, "totals": 1}, func(w *world) {
		want := make(map[string]int64)
		send := func() {
			for _, k := range []string{"a", "b", "c", "d", "e", "f", "g"} {
				w.send("words", k+"=", k+"=")
				want[k] += 2
			}
		}
		first := w.start(counting(), w.config("app")).ready()
		send()
		second := w.start(counting(), w.config("app"))
		third := w.start(counting(), w.config("app"))
		send()
		second.ready()
		third.ready()
		w.wait(20 * time.Second)
		send()
		tasks := 0
		for _, r := range []*running{first, second, third} {
			h := r.app.Health()
			tasks += len(h.Tasks)
			if len(h.Tasks) == 0 {
				t.Errorf("an instance has no task: %s", h.Reason)
			}
		}
		if tasks != 4 {
			t.Errorf("%d tasks run, want 4", tasks)
		}
		if err := second.stop(); err != nil {
			t.Fatal(err)
		}
		send()
		w.settled("app", "words")
		for _, r := range []*running{first, third} {
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
		}
		w.same("counts", w.counts("totals"), want)
		// Every count was written once: nothing was doubled on the way.
		var all int64
		for _, n := range want {
			all += n
		}
		if got := int64(len(w.read("totals"))); got != all {
			t.Errorf("%d records in the output, want %d", got, all)
		}
	})
}

// An instance whose network is cut is a zombie: what it goes on doing must not show.
func TestZombie(t *testing.T) {
	inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
		zombie := w.start(counting(), w.config("app")).ready()
		w.send("words", "a=", "b=", "c=")
		w.settled("app", "words")
		zombie.cut.unplug()
		w.send("words", "a=", "b=", "c=")
		heir := w.start(counting(), w.config("app"))
		w.settled("app", "words")
		if err := heir.stop(); err != nil {
			t.Fatal(err)
		}
		w.same("counts", w.counts("totals"), map[string]int64{"a": 2, "b": 2, "c": 2})
		if n := len(w.read("totals")); n != 6 {
			t.Errorf("%d records in the output, want 6", n)
		}
	})
}

func TestRunsOnce(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		r := w.start(counting(), w.config("app")).ready()
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if err := r.app.Run(w.t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("second Run: %v", err)
		}
	})
}

// What a person has to mend is named, with the remedy, and Run ends.
func TestRefusedStarts(t *testing.T) {
	for name, test := range map[string]struct {
		topics map[string]int32
		before func(w *world)
		want   []string
	}{
		"source missing": {map[string]int32{"totals": 1}, nil, []string{"topic words", "does not exist", "create it"}},
		"sink missing":   {map[string]int32{"words": 1}, nil, []string{"topic totals", "is written but does not exist"}},
		"changelog with other partitions": {map[string]int32{"words": 2, "totals": 1, "app-counts-changelog": 3}, nil,
			[]string{"app-counts-changelog", "3", "2"}},
		"changelog that deletes": {map[string]int32{"words": 2, "totals": 1}, func(w *world) {
			w.create("app-counts-changelog", 2, "cleanup.policy", "delete")
		}, []string{"app-counts-changelog", "cleanup.policy", "kafka-configs"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, test.topics, func(w *world) {
				if test.before != nil {
					test.before(w)
				}
				err := w.start(counting(), w.config("app")).failed()
				topic, ok := errors.AsType[*TopicError](err)
				if !ok || topic.Remedy == "" {
					t.Fatalf("got %v", err)
				}
				for _, part := range test.want {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q is not in: %v", part, err)
					}
				}
			})
		})
	}
}

func TestNoBroker(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.Brokers = []string{"127.0.0.1:1"}
		err := w.start(counting(), c).failed()
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
			t.Errorf("got %v", err)
		}
	})
}

// Two processes on one StateDir: the second is refused, with the folder's name.
func TestStateDirInUse(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		w.start(counting(), c).ready()
		err := w.start(counting(), c).failed()
		if !errors.Is(err, ErrStateDir) || !strings.Contains(err.Error(), c.StateDir) {
			t.Errorf("got %v", err)
		}
	})
}
