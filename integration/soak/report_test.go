package soak

import (
	"strings"
	"testing"
	"time"
)

// reported is a report of three columns and a fourth of buffers, the last three of which are bytes, with two steps of retention.
func reported(rows ...[3]int64) *Report {
	r := &Report{Columns: []string{"seen", "disk", "heap", "buffers"}, Retained: 2}
	for i, row := range rows {
		r.Samples = append(r.Samples, Sample{Event: time.Duration(i+1) * time.Hour, Records: int64(i), Values: append(row[:], int64(i)<<20)})
	}
	return r
}

func TestGrown(t *testing.T) {
	// What comes before the retention has gone by counts for nothing.
	steady := reported([3]int64{1, 1, 1}, [3]int64{99, 99, 99}, [3]int64{10, 20, 30}, [3]int64{8, 25, 30}, [3]int64{12, 20, 36}, [3]int64{9, 30, 30})
	if grown := steady.Grown(); len(grown) != 0 {
		t.Errorf("a run that stays within the limit: %v", grown)
	}
	growing := reported([3]int64{1, 1, 1}, [3]int64{99, 99, 99}, [3]int64{10, 20, 30}, [3]int64{8, 25, 30}, [3]int64{13, 20, 36}, [3]int64{9, 30, 30})
	if grown := growing.Grown(); len(grown) != 1 || !strings.HasPrefix(grown[0], "seen: 10 ") {
		t.Errorf("a store that grew from 10 to 13: %v", grown)
	}
	empty := reported([3]int64{1, 1, 1}, [3]int64{1, 1, 1}, [3]int64{0, 1, 1}, [3]int64{0, 1, 1})
	if grown := empty.Grown(); len(grown) != 1 || !strings.Contains(grown[0], "nothing was kept") {
		t.Errorf("a store without entries: %v", grown)
	}
	many := reported([3]int64{1, 1, 1}, [3]int64{1, 1, 1}, [3]int64{1, 1, 1}, [3]int64{1, 1, 1})
	many.Samples[3].Values[3] = Buffers + 1
	if grown := many.Grown(); len(grown) != 1 || !strings.HasPrefix(grown[0], "buffers: ") {
		t.Errorf("too many buffers: %v", grown)
	}
	if g := reported([3]int64{1, 1, 1}).Growth(); g != nil {
		t.Errorf("a run that ended early shows %v", g)
	}
}

func TestTable(t *testing.T) {
	r := reported([3]int64{1, 1, 1}, [3]int64{1, 1, 1}, [3]int64{10, 2_000_000, 3_000_000}, [3]int64{11, 2_000_000, 1_500_000})
	if head := r.head(); !strings.Contains(head, "event time") || !strings.Contains(head, "seen") {
		t.Errorf("head %q", head)
	}
	if row := strings.Fields(r.row(r.Samples[2])); strings.Join(row, " ") != "3h0m 2 10 2.0MB 3.0MB 2.1MB" {
		t.Errorf("row %q", row)
	}
	if text := r.String(); !strings.Contains(text, "1.10") || !strings.Contains(text, "0.50") || strings.Count(text, "\n") != 2 {
		t.Errorf("summary\n%s", text)
	}
}
