package main

import (
	"fmt"

	"github.com/kolkstreams/kolk/integration/contract"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

// keys is how many keys a scenario may have before kolk calls it more than declared.
const keys = 5_000_000

// scenario builds the topology of a scenario.
func scenario(f contract.Flags) (*topology.Topology, error) {
	b := topology.New()
	in := topology.NewTopic(f.In[0], serde.String(), serde.Bytes())
	switch f.Scenario {
	case "count":
		out := topology.NewTopic(f.Out, serde.String(), serde.Int64())
		b.Stream(in).GroupByKey().Count("counts", store.FiniteKeys(keys)).To(out)
	default:
		return nil, fmt.Errorf("kolk's contender has no scenario %q, only count", f.Scenario)
	}
	return b.Build()
}
