package kolk

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Health shows how a global table was copied, how large it is and what was left out; a topic that is not compacted is a notice, and logged.
func TestGlobalTableHealth(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "painted": 1}, func(w *world) {
		w.create("colors", 2, "cleanup.policy", "compact")
		w.send("colors", "c0=red", "c1=green", "c2=blue", "c3=old", "c3=new")
		if err := w.cl.ProduceSync(w.t.Context(), &kgo.Record{Topic: "colors", Value: []byte("no key")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		c := w.config("paint")
		var told atomic.Int64
		c.Hooks = &Hooks{OnRestore: func(p RestoreProgress) {
			if p.Task == "global" && p.Store == "palette" && p.Done {
				told.Add(1)
			}
		}}
		r := w.start(painting(), c).ready()
		h := r.app.Health()
		if len(h.Globals) != 1 || h.Degraded() {
			t.Fatalf("health %+v", h)
		}
		g := h.Globals[0]
		var records, done int64
		for _, p := range g.Restores {
			if records += p.Records; p.Done && p.Topic == "colors" && p.Store == "palette" && p.Position == p.End {
				done++
			}
		}
		if g.Topic != "colors" || g.Store.Name != "palette" || g.Store.Entries != 4 || g.Store.Expected != 100 || g.Dropped["null_key"] != 1 || records != 6 || done != 2 || told.Load() < 2 {
			t.Errorf("%+v, told %d", g, told.Load())
		}
		w.send("colors", "c9=black")
		if err := w.cl.ProduceSync(w.t.Context(), &kgo.Record{Topic: "colors", Value: []byte("no key")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.wait(5 * time.Second)
		if g := r.app.Health().Globals[0]; g.Store.Entries != 5 || g.Dropped["null_key"] != 2 {
			t.Errorf("later: %+v", g)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if g := r.app.Health().Globals[0]; g.Store.Entries != 5 {
			t.Errorf("closed: %+v", g)
		}
	})
	inWorld(t, map[string]int32{"words": 1, "painted": 1}, func(w *world) {
		w.create("colors", 1, "cleanup.policy", "delete")
		r := w.start(painting(topology.Named("t")), w.config("paint")).ready()
		h := r.app.Health()
		if len(h.Notices) != 1 || h.Notices[0].Subject != "global table palette" || !strings.Contains(h.Notices[0].Problem, "cleanup.policy=delete") || !strings.Contains(h.Notices[0].Remedy, "cleanup.policy=compact") {
			t.Errorf("notices %+v", h.Notices)
		}
	})
}
