package topologytest_test

import (
	"fmt"
	"log"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

// t stands for the *testing.T of a test.
var t topologytest.TB = printing{}

type printing struct{}

func (printing) Helper()                           {}
func (printing) Cleanup(func())                    {}
func (printing) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

func Example() {
	sales := topology.NewTopic("sales", serde.String(), serde.Int64())
	byShop := topology.NewTopic("by-shop", serde.String(), serde.Int64())
	b := topology.New()
	b.Stream(sales).GroupByKey().
		Reduce("by-shop", store.FiniteKeys(100), func(sum, v int64) int64 { return sum + v }).
		To(byShop)
	top, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	d := topologytest.New(t, top, topologytest.Partitions(4), topologytest.ManualCommit())
	in, out := d.Input(sales), d.Output(byShop)
	in.SendAt(d.At(time.Minute), "bonn", 100)
	d.Commit()
	in.SendAt(d.At(2*time.Minute), "bonn", 50)
	for _, r := range out.Take() {
		fmt.Println(r)
	}

	d.Abort() // the second sale is counted once more, not twice
	d.Crash() // the changelog knows what the store on disk does not
	in.SendAt(d.At(3*time.Minute), "bonn", 7)
	for _, r := range out.Take() {
		fmt.Println(r)
	}
	// Output:
	// bonn=100 at 2026-01-01T00:01:00.000Z
	// bonn=150 at 2026-01-01T00:02:00.000Z
	// bonn=150 at 2026-01-01T00:02:00.000Z
	// bonn=157 at 2026-01-01T00:03:00.000Z
}
