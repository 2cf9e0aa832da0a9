package main

import (
	"testing"

	"github.com/kolkstreams/kolk/topology/topologytest"
)

func TestEnrich(t *testing.T) {
	top, err := enrich()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top, topologytest.Partitions(3))
	in, table, out := d.Input(clicks), d.Input(profiles), d.Output(seen)

	in.Send("session 1", click{"ada", "/"})
	out.Next("ada", visit{"/", "unknown"})

	table.Send("ada", profile{"UK"})
	out.None() // a new row changes what comes, not what has been
	in.Send("session 2", click{"ada", "/engine"})
	out.Next("ada", visit{"/engine", "UK"})

	d.Restart() // the disk is lost: the table comes back from its changelog
	in.Send("session 2", click{"ada", "/notes"})
	out.Next("ada", visit{"/notes", "UK"})

	table.SendNull("ada") // deletes the row
	in.Send("session 2", click{"ada", "/bye"})
	out.Next("ada", visit{"/bye", "unknown"})
	out.None()
}
