package topology_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

type (
	search struct{ Text string }
	click  struct{ Result int }
)

var (
	searches = topology.NewTopic("searches", serde.String(), serde.JSON[search]())
	clicks   = topology.NewTopic("clicks", serde.String(), serde.JSON[click]())
	verdicts = topology.NewTopic("verdicts", serde.String(), serde.String())
)

// Searches with the clicks that follow within a minute, by visitor; those that nobody clicked on are told when the minute and the grace have passed.
func ExampleStream_LeftJoin() {
	b := topology.New()
	minute := window.Following(time.Minute).Grace(5 * time.Second)
	b.Stream(searches).LeftJoin("clicked", b.Stream(clicks), minute, func(s search, c *click) string {
		if c == nil {
			return s.Text + ": nothing"
		}
		return fmt.Sprintf("%s: result %d", s.Text, c.Result)
	}).To(verdicts)
	top, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	d := topologytest.New(new(testing.T), top)
	d.Input(searches).SendAt(d.At(0), "anna", search{"boots"})
	d.Input(searches).SendAt(d.At(10*time.Second), "bert", search{"gloves"})
	d.Input(clicks).SendAt(d.At(50*time.Second), "anna", click{3})
	d.Input(clicks).SendAt(d.At(80*time.Second), "anna", click{4}) // more than a minute later
	for _, r := range d.Records("verdicts") {
		fmt.Printf("%s: %s\n", r.Key, r.Value)
	}
	// Output:
	// anna: boots: result 3
	// bert: gloves: nothing
}
