package rebalance

import (
	"cmp"
	"slices"
)

// restoreSteps is the grain in which states of different members are compared
// before the spread of sub-topologies counts: whoever lacks less than a
// sixteenth of a task's state has it, for this purpose.
const restoreSteps = 16

// Assign distributes the work over the members. The plan is the best one by
// these rules, each of which only decides between plans that are equal by the
// rules before it:
//
//  1. Stateful tasks are balanced by the members' workers, then all tasks
//     are. Members with equally many workers that can run the same tasks
//     differ by one task at most.
//  2. A task stays on the member that owns it.
//  3. A task that has no owner, or has to leave it, goes where the least of
//     its state is missing.
//  4. The tasks of one sub-topology are spread over the members.
//
// A task goes only to a member that knows its sub-topology by the same
// fingerprint; one that no member knows is reported in [Plan.Unassigned].
//
// The result depends on the input alone, not on its order. Doubled tasks and
// doubled member ids count once. If two members claim a task, the first by
// instance id, process and id is taken for the owner. Assign is safe for
// concurrent use and keeps nothing of its arguments.
func Assign(work []Work, members []Member) Plan {
	plan := Plan{Tasks: make(map[string][]Task, len(members))}
	ms := make([]*Member, 0, len(members))
	for i := range members {
		ms = append(ms, &members[i])
	}
	slices.SortStableFunc(ms, compareMembers)
	ms = slices.DeleteFunc(ms, func(m *Member) bool {
		_, double := plan.Tasks[m.ID]
		plan.Tasks[m.ID] = nil
		return double
	})
	ws := slices.Clone(work)
	slices.SortStableFunc(ws, func(a, b Work) int {
		return cmp.Or(a.Task.Compare(b.Task), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	ws = slices.CompactFunc(ws, func(a, b Work) bool { return a.Task == b.Task })

	owner := make(map[Task]int)
	workers := make([]int, len(ms))
	for i, m := range ms {
		workers[i] = m.Workers
		for _, t := range m.Owned {
			if _, taken := owner[t]; !taken {
				owner[t] = i
			}
		}
	}
	groups := make(map[int]int) // sub-topology -> group of the placer
	for i := range ws {
		if _, ok := groups[ws[i].Task.Sub]; !ok {
			groups[ws[i].Task.Sub] = len(groups)
		}
	}

	p := newPlacer(workers, len(groups))
	type placed struct{ work, index int }
	var done []placed
	for _, stateful := range []bool{true, false} {
		for i := range ws {
			w := &ws[i]
			if w.Stateful != stateful {
				continue
			}
			own, ok := owner[w.Task]
			if !ok {
				own = -1
			}
			index, ok := p.insert(workItem(w, groups[w.Task.Sub], ms, own))
			if !ok {
				plan.Unassigned = append(plan.Unassigned, w.Task)
				continue
			}
			done = append(done, placed{i, index})
		}
		p.settle()
	}

	for _, d := range done {
		w, at := &ws[d.work], p.at[d.index]
		to := ms[at]
		plan.Tasks[to.ID] = append(plan.Tasks[to.ID], w.Task)
		if own, ok := owner[w.Task]; ok && own != at {
			lag := furthest(w.Task, ms) - max(to.Local[w.Task], 0)
			plan.Moves = append(plan.Moves, Move{w.Task, ms[own].ID, to.ID, lag})
		}
	}
	for _, tasks := range plan.Tasks {
		slices.SortFunc(tasks, Task.Compare)
	}
	slices.SortFunc(plan.Moves, func(a, b Move) int { return a.Task.Compare(b.Task) })
	slices.SortFunc(plan.Unassigned, Task.Compare)
	return plan
}

// furthest is the position that the most complete local state of t reaches.
func furthest(t Task, ms []*Member) int64 {
	var most int64
	for _, m := range ms {
		most = max(most, m.Local[t])
	}
	return most
}

func workItem(w *Work, group int, ms []*Member, owner int) item {
	it := item{group: group, cost: make([]cost, len(ms)), allowed: make([]bool, len(ms))}
	most := furthest(w.Task, ms)
	for i, m := range ms {
		it.allowed[i] = m.knows(w)
		c := &it.cost[i]
		if owner >= 0 && owner != i {
			c[byMoves] = 1
		}
		pos, has := m.Local[w.Task]
		pos = max(pos, 0)
		c[byLag] = most - pos
		switch {
		case !has:
			c[byRestore] = restoreSteps
		case most > 0:
			share := int64(restoreSteps * (float64(most-pos) / float64(most)))
			c[byRestore] = min(share, restoreSteps-1)
		}
	}
	return it
}
