package rebalance

import (
	"cmp"
	"fmt"
)

// Task names one task: a sub-topology on one partition. It is comparable and
// has no meaning outside the topology that numbered the sub-topology.
type Task struct {
	Sub       int
	Partition int32
}

// String returns the task as operators know it, "0_3" for sub-topology 0 on
// partition 3.
func (t Task) String() string { return fmt.Sprintf("%d_%d", t.Sub, t.Partition) }

// Compare orders tasks by sub-topology, then by partition. It returns a
// negative number, zero or a positive number, as [cmp.Compare] does.
func (t Task) Compare(o Task) int {
	return cmp.Or(cmp.Compare(t.Sub, o.Sub), cmp.Compare(t.Partition, o.Partition))
}

// Work is a task that has to run somewhere, with what [Assign] must know of
// it.
type Work struct {
	Task Task
	// Fingerprint is the version of the sub-topology that the task runs
	// with. Only members that know the sub-topology by this fingerprint can
	// take the task.
	Fingerprint uint64
	// Stateful says that the task keeps state. Stateful tasks are balanced
	// among themselves, before the rest is.
	Stateful bool
}

// Member is one member of the group, as [Assign] sees it.
type Member struct {
	// ID tells the members of one group apart. It is the key of
	// [Plan.Tasks].
	ID string
	// InstanceID is the configured id of a static member, empty for others.
	// Together with Process it orders members that are otherwise equal, so
	// that a restart, which changes ID, does not change the plan.
	InstanceID string
	// Process is the id that the process keeps over restarts.
	Process string
	// Workers is the member's share of the work: twice the workers, twice
	// the tasks. Less than 1 counts as 1, more than 1024 as 1024.
	Workers int
	// Owned holds the tasks that run on the member now.
	Owned []Task
	// Local says how far the member's local state reaches, per task, in
	// changelog records (or offsets, if all members count in those). A task
	// that is absent has no local state; zero is an empty one.
	Local map[Task]int64
	// Subs holds the fingerprint of every sub-topology the member can run.
	Subs map[int]uint64
}

// knows reports whether m can run w.
func (m *Member) knows(w *Work) bool {
	fp, ok := m.Subs[w.Task.Sub]
	return ok && fp == w.Fingerprint
}

func compareMembers(a, b *Member) int {
	return cmp.Or(
		cmp.Compare(a.InstanceID, b.InstanceID),
		cmp.Compare(a.Process, b.Process),
		cmp.Compare(a.ID, b.ID),
	)
}

// Move is a task that leaves the member it runs on.
type Move struct {
	Task     Task
	From, To string // member ids
	// Lag is how much of the state To has to restore before the task can
	// run there, in the unit of [Member.Local], measured against the member
	// whose state reaches furthest.
	Lag int64
}

// Plan is what [Assign] decides.
type Plan struct {
	// Tasks holds the tasks of every member, in order. Every member is in
	// it, also one that gets nothing.
	Tasks map[string][]Task
	// Moves lists the tasks that leave a living owner, in order. Tasks that
	// had no owner are not moves.
	Moves []Move
	// Unassigned lists, in order, the tasks that no member can run.
	Unassigned []Task
}
