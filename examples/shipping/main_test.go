package main

import (
	"testing"

	"github.com/kolkstreams/kolk/topology/topologytest"
)

func TestShipping(t *testing.T) {
	top, err := shipping()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top, topologytest.Partitions(3), topologytest.Topic("customers", 2))
	order1, people, out := d.Input(orders), d.Input(customers), d.Output(labels)

	people.Send("7", customer{"Ada", "London"})
	order1.Send("o1", order{"7", "engine"})
	out.Next("o1", label{"engine", "Ada", "London"})
	order1.Send("o2", order{"8", "compiler"}) // nobody knows 8
	order1.Send("o3", order{"7", "notes"})
	out.Next("o3", label{"notes", "Ada", "London"})
	out.None()

	d.Restart() // the disk is lost: who waits for whom comes back from the changelog
	people.Send("7", customer{"Ada", "Paris"})
	want := map[string]label{"o1": {"engine", "Ada", "Paris"}, "o3": {"notes", "Ada", "Paris"}}
	if got := out.Map(); len(got) != 2 || got["o1"] != want["o1"] || got["o3"] != want["o3"] {
		t.Errorf("labels after the move %v, want %v", got, want)
	}
	people.Send("8", customer{"Grace", "New York"})
	out.Next("o2", label{"compiler", "Grace", "New York"})

	order1.SendNull("o1") // it was sent
	out.NextDeleted("o1")
	order1.Send("o3", order{"8", "notes"}) // somebody else pays
	out.Next("o3", label{"notes", "Grace", "New York"})
	people.Send("7", customer{"Ada", "Rome"})
	out.None()
	people.SendNull("8")
	if got := out.Take(); len(got) != 2 || !got[0].Deleted || !got[1].Deleted {
		t.Errorf("labels of a customer who is gone: %v", got)
	}
}
