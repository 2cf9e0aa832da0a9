package main

import (
	"testing"

	"github.com/kolkstreams/kolk/topology/topologytest"
)

func TestWordCount(t *testing.T) {
	top, err := wordCount()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top, topologytest.Partitions(4))
	in, out := d.Input(lines), d.Output(counts)

	in.Send("", "the quick the lazy")
	if got := out.Map(); got["the"] != 2 || got["quick"] != 1 || got["lazy"] != 1 {
		t.Errorf("counts %v", got)
	}

	d.Restart() // the disk is lost: the counts come back from the changelog
	in.Send("", "the")
	out.Next("the", 3)
	in.Send("", "")
	out.None()
}
