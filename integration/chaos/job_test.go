package chaos

import (
	"testing"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/twmb/franz-go/pkg/kgo"
)

// unwatched is a meter that keeps nothing.
type unwatched struct{}

func (unwatched) Seen(int)     {}
func (unwatched) First(string) {}

// bench is a job in the test driver.
type bench struct {
	t      *testing.T
	job    Job
	driver *topologytest.Driver
	in     map[string]*topologytest.Input[string, string]
}

func newBench(t *testing.T, name string) *bench {
	t.Helper()
	j, err := NewJob(name, "app", 1)
	if err != nil {
		t.Fatal(err)
	}
	top, err := j.Topology(unwatched{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t, j, topologytest.New(t, top, topologytest.Partitions(2)), make(map[string]*topologytest.Input[string, string])}
	for _, topic := range j.Inputs() {
		b.in[topic] = b.driver.Input(topology.NewTopic(topic, serde.String(), serde.String()))
	}
	return b
}

// send gives records to the job and to its batch.
func (b *bench) send(records ...*kgo.Record) {
	b.t.Helper()
	for _, r := range records {
		if r.Value == nil {
			b.in[r.Topic].SendNullAt(r.Timestamp, string(r.Key))
		} else {
			b.in[r.Topic].SendAt(r.Timestamp, string(r.Key), string(r.Value))
		}
		if err := b.job.Add(r); err != nil {
			b.t.Fatal(err)
		}
	}
}

// rows are the last rows of all outputs, and of events how often they came.
func (b *bench) rows() map[Row]Value {
	b.t.Helper()
	rows := make(map[Row]Value)
	for output, o := range b.job.Outputs() {
		for _, r := range b.driver.Records(output) {
			row, v, err := b.job.Row(output, r.Key, r.Value)
			if err != nil {
				b.t.Fatal(err)
			}
			if o.Rule == Events {
				v.N = rows[row].N + 1
			}
			rows[row] = v
			if v == (Value{}) {
				delete(rows, row)
			}
		}
	}
	return rows
}
