package main

import (
	"testing"
	"time"

	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

func start(t *testing.T) (d *topologytest.Driver, see func(minute int, visitor string, cents int64), out *topologytest.Output[window.Key[string], visit]) {
	t.Helper()
	top, err := sessions()
	if err != nil {
		t.Fatal(err)
	}
	d = topologytest.New(t, top)
	in := d.Input(clicks)
	see = func(minute int, visitor string, cents int64) {
		in.SendAt(d.At(time.Duration(minute)*time.Minute), visitor, click{"/", cents})
	}
	return d, see, d.Output(visits)
}

func between(d *topologytest.Driver, visitor string, from, to int) window.Key[string] {
	return window.Of(visitor, d.At(time.Duration(from)*time.Minute), d.At(time.Duration(to)*time.Minute))
}

func TestVisits(t *testing.T) {
	d, see, out := start(t)
	see(0, "ada", 0)
	see(10, "ada", 500)
	see(12, "bob", 0)
	d.Restart()          // the disk is lost, with two visitors in the house
	see(40, "ada", 70)   // half an hour is no pause yet
	see(46, "bob", 9900) // 34 minutes are, but his first visit can still be told of another click, for five more
	out.None()

	see(76, "eve", 0)
	out.Next(between(d, "bob", 12, 12), visit{1, 0})
	out.Next(between(d, "ada", 0, 40), visit{3, 570})
	out.None()
}

// A click that comes late makes one visit of two.
func TestLateClick(t *testing.T) {
	d, see, out := start(t)
	see(0, "ada", 1)
	see(31, "ada", 10)
	see(20, "ada", 100)
	see(100, "bob", 0)
	out.Next(between(d, "ada", 0, 31), visit{3, 111})
	out.None()
}

func TestRobot(t *testing.T) {
	d, see, out := start(t)
	for minute := 0; minute < 24*60; minute += 10 {
		see(minute, "robot", 0)
	}
	see(48*60, "ada", 0)
	out.Next(between(d, "robot", 0, 720), visit{73, 0})
	out.Next(between(d, "robot", 730, 1430), visit{71, 0})
	out.None()
}
