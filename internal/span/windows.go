package span

import (
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
)

// Kind is how windows lie in time.
type Kind uint8

// The kinds. The zero Kind is that of windows that were never declared.
const (
	Undeclared Kind = iota
	Aligned         // tumbling and hopping: of one size, starting at multiples of the advance; ends are exclusive
	Sliding         // one for each combination of records that lie close enough; ends are inclusive
	Dated           // by the calendar; ends are exclusive
)

// Windows is what a window.Spec says. It is comparable. Its methods may be called by many goroutines, and but for Faults and String make no
// garbage.
type Windows struct {
	kind     Kind
	retains  bool // Retain was called
	calendar *Calendar
	size     time.Duration
	advance  time.Duration
	grace    time.Duration
	retain   time.Duration
}

// NewAligned makes tumbling and hopping windows.
func NewAligned(size, advance time.Duration) Windows {
	return Windows{kind: Aligned, size: size, advance: advance}
}

// NewSliding makes sliding windows.
func NewSliding(difference time.Duration) Windows { return Windows{kind: Sliding, size: difference} }

// NewDated makes calendar windows. loc may be nil, which is a fault.
func NewDated(unit Unit, loc *time.Location, first time.Weekday) Windows {
	return Windows{kind: Dated, calendar: calendarOf(unit, loc, first)}
}

// WithGrace changes the grace.
func (w Windows) WithGrace(d time.Duration) Windows { w.grace = d; return w }

// WithRetention sets the retention.
func (w Windows) WithRetention(d time.Duration) Windows { w.retain, w.retains = d, true; return w }

// Kind says how the windows lie in time.
func (w Windows) Kind() Kind { return w.kind }

// Inclusive says whether a window's end belongs to it.
func (w Windows) Inclusive() bool { return w.kind == Sliding }

// Size is the length of a window in ms: the difference of sliding windows, the greatest length of calendar windows.
func (w Windows) Size() int64 {
	if w.kind == Dated {
		return w.calendar.Longest()
	}
	return w.size.Milliseconds()
}

// Grace is how far stream time may pass a window's end before the window is closed, in ms.
func (w Windows) Grace() int64 { return w.grace.Milliseconds() }

// Retention is how long a window is kept after its start, in ms.
func (w Windows) Retention() int64 {
	if w.retains {
		return w.retain.Milliseconds()
	}
	return w.least()
}

// least is the shortest retention: late records must find their windows, and sliding windows look back twice their difference.
func (w Windows) least() int64 {
	size := w.Size()
	if w.kind == Sliding {
		size *= 2
	}
	return size + w.Grace()
}

// Starts are the starts of the n windows that t is in: first, first+step and so on. There are none for a t before 1970. Not for sliding
// windows, which depend on other records.
func (w Windows) Starts(t int64) (first, step int64, n int) {
	if t < 0 {
		return 0, 0, 0
	}
	if w.kind == Dated {
		first, _ = w.calendar.Window(t)
		return first, 0, 1
	}
	size, advance := w.size.Milliseconds(), w.advance.Milliseconds()
	if size == advance {
		return t - t%size, advance, 1
	}
	first = max(0, t-size+advance) / advance * advance
	return first, advance, int((t-first)/advance) + 1
}

// End is the end of a window that starts at start.
func (w Windows) End(start int64) int64 {
	if w.kind == Dated {
		_, end := w.calendar.Window(start)
		return end
	}
	return Add(start, w.size.Milliseconds())
}

// Closed is the largest start of a window that is closed when stream time, with the grace taken off, is at; smaller starts are closed too.
// It is below 0 if no window is.
func (w Windows) Closed(at int64) int64 {
	switch w.kind {
	case Dated:
		if at < 0 {
			return -1
		}
		start, _ := w.calendar.Window(at)
		return start - 1
	case Sliding:
		return Sub(Sub(at, w.size.Milliseconds()), 1) // its end still belongs to it
	default:
		return Sub(at, w.size.Milliseconds())
	}
}

// Faults are what is wrong with the declaration.
func (w Windows) Faults() []state.Fault {
	var f faults
	switch w.kind {
	case Undeclared:
		f.add("make one with window.Tumbling, Hopping, Sliding, Daily, Weekly, Monthly, Quarterly or Yearly", "the windows are the zero Spec")
		return f
	case Aligned:
		f.duration("the windows' size", w.size, 1)
		if w.advance != w.size {
			f.duration("the windows' advance", w.advance, 1)
		}
		if w.advance > w.size {
			f.add("give an advance of at most the size", "the windows' advance, %v, is larger than their size, %v, so that records between them would be lost", w.advance, w.size)
		}
	case Sliding:
		f.duration("the sliding windows' difference", w.size, 0)
	case Dated:
		f = w.calendar.faults()
	}
	f.duration("the windows' grace", w.grace, 0)
	f.sum("the windows' size and grace", w.least())
	if w.retains {
		sum := "the size plus the grace"
		if w.kind == Sliding {
			sum = "twice the difference plus the grace"
		}
		f.retention(w.retain, w.least(), sum)
	}
	return f
}

// Shape is the windows in words without what may change from one deploy to the next: "tumbling(5m0s)", "daily(Europe/Berlin)". Grace and
// retention are left out. It has no spaces, so that it can be part of a fingerprint.
func (w Windows) Shape() string {
	switch w.kind {
	case Aligned:
		if w.size == w.advance {
			return fmt.Sprintf("tumbling(%v)", w.size)
		}
		return fmt.Sprintf("hopping(%v,%v)", w.size, w.advance)
	case Sliding:
		return fmt.Sprintf("sliding(%v)", w.size)
	case Dated:
		return w.calendar.String()
	}
	return "undeclared"
}

// String is the windows in words: "hopping(5m0s,1m0s), grace 10s".
func (w Windows) String() string { return trimmings(w.Shape(), w.grace, w.retain, w.retains) }

func trimmings(shape string, grace, retain time.Duration, retains bool) string {
	if grace != 0 {
		shape += fmt.Sprintf(", grace %v", grace)
	}
	if retains {
		shape += fmt.Sprintf(", kept for %v", retain)
	}
	return shape
}

// Bare is the windows without grace and retention: two that are equal have the same starts and ends.
func (w Windows) Bare() Windows {
	return Windows{kind: w.kind, calendar: w.calendar, size: w.size, advance: w.advance}
}
