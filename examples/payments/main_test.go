package main

import (
	"testing"
	"time"

	"github.com/kolkstreams/kolk/topology/topologytest"
)

func TestUnpaid(t *testing.T) {
	top, err := unpaid()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top)
	in, paid, out := d.Input(orders), d.Input(payments), d.Output(statuses)
	at := func(minutes float64) time.Time { return d.At(time.Duration(minutes * float64(time.Minute))) }

	in.SendAt(at(0), "1", order{"anna", 2000})
	in.SendAt(at(1), "2", order{"bert", 3000})
	in.SendAt(at(2), "3", order{"cleo", 4000})
	paid.SendAt(at(5), "1", payment{"card", 2000})
	out.Next("1", status{"anna", 0, "card"})
	d.Restart() // in the middle, and the disk is lost
	out.None()

	// The payment was made in time and arrives late, within the grace.
	in.SendAt(at(31.5), "4", order{"dora", 100})
	paid.SendAt(at(30.9), "2", payment{"transfer", 2500})
	out.Next("2", status{"bert", 500, "transfer"})

	// Half an hour and a minute after the third order somebody else's record says so. A payment at the last moment would have come in time.
	paid.SendAt(at(33), "9", payment{"card", 1})
	out.None()
	paid.SendAt(at(33.1), "9", payment{"card", 1})
	out.Next("3", status{"cleo", 4000, ""})
	in.SendAt(at(90), "5", order{"emil", 100})
	out.Next("4", status{"dora", 100, ""})
	out.None()
}
