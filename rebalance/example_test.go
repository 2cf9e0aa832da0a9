package rebalance_test

import (
	"fmt"

	"github.com/kolkstreams/kolk/rebalance"
)

// One member runs all four tasks when another joins, which has an old copy of
// the state of task 0_2.
func ExampleAssign() {
	var work []rebalance.Work
	for p := range int32(4) {
		work = append(work, rebalance.Work{Task: rebalance.Task{Sub: 0, Partition: p}, Fingerprint: 1, Stateful: true})
	}
	task := func(p int32) rebalance.Task { return rebalance.Task{Sub: 0, Partition: p} }
	knows := map[int]uint64{0: 1}
	plan := rebalance.Assign(work, []rebalance.Member{
		{
			ID: "a", Workers: 1, Subs: knows,
			Owned: []rebalance.Task{task(0), task(1), task(2), task(3)},
			Local: map[rebalance.Task]int64{task(0): 900, task(1): 900, task(2): 900, task(3): 900},
		},
		{ID: "b", Workers: 1, Subs: knows, Local: map[rebalance.Task]int64{task(2): 850}},
	})
	fmt.Println("a:", plan.Tasks["a"])
	fmt.Println("b:", plan.Tasks["b"])
	for _, m := range plan.Moves {
		fmt.Printf("%s moves from %s to %s, %d records to restore\n", m.Task, m.From, m.To, m.Lag)
	}
	// Output:
	// a: [0_0 0_1]
	// b: [0_2 0_3]
	// 0_2 moves from a to b, 50 records to restore
	// 0_3 moves from a to b, 900 records to restore
}

// Three workers share five tasks; those that run already stay.
func ExampleSpread() {
	tasks := []rebalance.Task{{Partition: 0}, {Partition: 1}, {Partition: 2}, {Partition: 3}, {Partition: 4}}
	running := map[rebalance.Task]int{{Partition: 1}: 2, {Partition: 3}: 0}
	workers := rebalance.Spread(tasks, 3, running)
	fmt.Println("0_1 on", workers[rebalance.Task{Partition: 1}], "and 0_3 on", workers[rebalance.Task{Partition: 3}])
	// Output:
	// 0_1 on 2 and 0_3 on 0
}
