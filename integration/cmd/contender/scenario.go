package main

import (
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/integration/contract"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

// keys is how many keys a scenario may have before kolk calls it more than declared.
const keys = 5_000_000

// The windows of the scenarios window and ssjoin.
var (
	minutes = window.Tumbling(time.Minute).Grace(10 * time.Second)
	near    = window.Within(10 * time.Second).Grace(30 * time.Second)
)

// scenario builds the topology of a scenario.
func scenario(f contract.Flags) (*topology.Topology, error) {
	b := topology.New()
	in := topology.NewTopic(f.In[0], serde.String(), serde.Bytes())
	switch f.Scenario {
	case "count":
		out := topology.NewTopic(f.Out, serde.String(), serde.Int64())
		b.Stream(in).GroupByKey().Count("counts", store.FiniteKeys(keys)).To(out)
	case "count-cached":
		out := topology.NewTopic(f.Out, serde.String(), serde.Int64())
		b.Stream(in).GroupByKey().Count("counts", store.FiniteKeys(keys)).OnCommit().To(out)
	case "window":
		out := topology.NewTopic(f.Out, window.KeySerde(serde.String(), minutes), serde.Int64())
		b.Stream(in).GroupByKey().Windowed(minutes).Count("counts").To(out)
	case "join", "ssjoin":
		if len(f.In) != 2 {
			return nil, fmt.Errorf("scenario %s takes 2 input topics, not %q", f.Scenario, f.In)
		}
		right := topology.NewTopic(f.In[1], serde.String(), serde.Bytes())
		out := topology.NewTopic(f.Out, serde.String(), serde.Bytes())
		if f.Scenario == "join" {
			b.Stream(in).JoinTable(b.Table("table", right, store.FiniteKeys(keys)), numbers).To(out)
		} else {
			b.Stream(in).Join("join", b.Stream(right), near, numbers).To(out)
		}
	case "dedup":
		b.Stream(in).Deduplicate("ids", time.Hour, func(id string, _ []byte) string { return id }).To(topology.NewTopic(f.Out, serde.String(), serde.Bytes()))
	default:
		return nil, fmt.Errorf("kolk's contender has no scenario %q, only count, count-cached, window, join, ssjoin and dedup", f.Scenario)
	}
	return b.Build()
}

// numbers is what both sides of a joined record begin with.
func numbers(left, right []byte) []byte {
	out := make([]byte, 0, 16)
	return append(append(out, left[:8]...), right[:8]...)
}
