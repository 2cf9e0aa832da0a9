package engine

import (
	"cmp"
	"fmt"

	"github.com/kolkstreams/kolk/internal/state"
)

// Graph is a built topology as the engine runs it.
type Graph struct {
	Subs    []*Sub
	Globals []*GlobalTable
	// DeadLetters are the dead letter topics that any node names, each once.
	DeadLetters []string
}

// Sub is a sub-topology: the nodes connected without going through a topic. A task is a Sub on one partition.
type Sub struct {
	ID      int
	Inputs  []*Input
	Stores  []*state.Decl // a store's slot is its index
	Outputs []*Output     // topics it writes to, dead letters left out
	Nodes   []*Node
	// Owner names what the sub-topology owns, for directories: it does not change when other parts of the graph do.
	Owner string
	// Copartitioned are groups of indexes into Inputs that must have equal partition counts, each with the node that demands it.
	Copartitioned []Copartition
	// Build makes the operators of one task and registers them with it.
	Build func(*Task) error
}

// Copartition is a demand for equal partition counts.
type Copartition struct {
	Node   *Node
	Inputs []int
}

// TaskID is the id of the sub-topology's task on a partition.
func (s *Sub) TaskID(partition int32) string { return fmt.Sprintf("%d_%d", s.ID, partition) }

// Stateful says whether the sub-topology owns stores.
func (s *Sub) Stateful() bool { return len(s.Stores) > 0 }

// Topic is a topic of the graph.
type Topic struct {
	Name string // the user's name, or the name inside `<app>-<name>-<ending>`
	// Repartition says that the topic is internal.
	Repartition bool
	Version     int // of a repartition topic that belongs to a versioned store
	// Ending ends the name of an internal topic; empty is "repartition".
	Ending string
}

// Full is the topic's name on the broker.
func (t Topic) Full(app string) string {
	if !t.Repartition {
		return t.Name
	}
	ending := cmp.Or(t.Ending, "repartition")
	if t.Version > 0 {
		return fmt.Sprintf("%s-%s-v%d-%s", app, t.Name, t.Version, ending)
	}
	return fmt.Sprintf("%s-%s-%s", app, t.Name, ending)
}

// Start is where an input begins on a partition without committed offset.
type Start struct {
	Latest bool
	Back   int64 // ms; with Latest unset and Back > 0 the first record not older than that
}

// Input is a topic that a sub-topology reads.
type Input struct {
	Topic
	Node       *Node
	Partitions int32 // wanted number of a repartition topic; 0 follows the sources
	// Follows is an input of the same sub-topology whose number of partitions the internal topic has, as those of a foreign-key join do; nil if it
	// goes by the rules of Layout.
	Follows *Input
	Start   Start
	// Tables are the stores that are restored from this topic instead of a changelog.
	Tables []*state.Decl
	// Placed says that it matters in which partition a key lies, and that others than kolk may have put it there: a sample is checked.
	Placed bool
	// Own says that the topic has a partitioner of its own.
	Own bool
}

// Output is a topic that a sub-topology writes.
type Output struct {
	Topic
	Node *Node
	// Dynamic says that Name only names the sink: each record names its topic.
	Dynamic bool
}

// Node is one place in the graph.
type Node struct {
	Name  string
	Place string // file:line of the declaration
	// Parents are the nodes of the same sub-topology that it gets its records from.
	Parents []*Node
	// OnError is what becomes of records that fail here; the zero Policy means the application's.
	OnError Policy
	// OnDrop is what becomes of records that are dropped here.
	OnDrop []DropRule
	// Stores are the names of the stores that a user's processor may open.
	Stores []string
}

// Policy is what to do with a record that failed or is dropped.
type Policy struct {
	Kind  PolicyKind
	Topic string // of DeadLetter
}

// PolicyKind is the kind of a Policy.
type PolicyKind uint8

// The kinds. Unset leaves it to the application.
const (
	Unset PolicyKind = iota
	Stop
	Skip
	DeadLetter
)

// DropRule is a policy for records dropped for some reasons.
type DropRule struct {
	Policy  Policy
	Reasons []string // none means those that lose data nobody meant to lose
}

// Lossy are the reasons that a DropRule without reasons holds for.
var Lossy = []string{"late", "expired", "ahead", "null_key", "null_value", "no_time"}
