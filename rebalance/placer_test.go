package rebalance

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The placement is the cheapest of all there are.
func TestPlacerIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 3).Draw(t, "slots")
		workers := make([]int, slots)
		for i := range workers {
			workers[i] = rapid.IntRange(1, 3).Draw(t, "workers")
		}
		p := newPlacer(workers, 2)
		for range rapid.IntRange(1, 6).Draw(t, "items") {
			it := item{group: rapid.IntRange(0, 1).Draw(t, "group"), cost: make([]cost, slots), allowed: make([]bool, slots)}
			for i := range slots {
				it.allowed[i] = rapid.IntRange(0, 3).Draw(t, "allowed") > 0
				it.cost[i][byMoves] = rapid.Int64Range(0, 1).Draw(t, "moves")
				it.cost[i][byRestore] = rapid.Int64Range(0, 2).Draw(t, "restore")
				it.cost[i][byLag] = rapid.Int64Range(0, 9).Draw(t, "lag")
			}
			if _, ok := p.insert(it); ok != slices.Contains(it.allowed, true) {
				t.Fatalf("insert = %v, allowed %v", ok, it.allowed)
			}
		}
		got := totalCost(p, p.at)
		best := got
		try := make([]int, len(p.items))
		var walk func(x int)
		walk = func(x int) {
			if x == len(try) {
				if c := totalCost(p, try); c.less(best) {
					best = c
				}
				return
			}
			for i := range slots {
				if p.items[x].allowed[i] {
					try[x] = i
					walk(x + 1)
				}
			}
		}
		walk(0)
		if best.less(got) {
			t.Fatalf("placed at cost %v, possible %v", got, best)
		}
	})
}

func totalCost(p *placer, at []int) cost {
	var c cost
	load := make([]int64, p.slots)
	spread := make([][]int64, len(p.held))
	for g := range spread {
		spread[g] = make([]int64, p.slots)
	}
	for x, i := range at {
		c = c.plus(p.items[x].cost[i])
		load[i]++
		spread[p.items[x].group][i]++
	}
	for i, n := range load {
		c[byBalance] += n * n * p.unit[i]
		for g := range spread {
			c[bySpread] += spread[g][i] * spread[g][i] * p.unit[i]
		}
	}
	return c
}
