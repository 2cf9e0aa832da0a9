package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/examples/flights/job"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) is %s, want %s", n, got, want)
		}
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b)
	h := kolk.Health{State: kolk.Running, Records: 12345, Commits: 7, Notices: []kolk.Notice{{Subject: "store a", Problem: "is full", Remedy: "empty it"}}}
	for range 2 {
		h.Tasks = append(h.Tasks, kolk.TaskHealth{Stores: []kolk.StoreHealth{{Entries: 1000, Bytes: 20_000}, {Entries: 1, Bytes: 500}}})
	}
	p.show(h, false) // too soon
	if b.Len() > 0 {
		t.Errorf("printed %q at once", b.String())
	}
	p.show(h, true)
	for _, want := range []string{"all out", " 12,345 records in", " 7 commits", " 2,002 entries", " 41 kB", "store a: is full; empty it"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in %q", want, b.String())
		}
	}
}

func TestWorst(t *testing.T) {
	r := job.NewResults()
	r.Airports["FEW"] = job.Delay{Flights: 29, Minutes: 29_000}
	for i := range 12 {
		r.Airports[fmt.Sprintf("A%02d", i)] = job.Delay{Flights: 100, Minutes: int64(i * 100)}
	}
	var b bytes.Buffer
	printWorst(&b, r, []data.Airport{{Code: "A11", Name: "Far Away", State: "AK"}})
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3+10 {
		t.Fatalf("%d lines:\n%s", len(lines), b.String())
	}
	if got := strings.Join(strings.Fields(lines[3]), " "); got != "A11 Far Away AK 100 11.0 min" {
		t.Errorf("the worst is %q", got)
	}
	if strings.Contains(b.String(), "FEW") {
		t.Error("an airport with 29 flights is in the table")
	}
}

func TestCompare(t *testing.T) {
	want := job.NewResults()
	want.Airports["A"], want.States[job.StateDay{State: "AK", Day: "2001-01-01"}] = job.Delay{Flights: 2, Minutes: 3}, job.Delay{Flights: 2, Minutes: 3}
	var b bytes.Buffer
	if err := compare(&b, &job.Output{Results: want, Updates: 4}, want); err != nil || b.String() != "equal to batch: 2 rows\n" {
		t.Errorf("error %v, printed %q", err, b.String())
	}
	b.Reset()
	if err := compare(&b, &job.Output{Results: want, Updates: 5}, want); !errors.Is(err, errDiffers) || !strings.Contains(b.String(), "5 updates, want 4") {
		t.Errorf("error %v, printed %q", err, b.String())
	}
	b.Reset()
	if err := compare(&b, &job.Output{Results: job.NewResults()}, want); !errors.Is(err, errDiffers) || !strings.Contains(b.String(), "not equal to batch: 3 differences") {
		t.Errorf("error %v, printed %q", err, b.String())
	}
}
