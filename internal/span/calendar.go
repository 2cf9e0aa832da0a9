package span

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Unit is the length of calendar windows.
type Unit uint8

// The units.
const (
	Day Unit = iota
	Week
	Month
	Quarter
	Year
)

var units = [...]struct {
	name     string
	shortest int64 // days
	longest  int64 // days
}{Day: {"daily", 1, 1}, Week: {"weekly", 7, 7}, Month: {"monthly", 28, 31}, Quarter: {"quarterly", 90, 92}, Year: {"yearly", 365, 366}}

const (
	hour = int64(time.Hour / time.Millisecond)
	day  = 24 * hour
	// last is the time from which on there is a single window, without end: the year 10,000 or so. Packages that compute with years may
	// fail long before the last millisecond that an int64 can hold.
	last = 253_402_300_800_000
)

// Calendar knows the windows of one unit in one time zone. Two that make the same windows are the same pointer. It may be used by many
// goroutines.
//
// A window starts when its first date is first shown by a clock in the zone. So a day without midnight starts at one o'clock, a date that is
// left out has no window, and a clock that is put back over midnight does not bring the day before back.
type Calendar struct {
	unit    Unit
	loc     *time.Location // UTC if none was given
	first   time.Weekday
	missing bool   // no time zone was given
	fixed   string // the offset of a zone that has no other, as text
	longest int64
	step    int64 // times are looked up in steps that meet two windows at most
	cache   [cacheSize]atomic.Pointer[stretch]
}

const cacheSize = 64

// stretch has the windows that meet one step of time.
type stretch struct {
	number int64
	bounds [3]int64 // two windows
}

var calendars struct {
	sync.Mutex
	byName map[string][]*Calendar
}

func calendarOf(unit Unit, loc *time.Location, first time.Weekday) *Calendar {
	missing := loc == nil
	if missing {
		loc = time.UTC
	}
	name := fmt.Sprintf("%d %d %t %s", unit, first, missing, loc)
	calendars.Lock()
	defer calendars.Unlock()
	for _, c := range calendars.byName[name] {
		if c.loc == loc || sameZone(c.loc, loc) {
			return c
		}
	}
	u := units[unit]
	c := &Calendar{
		unit: unit, loc: loc, first: first, missing: missing,
		longest: u.longest*day + setBack(loc),
		step:    u.shortest*day - 4*hour, // clocks are seldom put forward by more
	}
	c.fixed = fixed(loc)
	if calendars.byName == nil {
		calendars.byName = make(map[string][]*Calendar)
	}
	calendars.byName[name] = append(calendars.byName[name], c)
	return c
}

// horizon is until when changes of a zone are looked at one by one. Those that are known to come repeat long before.
var horizon = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// changes visits the changes of a zone's offset from UTC, in seconds, since 1970.
func changes(loc *time.Location, visit func(at time.Time, before, after int) bool) {
	t := time.Unix(0, 0).In(loc)
	_, before := t.Zone()
	if !visit(t, before, before) {
		return
	}
	for t.Before(horizon) {
		end := bound(t)
		if end.IsZero() {
			return
		}
		_, after := end.Zone()
		if !visit(end, before, after) {
			return
		}
		t, before = end, after
	}
}

// fixed is the offset from UTC of a zone that has had no other since 1970, as in "+01:00"; empty for others and for none. The name of such a zone may be anybody's, as with
// time.FixedZone, so it does not say enough.
func fixed(loc *time.Location) (offset string) {
	changes(loc, func(at time.Time, before, after int) bool {
		switch {
		case before != after:
			offset = ""
			return false
		case after != 0 && offset == "":
			offset = at.Format("-07:00:00")
		}
		return true
	})
	return strings.TrimSuffix(offset, ":00")
}

// bound is until when the offset of t's zone stays at least; zero if it never changes again. By the rules for the future, package time lets the last day
// of a leap year end before it begins, so that a walk from bound to bound would never get past it. No clock is changed on that day.
func bound(t time.Time) time.Time {
	_, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		return t.Add(time.Hour)
	}
	return end
}

// setBack is by how much the clocks of a zone are put back at most, in ms.
func setBack(loc *time.Location) (most int64) {
	changes(loc, func(_ time.Time, before, after int) bool {
		most = max(most, int64(before-after)*1000)
		return true
	})
	return most
}

func sameZone(a, b *time.Location) bool {
	type change struct {
		at            int64
		before, after int
	}
	var all []change
	changes(a, func(at time.Time, before, after int) bool {
		all = append(all, change{at.Unix(), before, after})
		return true
	})
	i, same := 0, true
	changes(b, func(at time.Time, before, after int) bool {
		same = i < len(all) && all[i] == change{at.Unix(), before, after}
		i++
		return same
	})
	return same && i == len(all)
}

// Longest is the greatest length of a window in ms.
func (c *Calendar) Longest() int64 { return c.longest }

// String is the windows in words: "weekly(Europe/Berlin,Monday)".
func (c *Calendar) String() string {
	zone := strings.ReplaceAll(c.loc.String(), " ", "_") + c.fixed
	if c.missing {
		zone = "nil"
	}
	if c.unit == Week {
		zone += "," + c.first.String()
	}
	return units[c.unit].name + "(" + zone + ")"
}

func (c *Calendar) faults() (f faults) {
	if c.missing {
		f.add(`give one, such as that of time.LoadLocation("Europe/Berlin"), whose error is worth a look, or time.UTC`, "the %s windows have no time zone", units[c.unit].name)
	}
	if c.loc == time.Local {
		// What it is depends on the machine, and so would the results.
		f.add("name the time zone, as in time.LoadLocation(\"Europe/Berlin\")", "the %s windows are those of time.Local, which may be another zone on another machine", units[c.unit].name)
	}
	if c.unit == Week && (c.first < time.Sunday || c.first > time.Saturday) {
		f.add("give one from time.Sunday to time.Saturday", "the weeks begin on weekday %d", int(c.first))
	}
	return f
}

// Window is the window that holds t, a time of 1970 or later in ms: start <= t < end. The first one starts in 1970.
func (c *Calendar) Window(t int64) (start, end int64) {
	if t >= last {
		return last, math.MaxInt64
	}
	n := t / c.step
	cell := &c.cache[n%cacheSize]
	s := cell.Load()
	if s == nil || s.number != n {
		s = c.stretch(n)
		cell.Store(s)
	}
	switch b := &s.bounds; {
	case t < b[1]:
		return b[0], b[1]
	case t < b[2]:
		return b[1], b[2]
	}
	return c.find(t) // clocks were put forward by hours
}

func (c *Calendar) stretch(n int64) *stretch {
	s := &stretch{number: n}
	s.bounds[0], s.bounds[1] = c.find(n * c.step)
	s.bounds[2] = s.bounds[1]
	if s.bounds[1] < last {
		_, s.bounds[2] = c.find(s.bounds[1])
	}
	return s
}

// find is Window without the cache.
func (c *Calendar) find(t int64) (start, end int64) {
	local := time.UnixMilli(t).In(c.loc)
	y, m, d := local.Date()
	switch c.unit {
	case Week:
		d -= ((int(local.Weekday())-int(c.first))%7 + 7) % 7
	case Month:
		d = 1
	case Quarter:
		m, d = m-(m-1)%3, 1
	case Year:
		m, d = time.January, 1
	}
	start = c.begin(y, m, d)
	for {
		y, m, d = c.next(y, m, d)
		end = c.begin(y, m, d)
		if end > t {
			// Dates that are left out begin with the one after them.
			return max(start, 0), min(end, last)
		}
		start = end // it is the day before once more, by the clock
	}
}

func (c *Calendar) next(y int, m time.Month, d int) (int, time.Month, int) {
	switch c.unit {
	case Day:
		d++
	case Week:
		d += 7
	case Month:
		m++
	case Quarter:
		m += 3
	case Year:
		y++
	}
	return y, m, d
}

// begin is when the clocks first show a date or a later one.
func (c *Calendar) begin(y int, m time.Month, d int) int64 {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
	// No zone is a day and a half ahead.
	from := midnight - 36*3600
	for {
		t := time.Unix(from, 0).In(c.loc)
		_, offset := t.Zone()
		zoneEnd := bound(t)
		at := midnight - int64(offset)
		if at <= from {
			return from * 1000 // it was left out
		}
		if zoneEnd.IsZero() || at < zoneEnd.Unix() {
			return at * 1000
		}
		from = zoneEnd.Unix()
	}
}
