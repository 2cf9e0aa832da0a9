package main

import (
	"testing"
	"time"

	"github.com/kolkstreams/kolk/topology/topologytest"
)

func TestLowLevel(t *testing.T) {
	top, err := lowlevel()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top)
	in, gone, hot := d.Input(beats), d.Output(quiet), d.Output(loads)

	in.SendAt(d.At(0), "a", beat{0.1})
	in.SendAt(d.At(2*time.Minute), "b", beat{0.95})
	hot.Next("b", 0.95)
	in.SendAt(d.At(5*time.Minute), "b", beat{0.2})
	gone.None() // a has been quiet for five minutes, not for more

	d.Restart() // the disk is lost: the times come back from the changelog
	in.SendAt(d.At(6*time.Minute), "b", beat{0.2})
	gone.Next("a", "quiet since 00:00:00")
	in.SendAt(d.At(8*time.Minute), "b", beat{0.2})
	gone.None() // it is reported once
	hot.None()

	last := d.Store(lastSeen)
	if _, ok, err := last.Get(t.Context(), "a"); ok || err != nil {
		t.Errorf("a is still in the store (%v)", err)
	}
}
