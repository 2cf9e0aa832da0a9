package chaos

import (
	"maps"
	"testing"
)

// What the kill test compares with must be right when nothing is killed, and every row must have changed after two touches.
func TestForeignJob(t *testing.T) {
	b := newBench(t, "foreign")
	for range 4000 {
		b.send(b.job.Next())
	}
	before := maps.Clone(b.job.Want())
	if got := b.rows(); !maps.Equal(got, before) {
		t.Fatalf("%d rows differ from the batch, which has %d", len(got), len(before))
	}
	outputs := make(map[string]int)
	for row := range before {
		outputs[row.Output]++
	}
	if outputs["app-matched"] < 500 || outputs["app-all"] < 1500 || outputs["app-totals"] < 300 || outputs["app-all"] <= outputs["app-matched"] {
		t.Errorf("rows by output: %v: too few of some to prove anything", outputs)
	}
	b.send(b.job.Touch()...)
	b.driver.Restart()
	b.send(b.job.Touch()...)
	after := b.job.Want()
	if got := b.rows(); !maps.Equal(got, after) {
		t.Fatalf("%d rows differ from the batch, which has %d", len(got), len(after))
	}
	for row, v := range before {
		if after[row] == v {
			t.Errorf("row %v was not touched", row)
		}
	}
	if b.job.Sent() <= 4000 {
		t.Errorf("%d records were sent", b.job.Sent())
	}
}
