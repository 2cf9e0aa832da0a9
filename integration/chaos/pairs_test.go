package chaos

import (
	"maps"
	"strings"
	"testing"
)

// What the kill test compares with must be right when nothing is killed; those who take the second touch must remember the first, and nothing that can be unmatched is still waiting in the end.
func TestPairsJob(t *testing.T) {
	b := newBench(t, "pairs")
	for range 20_000 {
		b.send(b.job.Next())
	}
	b.send(b.job.Touch()...)
	touched := b.rows()
	b.driver.Restart()
	b.send(b.job.Touch()...)
	b.send(b.job.Last()...)
	got, want := b.rows(), b.job.Want()
	if !maps.Equal(got, want) {
		t.Fatalf("%d rows differ from the batch, which has %d", len(got), len(want))
	}
	found := make(map[string]int)
	for row := range want {
		_, pair, _ := strings.Cut(row.Key, " ")
		left, right, _ := strings.Cut(pair, "+")
		switch {
		case left == "none":
			found["right alone"]++
		case right == "none":
			found["left alone"]++
		case touched[row] == Value{}:
			found["after the restart"]++
		default:
			found["pair"]++
		}
	}
	if found["pair"] < 8000 || found["left alone"] < 1000 || found["right alone"] < 1000 || found["after the restart"] < 500 {
		t.Errorf("rows by kind: %v: too few of some to prove anything", found)
	}
}
