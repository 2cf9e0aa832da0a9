// Package span is what package window declares, as the engine and the operators read it: how windows, sessions and joins lie in time, in whole
// milliseconds since 1970, and what is wrong with a declaration. The types are hidden inside the public ones: see Of, OfSessions, OfJoin
// and TailOf.
//
// Windows do not start before 1970, as records do not lie there. Sums of times stop at the largest one instead of wrapping.
package span

import (
	"fmt"
	"math"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
)

// Add is a + b, kept between the smallest and the largest int64.
func Add(a, b int64) int64 {
	switch s := a + b; {
	case a > 0 && b > 0 && s < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && s >= 0:
		return math.MinInt64
	default:
		return s
	}
}

// Sub is a - b, kept between the smallest and the largest int64.
func Sub(a, b int64) int64 {
	switch d := a - b; {
	case a >= 0 && b < 0 && d < 0:
		return math.MaxInt64
	case a < 0 && b > 0 && d >= 0:
		return math.MinInt64
	default:
		return d
	}
}

// faults collects what is wrong with a declaration.
type faults []state.Fault

func (f *faults) add(remedy, problem string, args ...any) {
	*f = append(*f, state.Fault{Problem: fmt.Sprintf(problem, args...), Remedy: remedy})
}

// duration looks at one time of a declaration: at least a number of milliseconds, and whole ones.
func (f *faults) duration(what string, d time.Duration, least int64) {
	switch {
	case d.Milliseconds() < least || d < 0 && least == 0:
		f.add(fmt.Sprintf("give at least %v", time.Duration(least)*time.Millisecond), "%s is %v", what, d)
	case d%time.Millisecond != 0:
		f.add("times of records have a resolution of one millisecond: give whole ones", "%s is %v", what, d)
	}
}

// longest is the longest time that a store keeps anything, in ms.
const longest = int64(math.MaxInt64 / time.Millisecond)

// sum looks at what a store must keep of windows, in ms.
func (f *faults) sum(what string, least int64) {
	if len(*f) == 0 && least > longest {
		f.add(fmt.Sprintf("give times that are %s together at most", ms(longest)), "%s are %s together, longer than anything can be kept", what, ms(least))
	}
}

// retention looks at a retention that was set, beside the least that is possible, in ms.
func (f *faults) retention(d time.Duration, least int64, sum string) {
	if n := len(*f); n > 0 {
		return // the least makes no sense
	}
	f.duration("the retention", d, 0)
	if len(*f) == 0 && d.Milliseconds() < least {
		f.add(fmt.Sprintf("give Retain at least %s, or leave it out", ms(least)), "the retention is %v, less than %s, which is %s", d, sum, ms(least))
	}
}

// ms writes a time of any length.
func ms(n int64) string {
	if n > math.MaxInt64/int64(time.Millisecond) {
		return fmt.Sprintf("%d ms", n)
	}
	return (time.Duration(n) * time.Millisecond).String()
}
