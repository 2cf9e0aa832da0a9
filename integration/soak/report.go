package soak

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sample is what was there after a step.
type Sample struct {
	Event   time.Duration // since the first record
	Records int64         // so far
	Values  []int64       // of each column: entries of the stores, then bytes on disk, of heap, and of Badger's buffers, which the heap leaves out
}

// Report is what a run showed.
type Report struct {
	Columns  []string // of Sample.Values
	Retained int      // steps until the retention has gone by, which say nothing
	Samples  []Sample
}

// Growth is one column over a run.
type Growth struct {
	Column       string
	First, Later int64 // the largest values in the two halves after the retention
}

// Ratio is how much larger it became.
func (g Growth) Ratio() float64 { return float64(g.Later) / max(float64(g.First), 1) }

// Growth is that of all columns; nil if the run was too short.
func (r *Report) Growth() (all []Growth) {
	if len(r.Samples) < r.Retained+2 {
		return nil
	}
	rest := r.Samples[r.Retained:]
	largest := func(samples []Sample, column int) int64 {
		return slices.MaxFunc(samples, func(a, b Sample) int { return int(a.Values[column] - b.Values[column]) }).Values[column]
	}
	for i, name := range r.Columns {
		all = append(all, Growth{name, largest(rest[:len(rest)/2], i), largest(rest[len(rest)/2:], i)})
	}
	return all
}

// Grown says what became larger than Limit allows, or was never there; none is as it should be.
func (r *Report) Grown() (faults []string) {
	for i, g := range r.Growth() {
		switch {
		case i == len(r.Columns)-1:
			if most := max(g.First, g.Later); most > Buffers {
				faults = append(faults, fmt.Sprintf("%s: %d bytes, at most %d are for building tables", g.Column, most, int64(Buffers)))
			}
		case g.First == 0:
			faults = append(faults, fmt.Sprintf("%s: nothing was kept, so nothing was shown", g.Column))
		case g.Ratio() > Limit:
			faults = append(faults, fmt.Sprintf("%s: %d in the first half after the retention, %d in the second, %.2f times as much", g.Column, g.First, g.Later, g.Ratio()))
		}
	}
	return faults
}

// width is that of a column.
const width = 10

func (r *Report) head() string {
	line := fmt.Sprintf("%*s %*s", width, "event time", width, "records")
	for _, c := range r.Columns {
		line += fmt.Sprintf(" %*s", width, c)
	}
	return line
}

func (r *Report) row(s Sample) string {
	line := fmt.Sprintf("%*s %*d", width, strings.TrimSuffix(s.Event.String(), "0s"), width, s.Records)
	for i := range r.Columns {
		line += " " + r.cell(i, s.Values[i])
	}
	return line
}

// cell shows a value: the last three columns are bytes.
func (r *Report) cell(column int, v int64) string {
	if column >= len(r.Columns)-3 {
		return fmt.Sprintf("%*.1fMB", width-2, float64(v)/1e6)
	}
	return fmt.Sprintf("%*d", width, v)
}

// String is the summary below the table: a line for each of the two halves, and the ratio.
func (r *Report) String() string {
	first, later, ratio := "first half", "second half", "ratio"
	lines := []*string{&first, &later, &ratio}
	for _, l := range lines {
		*l = fmt.Sprintf("%-*s", 2*width+1, *l)
	}
	for i, g := range r.Growth() {
		first += " " + r.cell(i, g.First)
		later += " " + r.cell(i, g.Later)
		ratio += fmt.Sprintf(" %*.2f", width, g.Ratio())
	}
	return strings.Join([]string{first, later, ratio}, "\n")
}
