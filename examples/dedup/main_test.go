package main

import (
	"testing"
	"time"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

func TestDedup(t *testing.T) {
	top, err := dedup()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top, topologytest.Partitions(3))
	in, out := d.Input(payments), d.Output(once)
	pay := func(hour int, shop, id string, cents int64) {
		in.SendAt(d.At(time.Duration(hour)*time.Hour), shop, payment{id, cents})
	}

	pay(1, "bonn", "p1", 100)
	out.Next("bonn", payment{"p1", 100})
	pay(1, "bonn", "p1", 100)
	d.Restart() // the disk is lost: the ids come back from the changelog
	pay(25, "bonn", "p1", 100)
	out.None()

	pay(25, "bonn", "p2", 100)
	out.Next("bonn", payment{"p2", 100})
	pay(2, "bonn", "p2", 100) // the earlier one arrives last
	out.None()

	pay(25, "kiel", "p1", 700) // another shop, another payment
	out.Next("kiel", payment{"p1", 700})
	pay(26, "bonn", "p1", 900) // a day is over: the till counts anew
	out.Next("bonn", payment{"p1", 900})
	out.None()
	if n := len(d.Drops(processor.Duplicate)); n != 3 {
		t.Errorf("%d duplicates were counted, want 3", n)
	}
}
