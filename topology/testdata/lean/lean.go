// Package lean is a small topology: a stream and a count. A test looks at what a program that uses it has to compile.
package lean

import (
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

type order struct{ Cents int64 }

// Build declares it.
func Build() (*topology.Topology, error) {
	b := topology.New()
	b.Stream(topology.NewTopic("orders", serde.String(), serde.JSON[order]())).
		Filter(func(_ string, o order) bool { return o.Cents > 0 }).
		GroupByKey().
		Count("orders-by-customer", store.FiniteKeys(1000)).
		To(topology.NewTopic("counts", serde.String(), serde.Int64()))
	return b.Build()
}
