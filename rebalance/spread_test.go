package rebalance

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 5).Draw(t, "workers")
		var tasks []Task
		for i := range rapid.IntRange(0, 20).Draw(t, "tasks") {
			tasks = append(tasks, Task{i % 3, int32(i / 3)})
		}
		current := map[Task]int{}
		for _, task := range tasks {
			if at := rapid.IntRange(-1, workers).Draw(t, "at"); at >= 0 {
				current[task] = at
			}
		}
		got := Spread(tasks, workers, current)
		counts := make([]int, workers)
		for _, task := range tasks {
			at, ok := got[task]
			if !ok || at < 0 || at >= workers {
				t.Fatalf("%s is on worker %d, %v", task, at, ok)
			}
			counts[at]++
		}
		if len(got) != len(tasks) || slices.Max(counts)-slices.Min(counts) > 1 {
			t.Fatalf("%d tasks placed as %v", len(tasks), counts)
		}
		if again := Spread(rapid.Permutation(tasks).Draw(t, "order"), workers, got); !maps.Equal(again, got) {
			t.Fatalf("%v was moved to %v", got, again)
		}
	})
}

func TestSpreadKeepsWhatRuns(t *testing.T) {
	tasks := []Task{{0, 0}, {0, 1}, {0, 2}, {0, 3}}
	got := Spread(tasks, 2, map[Task]int{{0, 0}: 1, {0, 1}: 1, {0, 2}: 1})
	stayed := 0
	for _, task := range tasks[:3] {
		if got[task] == 1 {
			stayed++
		}
	}
	if stayed != 2 {
		t.Errorf("Spread = %v, want two of the three to stay", got)
	}
	if got := Spread(tasks, 0, nil); len(got) != 0 {
		t.Errorf("no workers: %v, want nothing", got)
	}
}
