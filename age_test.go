package kolk

import (
	"testing"
	"time"
)

// A store that nothing changes for longer than deletes are kept must not be thrown away at the next start: the age of its checkpoint is what a restart judges it by.
func TestIdleForLong(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.InternalTopics.Config["delete.retention.ms"] = "300000"
		r := w.start(counting(), c).ready()
		w.send("words", "a=", "b=")
		w.settled("app", "words")
		w.wait(11 * time.Minute)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = w.start(counting(), c).ready()
		for _, task := range r.app.Health().Tasks {
			for _, p := range task.Restores {
				if p.Records > 0 {
					t.Errorf("%d records were read again", p.Records)
				}
			}
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	})
}
