package span

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/state"
)

func starts(w Windows, t int64) (all []int64) {
	first, step, n := w.Starts(t)
	for i := range n {
		all = append(all, first+int64(i)*step)
	}
	return all
}

const msec = time.Millisecond

// W01, W03: ends are exclusive, and windows do not start before they may.
func TestStarts(t *testing.T) {
	for _, c := range []struct {
		w    Windows
		at   int64
		want []int64
	}{
		{NewAligned(10*time.Second, 10*time.Second), 9999, []int64{0}},
		{NewAligned(10*time.Second, 10*time.Second), 10000, []int64{10000}},
		{NewAligned(10*msec, 5*msec), 0, []int64{0}},
		{NewAligned(10*msec, 5*msec), 4, []int64{0}},
		{NewAligned(10*msec, 5*msec), 5, []int64{0, 5}},
		{NewAligned(10*msec, 5*msec), 10, []int64{5, 10}},
		{NewAligned(10*msec, 6*msec), 9, []int64{0, 6}},
		{NewAligned(10*msec, 6*msec), 10, []int64{6}},
		{NewAligned(5*msec, 5*msec), -1, nil}, // W04
		{NewAligned(5*msec, 5*msec), math.MaxInt64, []int64{math.MaxInt64 - math.MaxInt64%5}},
		{NewDated(Day, time.UTC, 0), 25 * hour, []int64{24 * hour}},
		{NewDated(Day, time.UTC, 0), -1, nil},
	} {
		if got := starts(c.w, c.at); !slices.Equal(got, c.want) {
			t.Errorf("%v: %d is in windows from %v, want %v", c.w, c.at, got, c.want)
		}
	}
}

func TestStartsAgainstSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 50).Draw(t, "size")
		advance := rapid.Int64Range(1, size).Draw(t, "advance")
		at := rapid.Int64Range(0, 500).Draw(t, "t")
		w := NewAligned(time.Duration(size)*msec, time.Duration(advance)*msec)
		var want []int64
		for s := int64(0); s <= at; s += advance {
			if at < s+size {
				want = append(want, s)
			}
		}
		if got := starts(w, at); !slices.Equal(got, want) {
			t.Fatalf("%v: %d is in windows from %v, want %v", w, at, got, want)
		}
	})
}

// Closed fits End: a window is closed when the time has reached its end, or passed it if the end belongs to it.
func TestClosed(t *testing.T) {
	for _, w := range []Windows{NewAligned(10*msec, 5*msec), NewSliding(10 * msec), NewDated(Day, time.UTC, 0)} {
		rapid.Check(t, func(t *rapid.T) {
			at := rapid.Int64Range(-1, 4*day).Draw(t, "at")
			closed := w.Closed(at)
			is := func(start int64) bool { return w.End(start) < at || w.End(start) == at && !w.Inclusive() }
			if w.Kind() == Sliding { // any start may be one
				if closed >= 0 && !is(closed) || is(closed+1) {
					t.Fatalf("%v: at %d the window from %d is said to be the last closed", w, at, closed)
				}
				return
			}
			if first, _, n := w.Starts(max(closed, 0)); closed >= 0 && n > 0 && !is(first) {
				t.Fatalf("%v: at %d the window from %d is not closed", w, at, first)
			}
			next, step, n := w.Starts(closed + 1)
			if last := next + int64(n-1)*step; n > 0 && last > closed && is(last) {
				t.Fatalf("%v: at %d the window from %d is closed, %d is the last closed", w, at, last, closed)
			}
		})
	}
}

func TestSaturation(t *testing.T) {
	for _, c := range []struct{ got, want int64 }{
		{Add(1, 2), 3}, {Add(math.MaxInt64, 1), math.MaxInt64}, {Add(math.MinInt64, -1), math.MinInt64}, {Add(math.MinInt64, math.MinInt64), math.MinInt64},
		{Sub(1, 2), -1}, {Sub(math.MaxInt64, -1), math.MaxInt64}, {Sub(math.MinInt64, 1), math.MinInt64}, {Sub(0, math.MinInt64), math.MaxInt64},
		{NewAligned(time.Hour, time.Hour).End(math.MaxInt64 - 5), math.MaxInt64},
		{NewSliding(time.Hour).End(math.MaxInt64 - 5), math.MaxInt64},
	} {
		if c.got != c.want {
			t.Errorf("%d, want %d", c.got, c.want)
		}
	}
}

func TestRetention(t *testing.T) {
	for _, c := range []struct{ got, want int64 }{
		{NewAligned(10*time.Second, 5*time.Second).WithGrace(time.Second).Retention(), 11_000},
		{NewAligned(10*time.Second, 5*time.Second).WithRetention(time.Minute).Retention(), 60_000},
		{NewSliding(10 * time.Second).WithGrace(time.Second).Retention(), 21_000},
		{NewDated(Day, zone(t, "Europe/Berlin"), 0).WithGrace(time.Hour).Retention(), 26 * hour},
		{NewDated(Year, time.UTC, 0).Retention(), 366 * day},
		{NewSessions(10 * time.Second).WithGrace(time.Second).Retention(), 11_000},
		{NewSessions(10 * time.Second).WithLimit(time.Hour).WithRetention(time.Minute).Retention(), 60_000},
		{NewJoin(time.Second, 2*time.Second).WithGrace(4 * time.Second).Retention(), 7000},
		{NewJoin(-time.Second, 2*time.Second).Retention(), 2000}, // no record may go earlier for it
	} {
		if c.got != c.want {
			t.Errorf("%d ms, want %d", c.got, c.want)
		}
	}
}

func TestFaults(t *testing.T) {
	utc := NewDated(Day, time.UTC, 0)
	for _, c := range []struct {
		name  string
		found []state.Fault
		want  string // of the one problem; empty for none
	}{
		{"zero", Windows{}.Faults(), "zero Spec"},
		{"no size", NewAligned(0, 0).Faults(), "size is 0s"},
		{"negative size", NewAligned(-time.Second, -time.Second).Faults(), "size is -1s"},
		{"small size", NewAligned(time.Microsecond, time.Microsecond).Faults(), "size is 1µs"},
		{"odd size", NewAligned(1500*time.Microsecond, 1500*time.Microsecond).Faults(), "size is 1.5ms"},
		{"no advance", NewAligned(time.Second, 0).Faults(), "advance is 0s"},
		{"large advance", NewAligned(time.Second, 2*time.Second).Faults(), "advance, 2s, is larger than their size, 1s"},
		{"hopping", NewAligned(2*time.Second, time.Second).Faults(), ""},
		{"negative difference", NewSliding(-1).Faults(), "difference is -1ns"},
		{"sliding", NewSliding(0).Faults(), ""},
		{"negative grace", NewAligned(time.Second, time.Second).WithGrace(-1).Faults(), "grace is -1ns"},
		{"huge grace", NewAligned(time.Hour, time.Hour).WithGrace(math.MaxInt64 / msec * msec).Faults(), "together, longer than anything can be kept"},
		{"short retention", NewAligned(2*time.Second, time.Second).WithGrace(time.Second).WithRetention(2999 * msec).Faults(), "retention is 2.999s, less than the size plus the grace, which is 3s"},
		{"shortest retention", NewAligned(2*time.Second, time.Second).WithGrace(time.Second).WithRetention(3 * time.Second).Faults(), ""},
		{"short retention of sliding windows", NewSliding(time.Second).WithRetention(time.Second).Faults(), "twice the difference"},
		{"short retention of days", utc.WithRetention(23 * time.Hour).Faults(), "which is 24h0m0s"},
		{"short retention after another fault", NewAligned(0, 0).WithRetention(-1).Faults(), "size is 0s"},
		{"days", utc.Faults(), ""},
		{"no zone", NewDated(Month, nil, 0).Faults(), "no time zone"},
		{"zero sessions", Sessions{}.Faults(), "zero SessionSpec"},
		{"no gap", NewSessions(0).Faults(), "gap is 0s"},
		{"sessions with negative grace", NewSessions(1000 * msec).WithGrace(-time.Second).Faults(), "grace is -1s"},
		{"short sessions", NewSessions(time.Second).WithLimit(0).Faults(), "greatest length is 0s"},
		{"sessions with short retention", NewSessions(time.Second).WithGrace(time.Second).WithRetention(time.Second).Faults(), "the gap plus the grace"},
		{"sessions", NewSessions(time.Second).WithLimit(time.Hour).WithGrace(time.Second).WithRetention(time.Hour).Faults(), ""},
		{"zero join", Join{}.Faults(), "zero JoinSpec"},
		{"join that is never", NewJoin(-time.Second, -time.Second).Faults(), "both older and younger"},
		{"join that ends early", NewJoin(time.Second, -2*time.Second).Faults(), "ends before it starts"},
		{"join of the younger", NewJoin(-time.Second, 2*time.Second).Faults(), ""},
		{"odd join", NewJoin(time.Microsecond, 0).Faults(), "time before is 1µs"},
		{"join with negative grace", NewJoin(0, 0).WithGrace(-1).Faults(), "grace is -1ns"},
	} {
		switch {
		case c.want == "" && len(c.found) > 0:
			t.Errorf("%s: %v", c.name, c.found)
		case c.want != "" && (len(c.found) != 1 || !strings.Contains(c.found[0].Problem, c.want) || c.found[0].Remedy == ""):
			t.Errorf("%s: %v, want %q", c.name, c.found, c.want)
		}
	}
}

func TestInWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{NewAligned(5*time.Minute, 5*time.Minute).WithGrace(time.Minute).String(), "tumbling(5m0s), grace 1m0s"},
		{NewAligned(5*time.Minute, time.Minute).WithRetention(time.Hour).String(), "hopping(5m0s,1m0s), kept for 1h0m0s"},
		{NewAligned(5*time.Minute, time.Minute).WithGrace(time.Hour).Shape(), "hopping(5m0s,1m0s)"},
		{NewSliding(time.Second).String(), "sliding(1s)"},
		{NewDated(Week, time.UTC, time.Monday).String(), "weekly(UTC,Monday)"},
		{NewDated(Day, nil, 0).String(), "daily(nil)"},
		{Windows{}.String(), "undeclared"},
		{NewSessions(time.Minute).WithLimit(time.Hour).WithGrace(time.Second).String(), "sessions(1m0s,max=1h0m0s), grace 1s"},
		{NewSessions(time.Minute).Shape(), "sessions(1m0s)"},
		{Sessions{}.Shape() + Join{}.Shape(), "undeclaredundeclared"},
		{NewJoin(time.Second, 0).WithGrace(time.Second).String(), "before(1s),after(0s), grace 1s"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestAllocations(t *testing.T) {
	hopping, daily := NewAligned(time.Minute, time.Second), NewDated(Day, zone(t, "Europe/Berlin"), 0)
	daily.Starts(day)
	if n := testing.AllocsPerRun(100, func() {
		hopping.Starts(123456)
		hopping.End(123456)
		daily.Starts(day)
		daily.End(day)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
