package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/examples/flights/job"
)

// every is how often progress is shown.
const every = 500 * time.Millisecond

// progress shows how far the job is, a line at a time.
type progress struct {
	out     io.Writer
	began   time.Time
	last    time.Time
	records int64 // at the last line
}

func newProgress(out io.Writer) *progress {
	now := time.Now()
	return &progress{out: out, began: now, last: now}
}

// show prints a line if one is due. The last one is of the whole run. Records in are those that tasks have taken in, from repartition topics too.
func (p *progress) show(h kolk.Health, done bool) {
	now := time.Now()
	from, before, state := p.last, p.records, h.State.String()
	switch {
	case done:
		from, before, state = p.began, 0, "all out"
	case now.Sub(p.last) < every:
		return
	}
	p.last, p.records = now, h.Records
	rate := float64(h.Records-before) / max(now.Sub(from).Seconds(), 0.001)
	fmt.Fprintf(p.out, "%5.1f s  %-9s  %7s records in, %7s/s  %4d commits  %s\n",
		now.Sub(p.began).Seconds(), state, count(h.Records), count(int64(rate)), h.Commits, held(h))
	for _, n := range h.Notices {
		fmt.Fprintf(p.out, "         %s: %s; %s\n", n.Subject, n.Problem, n.Remedy)
	}
}

// held is the state that all tasks hold together.
func held(h kolk.Health) string {
	var entries, bytes int64
	for _, t := range h.Tasks {
		for _, s := range t.Stores {
			entries += s.Entries
			bytes += s.Bytes
		}
	}
	return fmt.Sprintf("state: %6s entries, %4s kB", count(entries), count(bytes/1000))
}

// printWorst is a table of the airports where flights are latest, among those with enough of them to tell.
func printWorst(out io.Writer, r job.Results, airports []data.Airport) {
	const enough, most = 30, 10
	known := make(map[string]data.Airport, len(airports))
	for _, a := range airports {
		known[a.Code] = a
	}
	codes := slices.SortedFunc(maps.Keys(r.Airports), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Airports[b].Average(), r.Airports[a].Average()), cmp.Compare(a, b))
	})
	codes = slices.DeleteFunc(codes, func(code string) bool { return r.Airports[code].Flights < enough })

	fmt.Fprintf(out, "\nWorst average delay at arrival, airports with at least %d flights:\n\n", enough)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  code\tairport\tstate\tflights\taverage\n")
	for _, code := range codes[:min(len(codes), most)] {
		d := r.Airports[code]
		fmt.Fprintf(w, "  %s\t%s\t%s\t%7s\t%6.1f min\n", code, known[code].Name, known[code].State, count(d.Flights), d.Average())
	}
	_ = w.Flush() // to a terminal or a buffer; the last line of the demo would fail as well
}

// count is a number with its thousands apart.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	var parts []string
	for ; len(s) > 3; s = s[:len(s)-3] {
		parts = append([]string{s[len(s)-3:]}, parts...)
	}
	return sign + strings.Join(append([]string{s}, parts...), ",")
}
