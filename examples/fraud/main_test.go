package main

import (
	"testing"
	"time"

	"github.com/kolkstreams/kolk/topology/topologytest"
)

func pay(cents int64) cardEvent { return cardEvent{Kind: "payment", Cents: cents, Shop: "shop"} }

func TestFraud(t *testing.T) {
	top, err := fraud()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top)
	in, out := d.Input(events), d.Output(alerts)
	at := func(seconds int) time.Time { return d.At(time.Duration(seconds) * time.Second) }

	in.SendAt(at(0), "anna", pay(100))
	in.SendAt(at(1), "bert", pay(100))
	in.SendAt(at(2), "cleo", pay(100))
	in.SendAt(at(10), "anna", pay(150))
	in.SendAt(at(11), "bert", pay(150))
	in.SendAt(at(12), "cleo", pay(150))
	d.Restart() // in the middle of three partial matches, and the disk is lost
	in.SendAt(at(20), "anna", pay(3000))
	in.SendAt(at(21), "bert", cardEvent{Kind: "pin-change"})
	out.None()

	in.SendAt(at(30), "anna", pay(60_000))
	out.Next("anna", alert{"tested with small payments", "shop", 60_000, 30})
	in.SendAt(at(31), "bert", pay(70_000)) // whoever changes the PIN may be the owner
	in.SendAt(at(63), "cleo", pay(80_000)) // more than a minute after the first small one
	in.SendAt(at(70), "cleo", cardEvent{Kind: "confirmation"})
	out.None()

	// What was not confirmed in time is told when the time has passed, in order.
	in.SendAt(at(630), "dora", pay(1000))
	out.None()
	in.SendAt(at(632), "dora", pay(1000))
	out.Next("anna", alert{"not confirmed", "shop", 60_000, 0})
	out.Next("bert", alert{"not confirmed", "shop", 70_000, 0})
	in.SendAt(at(10_000), "dora", pay(1000))
	out.None()
}
