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

// Job is a topology with its input and with a batch computation of its result. It belongs to one goroutine.
type Job interface {
	Inputs() []string           // topics that the job reads, internal ones aside
	Outputs() map[string]string // topics that it writes, with the changelog of the store behind each
	Internal() []string         // its repartition topics
	Tasks(partitions int32) int

	// Topology is the job as an instance runs it. It tells the meter of every update before the state can have been written.
	Topology(m Meter) (*topology.Topology, error)

	First() []*kgo.Record // what must be in the input before anything else
	Next() *kgo.Record    // one more record of input
	Touch() []*kgo.Record // records that update every row that Next has updated
	Sent() int64          // how many records all of them have made

	// Add takes a record of the input into the batch, and Want is what comes of all that was added.
	Add(*kgo.Record) error
	Want() map[Row]Value
	// Row decodes a record of an output topic or of its changelog.
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
