package span

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"
)

// zones have about everything that clocks do.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu",
	"Australia/Lord_Howe",  // half an hour
	"America/Sao_Paulo",    // days without midnight, until 2019
	"America/Havana",       // midnight twice or never
	"Africa/Cairo",         // the same
	"Asia/Beirut",          // the same
	"America/St_Johns",     // at one past midnight back into the day before, until 2011
	"Pacific/Apia",         // 2011-12-30 was left out
	"Pacific/Kwajalein",    // 1993-08-21 was left out
	"Antarctica/Troll",     // two hours
	"Antarctica/Casey",     // three hours forward and back
	"Africa/Casablanca",    // negative daylight-saving time around Ramadan
	"Africa/Monrovia",      // seconds off, until 1972
	"Asia/Tehran",          // at midnight, by another calendar
	"Pacific/Chatham",      // 12:45
	"America/Scoresbysund", // a change of zone and rules in one night
}

func zone(t testing.TB, name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func at(t testing.TB, s string) int64 {
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v.UnixMilli()
}

// W05: days of 24, 25 and 23 hours.
func TestDays(t *testing.T) {
	for _, c := range []struct{ zone, at, start, end string }{
		{"Europe/Copenhagen", "2018-08-08T22:00:00Z", "2018-08-08T22:00:00Z", "2018-08-09T22:00:00Z"},
		{"Europe/Copenhagen", "2018-08-09T21:59:59Z", "2018-08-08T22:00:00Z", "2018-08-09T22:00:00Z"},
		{"Europe/Berlin", "2024-10-26T22:00:00Z", "2024-10-26T22:00:00Z", "2024-10-27T23:00:00Z"},
		{"Europe/Berlin", "2024-10-27T22:30:00Z", "2024-10-26T22:00:00Z", "2024-10-27T23:00:00Z"},
		{"Europe/Berlin", "2024-10-27T23:00:00Z", "2024-10-27T23:00:00Z", "2024-10-28T23:00:00Z"},
		{"Europe/Berlin", "2024-03-31T12:00:00Z", "2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z"},
		// No midnight: the day begins at one o'clock.
		{"America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		// Back over midnight: the repeated hour is part of the new day.
		{"America/St_Johns", "2010-11-07T02:45:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},
		// The 30th was left out.
		{"Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
		// The first window starts with 1970.
		{"Europe/Berlin", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T23:00:00Z"},
		{"America/New_York", "1970-01-01T04:59:59Z", "1970-01-01T00:00:00Z", "1970-01-01T05:00:00Z"},
	} {
		start, end := calendarOf(Day, zone(t, c.zone), 0).Window(at(t, c.at))
		if start != at(t, c.start) || end != at(t, c.end) {
			t.Errorf("%s in %s is in %v to %v, want %s to %s", c.at, c.zone, time.UnixMilli(start).UTC(), time.UnixMilli(end).UTC(), c.start, c.end)
		}
	}
}

func TestLongerWindows(t *testing.T) {
	for _, c := range []struct {
		unit           Unit
		first          time.Weekday
		at, start, end string
	}{
		{Week, time.Monday, "2024-03-31T12:00:00Z", "2024-03-24T23:00:00Z", "2024-03-31T22:00:00Z"},
		{Week, time.Sunday, "2024-03-31T12:00:00Z", "2024-03-30T23:00:00Z", "2024-04-06T22:00:00Z"},
		{Week, time.Saturday, "2024-03-29T12:00:00Z", "2024-03-22T23:00:00Z", "2024-03-29T23:00:00Z"},
		{Month, 0, "2024-02-29T12:00:00Z", "2024-01-31T23:00:00Z", "2024-02-29T23:00:00Z"},
		{Month, 0, "2024-12-31T22:59:59Z", "2024-11-30T23:00:00Z", "2024-12-31T23:00:00Z"},
		{Quarter, 0, "2024-05-31T12:00:00Z", "2024-03-31T22:00:00Z", "2024-06-30T22:00:00Z"},
		{Quarter, 0, "2024-12-01T12:00:00Z", "2024-09-30T22:00:00Z", "2024-12-31T23:00:00Z"},
		{Year, 0, "2024-12-31T22:59:59Z", "2023-12-31T23:00:00Z", "2024-12-31T23:00:00Z"},
	} {
		start, end := calendarOf(c.unit, zone(t, "Europe/Berlin"), c.first).Window(at(t, c.at))
		if start != at(t, c.start) || end != at(t, c.end) {
			t.Errorf("%s, %s: %v to %v, want %s to %s", units[c.unit].name, c.at, time.UnixMilli(start).UTC(), time.UnixMilli(end).UTC(), c.start, c.end)
		}
	}
}

// period is the first date of the window that a date is in.
func period(unit Unit, first time.Weekday, y int, m time.Month, d int) time.Time {
	at := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	switch unit {
	case Week:
		for at.Weekday() != first {
			at = at.AddDate(0, 0, -1)
		}
	case Month:
		at = time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
	case Quarter:
		at = time.Date(y, m-(m-1)%3, 1, 0, 0, 0, 0, time.UTC)
	case Year:
		at = time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return at
}

// Windows cover all time, each instant once, and change where the date on the clock, the largest so far, changes its period.
func TestCalendarAgainstClocks(t *testing.T) {
	for _, name := range zones {
		loc := zone(t, name)
		for unit := range units {
			c := calendarOf(Unit(unit), loc, time.Wednesday)
			rapid.Check(t, func(rt *rapid.T) {
				when := rapid.Int64Range(0, 4_000_000_000_000).Draw(rt, "t")
				if rapid.Bool().Draw(rt, "near a change") {
					_, end := time.UnixMilli(when).In(loc).ZoneBounds()
					if !end.IsZero() {
						when = end.UnixMilli() + rapid.Int64Range(-2*day, 2*day).Draw(rt, "off")
					}
				}
				start, end := c.Window(when)
				if when < start || when >= end || end-start > c.Longest() {
					rt.Fatalf("%s: %d is in [%d, %d), of %d hours", c, when, start, end, (end-start)/hour)
				}
				if s, e := c.find(when); s != start || e != end {
					rt.Fatalf("%s: [%d, %d) with the cache, [%d, %d) without", c, start, end, s, e)
				}
				for _, in := range []int64{start, end - 1} {
					if s, e := c.Window(in); s != start || e != end {
						rt.Fatalf("%s: %d is in [%d, %d), %d in [%d, %d)", c, when, start, end, in, s, e)
					}
				}
				if s, _ := c.Window(end); s != end {
					rt.Fatalf("%s: [%d, %d) is followed by one from %d", c, start, end, s)
				}
				date := func(at int64) time.Time {
					y, m, d := time.UnixMilli(at).In(loc).Date()
					return period(c.unit, c.first, y, m, d)
				}
				if start > 0 && !date(start-1).Before(date(start)) {
					rt.Fatalf("%s: a window from %v, in the middle of a period", c, time.UnixMilli(start).In(loc))
				}
				if !date(end - 1).Before(date(end)) {
					rt.Fatalf("%s: a window until %v, in the middle of a period", c, time.UnixMilli(end).In(loc))
				}
				if date(when).After(date(start)) {
					rt.Fatalf("%s: %v is in the window from %v", c, time.UnixMilli(when).In(loc), time.UnixMilli(start).In(loc))
				}
			})
		}
	}
}

func TestFarFuture(t *testing.T) {
	c := calendarOf(Day, zone(t, "Europe/Berlin"), 0)
	for _, v := range []int64{last - 1, last, last + 1, math.MaxInt64 - 1} {
		if start, end := c.Window(v); v < start || v >= end {
			t.Errorf("%d is in [%d, %d)", v, start, end)
		}
	}
}

func TestOneCalendarForOneZone(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	if calendarOf(Day, berlin, 0) != calendarOf(Day, zone(t, "Europe/Berlin"), 0) {
		t.Error("a zone that was loaded twice has two calendars")
	}
	if calendarOf(Day, berlin, 0) == calendarOf(Month, berlin, 0) {
		t.Error("days are months")
	}
	if calendarOf(Week, berlin, time.Monday) == calendarOf(Week, berlin, time.Sunday) {
		t.Error("weeks from Monday are weeks from Sunday")
	}
	if calendarOf(Day, time.FixedZone("X", 3600), 0) == calendarOf(Day, time.FixedZone("X", 7200), 0) {
		t.Error("two zones of one name have one calendar")
	}
	if calendarOf(Day, nil, 0) == calendarOf(Day, time.UTC, 0) {
		t.Error("no zone is UTC")
	}
}

// Windows that differ have different names: state is told from that of other windows by them. A zone of one offset may have any name.
func TestCalendarNames(t *testing.T) {
	for want, loc := range map[string]*time.Location{
		"daily(UTC)": time.UTC, "daily(Europe/Berlin)": zone(t, "Europe/Berlin"), "daily(Asia/Kolkata+05:30)": zone(t, "Asia/Kolkata"),
		"daily(X+01:00)": time.FixedZone("X", 3600), "daily(X-01:00)": time.FixedZone("X", -3600), "daily(UTC+02:00)": time.FixedZone("UTC", 7200),
		"daily(a_zone+00:00:01)": time.FixedZone("a zone", 1), "daily(X)": time.FixedZone("X", 0),
	} {
		if got := calendarOf(Day, loc, 0).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestLongest(t *testing.T) {
	for name, want := range map[string]int64{"UTC": 24, "Europe/Berlin": 25, "Antarctica/Troll": 26, "Antarctica/Casey": 27} {
		if got := calendarOf(Day, zone(t, name), 0).Longest() / hour; got != want {
			t.Errorf("%s has days of %d hours, want %d", name, got, want)
		}
	}
}

func TestCalendarFaults(t *testing.T) {
	for want, c := range map[string]*Calendar{
		"no time zone": calendarOf(Day, nil, 0),
		"time.Local":   calendarOf(Day, time.Local, 0),
		"weekday 7":    calendarOf(Week, time.UTC, 7),
		"weekday -1":   calendarOf(Week, time.UTC, -1),
	} {
		f := c.faults()
		if len(f) != 1 || !strings.Contains(f[0].Problem, want) || f[0].Remedy == "" {
			t.Errorf("%v, want %q", f, want)
		}
		if start, end := c.Window(123 * day); start > 123*day || end <= 123*day {
			t.Errorf("%s: [%d, %d)", c, start, end)
		}
	}
	if f := calendarOf(Week, time.UTC, time.Sunday).faults(); f != nil {
		t.Error(f)
	}
}

func TestCalendarManyGoroutines(t *testing.T) {
	c := calendarOf(Day, zone(t, "Europe/Berlin"), 0)
	var group sync.WaitGroup
	for i := range uint64(4) {
		group.Go(func() {
			r := rand.New(rand.NewPCG(i, i))
			for range 2000 {
				v := r.Int64N(1000 * day)
				if start, end := c.Window(v); v < start || v >= end {
					t.Errorf("%d is in [%d, %d)", v, start, end)
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkCalendar(b *testing.B) {
	c := calendarOf(Day, zone(b, "Europe/Berlin"), 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Window(1_700_000_000_000 + int64(i)*1000)
	}
}
