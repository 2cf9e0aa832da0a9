package kolk

import (
	"testing"
	"time"
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
