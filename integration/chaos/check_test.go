package chaos

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A comparison that finds nothing is worth nothing: each kind of difference is found.
func TestDifferences(t *testing.T) {
	row := Row{"app-out", "w1"}
	records := func(values ...int64) *history {
		h := new(history)
		for i, n := range values {
			h.take(&kgo.Record{Topic: "app-out", Offset: int64(i), Value: []byte{1}}, Value{N: n}, Counted, true, false)
		}
		return h
	}
	log := func(values ...int64) *history {
		h := new(history)
		for i, n := range values {
			h.take(&kgo.Record{Topic: "app-counts-changelog", Offset: int64(i), Value: []byte{1}}, Value{N: n}, Counted, true, true)
		}
		return h
	}
	for name, c := range map[string]struct {
		out, log *history
		exact    bool
		want     string // part of a difference; empty if there is none
	}{
		"right":                 {records(1, 2, 3), log(1, 3), true, ""},
		"lost":                  {records(1, 2), log(2), true, "is {2 0}, want {3 0}"},
		"doubled":               {records(1, 2, 3, 4), log(4), true, "is {4 0}, want {3 0}"},
		"sent twice":            {records(1, 2, 2, 3), log(3), true, "update 2 follows 2"},
		"left out":              {records(1, 3), log(3), true, "update 3 follows 1"},
		"changelog goes back":   {records(1, 2, 3), log(3, 2, 3), true, "update 2 follows 3"},
		"changelog is behind":   {records(1, 2, 3), log(2), true, "the changelog ends with {2 0}, the output with {3 0}"},
		"no changelog":          {records(1, 2, 3), nil, true, "the changelog ends with {0 0}"},
		"at least once":         {records(1, 2, 3, 4), log(4), false, ""},
		"less than once":        {records(1, 2), log(2), false, "less than"},
		"at least once, behind": {records(1, 2, 3, 4), log(3), false, "the changelog ends with"},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := newCount("app", 1)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			differ := func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) }
			new(Comparison).check(j, Counted, row, Value{N: 3}, c.out, c.log, c.exact, differ, make([]int64, j.Slots()))
			if text := strings.Join(got, "\n"); (c.want == "") != (text == "") || !strings.Contains(text, c.want) {
				t.Errorf("differences %q, want %q", text, c.want)
			}
		})
	}
}

func TestComparisonInWords(t *testing.T) {
	c := Comparison{Input: 9, Rows: 2, Updates: 10, Replayed: 3, Doubled: 1}
	if s := c.String(); !strings.HasPrefix(s, "equal: 9 input records, 2 rows, 10 updates") || !strings.Contains(s, "1 of them counted twice") {
		t.Errorf("%s", s)
	}
	c.Differences = make([]string, 40)
	if s := c.String(); !strings.HasPrefix(s, "DIFFERENT: 40 differences") || strings.Count(s, "\n") != 31 {
		t.Errorf("%s", s)
	}
}

// What was counted is there although nobody closed the file.
func TestTally(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.seen", "b.seen"} {
		c, err := openTally(filepath.Join(dir, name), 3)
		if err != nil {
			t.Fatal(err)
		}
		c.Seen(0)
		c.Seen(2)
		c.Seen(2)
	}
	sum, err := addTallies(dir, 3)
	if err != nil || fmt.Sprint(sum) != "[2 0 4]" {
		t.Errorf("sum %v, %v", sum, err)
	}
	if _, err := openTally(filepath.Join(dir, "none", "c.seen"), 1); err == nil {
		t.Error("counters were opened in a folder that is not there")
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("the folder was made")
	}
}

// The same for rows that are replaced and deleted, and for totals.
func TestDifferencesOfTables(t *testing.T) {
	row := Row{"app-out", "o1"}
	records := func(rule Rule, values ...Value) *history {
		h := new(history)
		for i, v := range values {
			r := &kgo.Record{Topic: "app-out", Offset: int64(i), Value: []byte{1}}
			if v == (Value{}) {
				r.Value = nil
			}
			h.take(r, v, rule, true, false)
		}
		return h
	}
	old, newer, right, gone := Value{1, 9}, Value{2, 3}, Value{2, 4}, Value{}
	for name, c := range map[string]struct {
		rule  Rule
		out   []Value
		want  Value
		exact bool
		diff  string // part of a difference; empty if there is none
	}{
		"right":                {Versions, []Value{old, gone, newer, right}, right, true, ""},
		"deleted":              {Versions, []Value{old, gone}, gone, true, ""},
		"never there":          {Versions, nil, gone, true, ""},
		"old":                  {Versions, []Value{old, newer}, right, true, "is {2 3}, want {2 4}"},
		"other side gone":      {Versions, []Value{right, {2, 0}, right}, right, true, ""},
		"other side went back": {Versions, []Value{right, {2, 0}, newer, right}, right, true, "versions {2 3} follow {2 4}"},
		"went back":            {Versions, []Value{right, newer, right}, right, true, "versions {2 3} follow {2 4}"},
		"came back":            {Versions, []Value{right, gone, old, right}, right, true, "versions {1 9} follow {2 4}"},
		"not deleted":          {Versions, []Value{right}, gone, true, "and not in the batch"},
		"missing":              {Versions, []Value{right, gone}, right, true, "is {0 0}, want {2 4}"},
		"old, at least once":   {Versions, []Value{old, newer}, right, false, "is {2 3}, want {2 4}"},
		"total":                {Totals, []Value{right, old, right}, right, true, ""},
		"total gone":           {Totals, []Value{right, gone}, gone, true, ""},
		"wrong total":          {Totals, []Value{right, old}, right, true, "is {1 9}, want {2 4}"},
		"total, at least once": {Totals, []Value{right, old}, right, false, ""},
		"event":                {Events, []Value{{1, 0}}, Value{1, 0}, true, ""},
		"event, twice":         {Events, []Value{{1, 0}, {1, 0}}, Value{1, 0}, true, "is {2 0}, want {1 0}"},
		"event, at least once": {Events, []Value{{1, 0}, {1, 0}}, Value{1, 0}, false, ""},
		"no event":             {Events, nil, Value{1, 0}, false, "is {0 0}, less than {1 0}"},
		"event out of nothing": {Events, []Value{{1, 0}}, Value{}, false, "is {1 0}, and not in the batch"},
		"deleted count":        {Counted, []Value{{1, 0}, gone}, gone, true, "deleted after update 1"},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := newForeign("app", 1)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			differ := func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) }
			out := records(c.rule, c.out...)
			new(Comparison).check(j, c.rule, row, c.want, out, &history{last: out.last}, c.exact, differ, make([]int64, j.Slots()))
			if text := strings.Join(got, "\n"); (c.diff == "") != (text == "") || !strings.Contains(text, c.diff) {
				t.Errorf("differences %q, want %q", text, c.diff)
			}
		})
	}
}

// The batch of a job that counts includes what Next and Touch have sent, and its rows are read back.
func TestJobs(t *testing.T) {
	for _, name := range []string{"count", "flights", "wide"} {
		t.Run(name, func(t *testing.T) {
			j, err := NewJob(name, "app", 1)
			if err != nil {
				t.Fatal(err)
			}
			add := func(records ...*kgo.Record) {
				for _, r := range records {
					if err := j.Add(r); err != nil {
						t.Fatal(err)
					}
				}
			}
			sum := func() (n int64) {
				for _, v := range j.Want() {
					n += v.N
				}
				return n
			}
			first := int64(len(j.First()))
			add(j.First()...)
			for range 500 {
				add(j.Next())
			}
			rows := maps.Clone(j.Want())
			if n := sum(); n != 500*int64(len(j.Outputs())) || j.Sent()-500 != first {
				t.Errorf("%d updates of 500 records, sent %d", n, j.Sent())
			}
			add(j.Touch()...)
			if n := sum(); n != (j.Sent()-first)*int64(len(j.Outputs())) {
				t.Errorf("%d updates, sent %d", n, j.Sent())
			}
			for row, before := range rows {
				if j.Want()[row].N <= before.N {
					t.Errorf("row %v was not touched", row)
				}
			}
			for row := range j.Want() {
				if slot := j.Slot(row); slot < 0 || slot >= j.Slots() {
					t.Errorf("row %v is counted in slot %d", row, slot)
				}
			}
		})
	}
	if _, err := NewJob("none", "app", 1); err == nil {
		t.Error("a job that is not there was made")
	}
	j, err := NewJob("count", "app", 1)
	if err != nil {
		t.Fatal(err)
	}
	if row, v, err := j.Row("app-out", []byte("w7"), binary.BigEndian.AppendUint64(nil, 9)); err != nil || row != (Row{"app-out", "w7"}) || v.N != 9 {
		t.Errorf("row %v, %v, %v", row, v, err)
	}
}

func TestParseKinds(t *testing.T) {
	got, err := ParseKinds("kill,zombie")
	if err != nil || fmt.Sprint(got) != "[kill zombie]" {
		t.Errorf("kinds %v, %v", got, err)
	}
	if _, err := ParseKinds("kill,fire"); err == nil || !strings.Contains(err.Error(), "fire") {
		t.Errorf("error %v", err)
	}
}

// A broker that is alone is killed, and not stopped; those of others are left in peace.
func TestKinds(t *testing.T) {
	for nodes, want := range map[int][2]bool{0: {false, false}, 1: {true, false}, 3: {true, true}} {
		k := Kinds(nodes)
		if got := [2]bool{slices.Contains(k, BrokerKill), slices.Contains(k, BrokerStop)}; got != want {
			t.Errorf("%d brokers: killed and stopped: %v, want %v", nodes, got, want)
		}
	}
	d := &deal{random: rand.New(rand.NewPCG(1, 1)), kinds: []Kind{Kill, Add, Pause}}
	for range 5 {
		hand := []Kind{d.draw(), d.draw(), d.draw()}
		slices.Sort(hand)
		if !slices.Equal(hand, []Kind{Add, Kill, Pause}) {
			t.Errorf("drawn %v", hand)
		}
	}
}
