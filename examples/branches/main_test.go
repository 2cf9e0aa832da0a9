package main

import (
	"testing"

	"github.com/kolkstreams/kolk/topology/topologytest"
)

func TestBranches(t *testing.T) {
	top, err := branches()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top, topologytest.Partitions(2))
	online, calls := d.Input(web), d.Input(phone)
	big, far, rest := d.Output(large), d.Output(abroad), d.Output(others)

	online.Send("1", order{"DE", 500})
	rest.Next("1", order{"DE", 500})
	online.Send("2", order{"FR", 500})
	far.Next("2", order{"FR", 500})
	calls.Send("3", call{"FR", 10_000}) // the first branch that takes it has it
	big.Next("3", order{"FR", 1_000_000})
	calls.Send("4", call{"DE", 9_999})
	rest.Next("4", order{"DE", 999_900})

	big.None()
	far.None()
	rest.None()
}
