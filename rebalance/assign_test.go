package rebalance

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// works makes the tasks of sub-topologies 0, 1, ... with the given numbers of
// partitions, all stateful and of version 1.
func works(partitions ...int) []Work {
	var ws []Work
	for sub, n := range partitions {
		for p := range n {
			ws = append(ws, Work{Task: Task{sub, int32(p)}, Fingerprint: 1, Stateful: true})
		}
	}
	return ws
}

// knowing makes a member with one worker that can run sub-topologies 0 to 9.
func knowing(id string, owned ...Task) Member {
	m := Member{ID: id, Process: id, Workers: 1, Owned: owned, Subs: map[int]uint64{}, Local: map[Task]int64{}}
	for sub := range 10 {
		m.Subs[sub] = 1
	}
	return m
}

// apply gives every member what the plan says.
func apply(plan Plan, members []Member) []Member {
	out := slices.Clone(members)
	for i := range out {
		out[i].Owned = plan.Tasks[out[i].ID]
	}
	return out
}

func TestAssignGoesWhereTheStateIs(t *testing.T) {
	a, b, c := knowing("a"), knowing("b"), knowing("c")
	b.Local[Task{0, 0}] = 1000
	c.Local[Task{0, 0}] = 990
	c.Local[Task{0, 1}] = 5
	plan := Assign(works(3), []Member{a, b, c})
	want := map[string][]Task{"a": {{0, 2}}, "b": {{0, 0}}, "c": {{0, 1}}}
	if d := cmp.Diff(want, plan.Tasks); d != "" {
		t.Error(d)
	}
}

func TestAssignGivesAwayWhatTheOtherHas(t *testing.T) {
	var owned []Task
	for _, w := range works(6) {
		owned = append(owned, w.Task)
	}
	a, b := knowing("a", owned...), knowing("b")
	for _, task := range owned {
		a.Local[task] = 1000
	}
	for _, p := range []int32{1, 3, 4} {
		b.Local[Task{0, p}] = 900
	}
	plan := Assign(works(6), []Member{a, b})
	want := []Move{{Task{0, 1}, "a", "b", 100}, {Task{0, 3}, "a", "b", 100}, {Task{0, 4}, "a", "b", 100}}
	if d := cmp.Diff(want, plan.Moves); d != "" {
		t.Error(d)
	}
}

func TestAssignBalancesStatefulTasksAndSubTopologies(t *testing.T) {
	work := works(4, 4, 4)
	for i := range work[8:] {
		work[8+i].Stateful = false
	}
	plan := Assign(work, []Member{knowing("a"), knowing("b")})
	for id, tasks := range plan.Tasks {
		counts := map[int]int{}
		for _, task := range tasks {
			counts[task.Sub]++
		}
		if want := map[int]int{0: 2, 1: 2, 2: 2}; !maps.Equal(counts, want) {
			t.Errorf("%s: tasks per sub-topology = %v, want %v", id, counts, want)
		}
	}
}

func TestAssignByWorkers(t *testing.T) {
	big := knowing("big")
	big.Workers = 3
	plan := Assign(works(8), []Member{big, knowing("small")})
	if n := len(plan.Tasks["big"]); n != 6 {
		t.Errorf("3 of 4 workers got %d of 8 tasks, want 6", n)
	}
}

// A member in the middle can take what the overloaded one has and give what
// the idle one knows.
func TestAssignBalancesThroughAThirdMember(t *testing.T) {
	only := func(id string, subs ...int) Member {
		m := knowing(id)
		m.Subs = map[int]uint64{}
		for _, s := range subs {
			m.Subs[s] = 1
		}
		return m
	}
	a, b, c := only("a", 0), only("b", 0, 1), only("c", 1)
	a.Owned = []Task{{0, 0}, {0, 1}, {0, 2}}
	b.Owned = []Task{{1, 0}, {1, 1}, {1, 2}}
	plan := Assign(works(3, 3), []Member{a, b, c})
	for id, tasks := range plan.Tasks {
		if len(tasks) != 2 {
			t.Errorf("%s has %v, want two tasks", id, tasks)
		}
	}
}

func TestAssignFingerprints(t *testing.T) {
	old, fresh := knowing("old"), knowing("fresh")
	fresh.Subs = map[int]uint64{0: 2, 1: 1}
	work := works(2, 2)
	work = append(work, Work{Task: Task{0, 2}, Fingerprint: 3})
	plan := Assign(work, []Member{old, fresh})
	want := Plan{
		Tasks:      map[string][]Task{"old": {{0, 0}, {0, 1}}, "fresh": {{1, 0}, {1, 1}}},
		Unassigned: []Task{{0, 2}},
	}
	if d := cmp.Diff(want, plan); d != "" {
		t.Error(d)
	}
}

func TestAssignWithoutMembersOrTasks(t *testing.T) {
	if plan := Assign(works(2), nil); len(plan.Unassigned) != 2 {
		t.Errorf("no members: %+v, want both tasks unassigned", plan)
	}
	plan := Assign(nil, []Member{knowing("a")})
	if tasks, ok := plan.Tasks["a"]; !ok || len(tasks) != 0 {
		t.Errorf("no tasks: %+v, want a with nothing", plan)
	}
}

// drawGroup draws an arbitrary group. Members know everything when uniform.
func drawGroup(t *rapid.T, maxTasks, maxMembers int, uniform bool) ([]Work, []Member) {
	var work []Work
	n := rapid.IntRange(0, maxTasks).Draw(t, "tasks")
	subs := rapid.IntRange(1, 3).Draw(t, "subs")
	for i := range n {
		sub := i % subs
		work = append(work, Work{
			Task:        Task{sub, int32(i / subs)},
			Fingerprint: 1,
			Stateful:    sub%2 == 0,
		})
	}
	var members []Member
	owned := map[Task]bool{}
	for i := range rapid.IntRange(1, maxMembers).Draw(t, "members") {
		m := knowing(fmt.Sprint("m", i))
		if !uniform {
			m.Workers = rapid.IntRange(0, 3).Draw(t, "workers")
			for sub := range subs {
				if rapid.IntRange(0, 3).Draw(t, "ignorant") == 0 {
					delete(m.Subs, sub)
				}
			}
		}
		for _, w := range work {
			if !owned[w.Task] && rapid.IntRange(0, 2).Draw(t, "owns") == 0 {
				m.Owned = append(m.Owned, w.Task)
				owned[w.Task] = true
			}
			if rapid.IntRange(0, 2).Draw(t, "local") == 0 {
				m.Local[w.Task] = rapid.Int64Range(0, 100).Draw(t, "position")
			}
		}
		members = append(members, m)
	}
	return work, members
}

func TestAssignProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uniform := rapid.Bool().Draw(t, "uniform")
		work, members := drawGroup(t, 24, 6, uniform)
		plan := Assign(work, members)
		checkComplete(t, work, members, plan)
		if uniform {
			checkBalanced(t, work, members, plan)
			checkFewestMoves(t, work, members, plan)
		}

		// The order of the input does not matter.
		shuffled := Assign(rapid.Permutation(work).Draw(t, "work"), rapid.Permutation(members).Draw(t, "members"))
		if d := cmp.Diff(plan, shuffled); d != "" {
			t.Fatalf("another order, another plan:\n%s", d)
		}
		// A plan carried out is left alone.
		again := Assign(work, apply(plan, members))
		if len(again.Moves) != 0 {
			t.Fatalf("second plan moves %v", again.Moves)
		}
		// Half carried out (tasks given up, not yet taken) it goes on
		// without taking anything away.
		half := slices.Clone(members)
		for i := range half {
			half[i].Owned = nil
			for _, task := range members[i].Owned {
				if slices.Contains(plan.Tasks[half[i].ID], task) {
					half[i].Owned = append(half[i].Owned, task)
				}
			}
		}
		if second := Assign(work, half); len(second.Moves) != 0 {
			t.Fatalf("second phase moves %v", second.Moves)
		}
	})
}

func checkComplete(t *rapid.T, work []Work, members []Member, plan Plan) {
	seen := map[Task]int{}
	byID := map[string]*Member{}
	for i := range members {
		byID[members[i].ID] = &members[i]
	}
	version := map[Task]Work{}
	for _, w := range work {
		version[w.Task] = w
	}
	for id, tasks := range plan.Tasks {
		for _, task := range tasks {
			seen[task]++
			w := version[task]
			if !byID[id].knows(&w) {
				t.Fatalf("%s got %s, which it does not know", id, task)
			}
		}
	}
	for _, task := range plan.Unassigned {
		seen[task]++
		for _, m := range members {
			w := version[task]
			if m.knows(&w) {
				t.Fatalf("%s is unassigned, yet %s knows it", task, m.ID)
			}
		}
	}
	for _, w := range work {
		if seen[w.Task] != 1 {
			t.Fatalf("%s was given out %d times", w.Task, seen[w.Task])
		}
	}
}

func checkBalanced(t *rapid.T, work []Work, members []Member, plan Plan) {
	stateful := map[Task]bool{}
	for _, w := range work {
		stateful[w.Task] = w.Stateful
	}
	var all, some []int
	for _, m := range members {
		n := 0
		for _, task := range plan.Tasks[m.ID] {
			if stateful[task] {
				n++
			}
		}
		all = append(all, len(plan.Tasks[m.ID]))
		some = append(some, n)
	}
	if slices.Max(all)-slices.Min(all) > 1 || slices.Max(some)-slices.Min(some) > 1 {
		t.Fatalf("tasks %v, stateful %v", all, some)
	}
}

// checkFewestMoves holds where all tasks are stateful: the members with most
// tasks keep the larger share, and only what is over the share moves.
func checkFewestMoves(t *rapid.T, work []Work, members []Member, plan Plan) {
	for _, w := range work {
		if !w.Stateful {
			return
		}
	}
	var owned []int
	for _, m := range members {
		owned = append(owned, len(m.Owned))
	}
	slices.SortFunc(owned, func(a, b int) int { return b - a })
	want := 0
	for i, n := range owned {
		share := len(work) / len(members)
		if i < len(work)%len(members) {
			share++
		}
		want += max(0, n-share)
	}
	if len(plan.Moves) != want {
		t.Fatalf("%d moves, want %d: %v", len(plan.Moves), want, plan.Moves)
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, size := range []struct{ tasks, members int }{{100, 5}, {1000, 20}, {5000, 50}} {
		b.Run(fmt.Sprintf("tasks=%d/members=%d", size.tasks, size.members), func(b *testing.B) {
			work := works(size.tasks/4, size.tasks/4, size.tasks/4, size.tasks/4)
			var members []Member
			for i := range size.members {
				members = append(members, knowing(fmt.Sprint("m", i)))
			}
			members = apply(Assign(work, members[1:]), members)
			for b.Loop() {
				Assign(work, members)
			}
		})
	}
}
