package chaos

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Row names a row of a result: which output, and its key as text.
type Row struct{ Output, Key string }

// Value is what a row holds: how many records went into it, and the sum of what they say, if they say something.
type Value struct{ N, Sum int64 }

// Output is a topic that a job writes.
type Output struct {
	Rule      Rule
	Changelog string // topic of the store behind it; empty if there is none that has the same rows
}

// Rule says what must hold for the records of an output.
type Rule int

// The rules.
const (
	// Counted rows count their own updates: 1, 2, and so on, each once. Under at-least-once they may count too far.
	Counted Rule = iota
	// Versions replace each other and never go back, and may be deleted. N is the version of the left row, Sum that of the right one, 0 if there is none.
	// Under at-least-once older ones may come again; the last is the right one all the same.
	Versions
	// Totals go up and down, and the last one counts. Under at-least-once they say nothing.
	Totals
	// Events are records that come as often as the batch says, each a row of its own that is N times there. Under at-least-once they may come more often.
	Events
)

// Job is a topology with its input and with a batch computation of its result. It belongs to one goroutine.
type Job interface {
	Inputs() []string           // topics that the job reads, internal ones aside
	Outputs() map[string]Output // topics that it writes
	Internal() []string         // its repartition topics, and those of its foreign-key joins
	Tasks(partitions int32) int

	// Topology is the job as an instance runs it. It tells the meter of every update before the state can have been written.
	Topology(m Meter) (*topology.Topology, error)

	First() []*kgo.Record // what must be in the input before anything else
	Next() *kgo.Record    // one more record of input
	Touch() []*kgo.Record // records that update every row that Next has updated
	Last() []*kgo.Record  // what may be in the input only when everything else is
	Sent() int64          // how many records all of them have made

	// Add takes a record of the input into the batch, and Want is what comes of all that was added.
	Add(*kgo.Record) error
	Want() map[Row]Value
	// Row decodes a record of an output topic or of its changelog. A nil value is a row that was deleted, and no value.
	Row(output string, key, value []byte) (Row, Value, error)

	// Slots is how many counters a meter needs, and Slot the one in which updates of a row are counted.
	Slots() int
	Slot(Row) int
}

// Meter is told what an instance does.
type Meter interface {
	// Seen counts a record that is being processed.
	Seen(slot int)
	// First is told of the first record of a task since its operators were made.
	First(task string)
}

// Jobs are the jobs by name.
var Jobs = map[string]func(application string, seed uint64) (Job, error){
	"count":   newCount,
	"flights": newFlights,
	"foreign": newForeign,
	"pairs":   newPairs,
	"wide":    newWide, // count, with a million rows
}

// NewJob makes a job by its name.
func NewJob(name, application string, seed uint64) (Job, error) {
	f, ok := Jobs[name]
	if !ok {
		return nil, fmt.Errorf("there is no job %q; use one of %v", name, slices.Sorted(maps.Keys(Jobs)))
	}
	return f(application, seed)
}
