package topology_test

import (
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

// windowTask sends records to a task that counts in windows of a minute.
func windowTask(t *testing.T) (send func()) {
	w := run(t, func(b *topology.Builder) {
		b.Stream(words).GroupByKey().Windowed(window.Tumbling(time.Minute)).Count("counts")
	})
	task := w.tasks[0]
	key, value := []byte("key"), []byte("v")
	recs := make([]engine.Record, 1)
	offset := int64(0)
	return func() {
		recs[0] = engine.Record{Key: key, Value: value, Time: 1000, Offset: offset}
		offset++
		task.Add(0, recs, offset, offset)
		if _, err := task.Process(0); err != nil {
			t.Fatal(err)
		}
	}
}

// Counting in a window that is there allocates nothing but the string of the record's key, which its serde makes.
func TestWindowCountAllocations(t *testing.T) {
	send := windowTask(t)
	for range 100 {
		send()
	}
	if n := testing.AllocsPerRun(1000, send); n > 1 {
		t.Errorf("%v allocations per record", n)
	}
}
