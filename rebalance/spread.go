package rebalance

import "slices"

// Spread distributes the tasks of one process over its workers, which are
// numbered from 0. A task stays on its worker in current unless the numbers of
// tasks would then differ by more than one; the tasks of one sub-topology are
// spread as far as that allows. Entries of current that name no task of tasks,
// or no worker, are ignored. The result depends on the input alone, not on its
// order. It is empty if workers is less than 1.
func Spread(tasks []Task, workers int, current map[Task]int) map[Task]int {
	out := make(map[Task]int, len(tasks))
	if workers < 1 {
		return out
	}
	tasks = slices.Clone(tasks)
	slices.SortFunc(tasks, Task.Compare)
	tasks = slices.Compact(tasks)

	ones := make([]int, workers)
	allowed := make([]bool, workers)
	for i := range ones {
		ones[i], allowed[i] = 1, true
	}
	groups := make(map[int]int)
	for _, t := range tasks {
		if _, ok := groups[t.Sub]; !ok {
			groups[t.Sub] = len(groups)
		}
	}
	p := newPlacer(ones, len(groups))
	for _, t := range tasks {
		it := item{group: groups[t.Sub], cost: make([]cost, workers), allowed: allowed}
		if at, ok := current[t]; ok && at >= 0 && at < workers {
			for i := range it.cost {
				if i != at {
					it.cost[i][byMoves] = 1
				}
			}
		}
		p.insert(it) // every worker is allowed, so there is always a place
	}
	for i, t := range tasks {
		out[t] = p.at[i]
	}
	return out
}
