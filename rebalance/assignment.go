package rebalance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrMissingTopic is in the chain of [Assignment.Err] when the topology reads
// topics that the cluster does not have.
var ErrMissingTopic = errors.New("topic does not exist")

// Peer is one member of the group and what it runs.
type Peer struct {
	Process string // id that the process keeps over restarts
	Host    string // address for queries, empty if it has none
	Rack    string // empty if unknown
	// Active holds the partitions whose tasks the process runs, by topic.
	Active map[string][]int32
	// Standby holds the partitions for whose tasks it keeps copies of the
	// state. The classic protocol assigns none yet.
	Standby map[string][]int32
}

// Assignment is what the group last told this member.
type Assignment struct {
	// Tasks are this member's tasks, in order, numbered as in its own
	// [Config.SubTopologies].
	Tasks []Task
	// Peers are the members of the group, this one too, ordered by process.
	// Members that the leader could not read are not among them.
	Peers []Peer
	// Missing names the topics that the leader found not to exist. The
	// sub-topologies that read them get no new tasks until they do.
	Missing []string
	// Withheld counts the partitions in the whole group that nobody runs at
	// the moment because their owner is giving them up. Another rebalance
	// follows by itself.
	Withheld int
	// Rejoin says that the group does not know this member as it is now, or
	// waits for it, and that nothing else will bring it to rebalance: call
	// ForceRebalance on the client. It happens when a static member comes
	// back, because the broker then repeats the old assignment.
	Rejoin bool
}

// Err returns an error that names the topics in Missing, or nil. It wraps
// [ErrMissingTopic].
func (a *Assignment) Err() error {
	if len(a.Missing) == 0 {
		return nil
	}
	return fmt.Errorf("rebalance: assigning tasks: %w: %s; create it, the group assigns its tasks when it sees it",
		ErrMissingTopic, strings.Join(a.Missing, ", "))
}

// Owner returns the member that runs the task which reads the partition. It
// reports false while nobody does, as between the phases of a rebalance.
func (a *Assignment) Owner(topic string, partition int32) (Peer, bool) {
	for _, p := range a.Peers {
		if _, ok := slices.BinarySearch(p.Active[topic], partition); ok {
			return p, true
		}
	}
	return Peer{}, false
}

// newAssignment turns what came over the wire into what the member sees.
func newAssignment(d *syncData, own map[string][]int32, subs []SubTopology) *Assignment {
	a := &Assignment{Missing: d.missing, Withheld: d.withheld}
	expand := func(sets []partitionSet) map[string][]int32 {
		m := make(map[string][]int32, len(sets))
		for _, s := range sets {
			m[d.topics[s.topic]] = s.partitions
		}
		return m
	}
	for _, p := range d.peers {
		a.Peers = append(a.Peers, Peer{
			Process: p.process, Host: p.host, Rack: p.rack,
			Active: expand(p.active), Standby: expand(p.standby),
		})
	}
	for _, s := range subs {
		for _, topic := range s.Topics {
			for _, p := range own[topic] {
				a.Tasks = append(a.Tasks, Task{s.ID, p})
			}
		}
	}
	slices.SortFunc(a.Tasks, Task.Compare)
	a.Tasks = slices.Compact(a.Tasks)
	return a
}
