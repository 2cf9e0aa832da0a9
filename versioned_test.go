package kolk

import (
	"slices"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/topology"
)

// A versioned table keeps its past over restarts, from the disk and from the changelog alone, and joins say why they found nothing.
func TestVersionedTable(t *testing.T) {
	job := func() *topology.Builder {
		b := topology.New()
		fares := b.VersionedTable("fares", usersTopic, few, 10*time.Minute)
		b.Stream(words).JoinAsOf(fares, func(ride, fare string) string { return ride + " " + fare }, topology.Named("charge")).To(painted)
		return b
	}
	inWorld(t, map[string]int32{"words": 2, "users": 2, "painted": 1}, func(w *world) {
		c := w.config("app")
		r := w.start(job(), c).ready()
		w.at(timed{"users", "k", "A", 100})
		w.at(timed{"users", "k", "C", 300})
		w.at(timed{"users", "k", "B", 200}) // into the past
		w.settled("app", "users")
		w.at(timed{"words", "k", "r1", 150})
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		want := []string{"r1 A"}
		for i, lose := range []bool{false, true} {
			if lose {
				c.StateDir = t.TempDir()
			}
			r = w.start(job(), c).ready()
			w.at(timed{"words", "k", []string{"r2", "r3"}[i], 250})
			w.at(timed{"words", "k", []string{"r4", "r5"}[i], 350})
			w.at(timed{"words", "k", []string{"r6", "r7"}[i], 50})
			w.at(timed{"words", "other", "nothing", 350})
			w.settled("app", "words")
			w.wait(time.Second)
			want = append(want, []string{"r2 B", "r3 B"}[i], []string{"r4 C", "r5 C"}[i])
			misses := make(map[processor.Reason]int64)
			for _, task := range r.app.Health().Tasks {
				for _, m := range task.Misses {
					if m.Join != "charge" {
						t.Errorf("misses of %s", m.Join)
					}
					misses[m.Cause] += m.Records
				}
			}
			if len(misses) != 2 || misses[processor.RowNewer] != 1 || misses[processor.NoRow] != 1 {
				t.Errorf("misses %v", misses)
			}
			if lose {
				w.at(timed{"users", "k", "D", 2000}) // all that was is out of reach now
				w.settled("app", "users")
				w.at(timed{"words", "k", "r8", 250})
				w.at(timed{"words", "k", "r9", 2100})
				w.settled("app", "words")
				want = append(want, "r9 D")
				w.wait(time.Second)
				expired := int64(0)
				for _, task := range r.app.Health().Tasks {
					expired += task.Dropped[string(processor.Expired)]
				}
				if expired != 1 { // it is not known any more what there was at the time of r8
					t.Errorf("%d records are older than the history", expired)
				}
			}
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(want)
		if got := w.values("painted"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
