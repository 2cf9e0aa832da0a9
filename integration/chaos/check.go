package chaos

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// history is what a topic says of a row.
type history struct {
	last    Value    // zero after a delete
	newest  Value    // zero only before the first record
	records int64    // deletes left out
	faults  []string // what cannot be, in order of offsets
}

// take adds a record. Updates of an output count up one by one; those of a changelog, which has the last of each commit, just up. A nil value deletes.
func (h *history) take(r *kgo.Record, v Value, rule Rule, exact, changelog bool) {
	fault := func(format string, args ...any) {
		h.faults = append(h.faults, fmt.Sprintf("%s/%d@%d: ", r.Topic, r.Partition, r.Offset)+fmt.Sprintf(format, args...))
	}
	if rule == Events {
		v = Value{N: h.last.N + 1}
	}
	h.last = v
	if r.Value == nil {
		if rule == Counted {
			fault("deleted after update %d", h.newest.N)
		}
		return
	}
	switch want := h.newest.N + 1; {
	case !exact:
	case rule == Counted && (v.N < want || (v.N > want && !changelog)):
		fault("update %d follows %d", v.N, h.newest.N)
	case rule != Versions:
	case v.N == h.newest.N && v.Sum == 0: // the row on the other side is gone, for now
		v = h.newest
	case v.N < h.newest.N || (v.N == h.newest.N && v.Sum < h.newest.Sum):
		fault("versions %v follow %v", v, h.newest)
	}
	h.newest = v
	h.records++
}

// histories reads a topic whose rows are those of an output.
func histories(ctx context.Context, seeds []string, j Job, output, topic string, exact bool) (map[Row]*history, error) {
	all := make(map[Row]*history)
	rule := j.Outputs()[output].Rule
	err := readAll(ctx, seeds, topic, func(r *kgo.Record) error {
		row, v, err := j.Row(output, r.Key, r.Value)
		if err != nil {
			return err
		}
		h := all[row]
		if h == nil {
			h = new(history)
			all[row] = h
		}
		h.take(r, v, rule, exact, topic != output)
		return nil
	})
	return all, err
}

// Comparison is how the results of a run stand to the batch.
type Comparison struct {
	Input         int64 // records
	Rows, Updates int64 // of the batch
	Replayed      int64 // updates that were processed beyond those of the batch
	Doubled       int64 // of them, those that results show: 0 under exactly-once
	Differences   []string
}

// Equal is whether nothing differs.
func (c Comparison) Equal() bool { return len(c.Differences) == 0 }

// String is the comparison in a line, and a line for each difference, up to some.
func (c Comparison) String() string {
	if c.Equal() {
		s := fmt.Sprintf("equal: %d input records, %d rows, %d updates; %d were processed again", c.Input, c.Rows, c.Updates, c.Replayed)
		if c.Doubled > 0 {
			s += fmt.Sprintf(", %d of them counted twice, as at-least-once may", c.Doubled)
		}
		return s
	}
	s := fmt.Sprintf("DIFFERENT: %d differences in %d rows, %d updates", len(c.Differences), c.Rows, c.Updates)
	for i, d := range c.Differences {
		if i == 30 {
			return s + "\n  and more"
		}
		s += "\n  " + d
	}
	return s
}

func byName(a, b Row) int { return cmp.Or(cmp.Compare(a.Output, b.Output), cmp.Compare(a.Key, b.Key)) }

// compare reads what an application has left behind, and says how it differs from the job's batch. seen are the counters of all its instances.
func compare(ctx context.Context, seeds []string, j Job, guarantee string, seen []int64) (c Comparison, err error) {
	exact := guarantee == ExactlyOnce
	differ := func(format string, args ...any) { c.Differences = append(c.Differences, fmt.Sprintf(format, args...)) }
	// The batch is over what is in the input: brokers that are killed make the producer of the input, which has no transactions, send a few records twice.
	for _, topic := range j.Inputs() {
		if err := readAll(ctx, seeds, topic, func(r *kgo.Record) error { c.Input++; return j.Add(r) }); err != nil {
			return c, err
		}
	}
	if sent := j.Sent(); c.Input < sent {
		differ("the input has %d records, but %d were sent and acknowledged: the run proves nothing", c.Input, sent)
	}
	want := j.Want()
	c.Rows = int64(len(want))
	inResult := make([]int64, j.Slots()) // updates that results show, by slot
	for output, o := range j.Outputs() {
		out, err := histories(ctx, seeds, j, output, output, exact)
		if err != nil {
			return c, err
		}
		log := make(map[Row]*history)
		if o.Changelog == "" {
			for row, h := range out {
				log[row] = &history{last: h.last}
			}
		} else if log, err = histories(ctx, seeds, j, output, o.Changelog, exact); err != nil {
			return c, err
		}
		rows := make(map[Row]bool)
		for row := range want {
			rows[row] = row.Output == output
		}
		for row := range out {
			rows[row] = true
		}
		for row := range log {
			rows[row] = true
		}
		for _, row := range slices.SortedFunc(maps.Keys(rows), byName) {
			if rows[row] {
				c.check(j, o.Rule, row, want[row], out[row], log[row], exact, differ, inResult)
			}
		}
	}
	for slot, n := range inResult {
		if n > seen[slot] {
			differ("results of slot %d show %d updates, but only %d were processed", slot, n, seen[slot])
		}
		c.Replayed += seen[slot]
	}
	c.Replayed -= c.Updates
	return c, nil
}

// check compares one row.
func (c *Comparison) check(j Job, rule Rule, row Row, want Value, out, log *history, exact bool, differ func(string, ...any), inResult []int64) {
	if out == nil {
		out = new(history)
	}
	if log == nil {
		log = new(history)
	}
	shown, due := out.records, out.records // updates that the result shows, and that it should
	if rule == Counted || rule == Events {
		shown, due = log.last.N, want.N
	}
	c.Updates += due
	c.Doubled += shown - due
	inResult[j.Slot(row)] += shown
	if rule == Totals && !exact {
		return
	}
	for _, f := range append(out.faults, log.faults...) {
		differ("%v: %s", row, f)
	}
	if log.last != out.last {
		differ("%v: the changelog ends with %v, the output with %v", row, log.last, out.last)
	}
	switch {
	case want == Value{} && log.last != want:
		differ("%v: is %v, and not in the batch", row, log.last)
	case (exact || rule == Versions) && log.last != want:
		differ("%v: is %v, want %v", row, log.last, want)
	case exact && rule == Counted && out.records != want.N:
		differ("%v: %d records in the output, want %d", row, out.records, want.N)
	case log.last.N < want.N:
		differ("%v: is %v, less than %v", row, log.last, want)
	}
}
