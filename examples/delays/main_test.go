package main

import (
	"maps"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

func start(t *testing.T, partitions int) *topologytest.Driver {
	t.Helper()
	top, err := delays()
	if err != nil {
		t.Fatal(err)
	}
	return topologytest.New(t, top, topologytest.Partitions(partitions))
}

// batch adds up the flights of each airport between one boundary of time and the next, in a plain loop.
func batch(all []data.Flight, bounds func(time.Time) (from, to time.Time)) map[window.Key[string]]delay {
	sums := make(map[window.Key[string]]delay)
	for _, f := range all {
		if onPacificTime[f.Origin] {
			from, to := bounds(departed("", f))
			k := window.Of(f.Origin, from, to)
			sums[k] = add("", f, sums[k])
		}
	}
	return sums
}

func hourOf(t time.Time) (from, to time.Time) {
	from = t.Truncate(time.Hour)
	return from, from.Add(time.Hour)
}

func dayOf(t time.Time) (from, to time.Time) {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, pacific), time.Date(y, m, d+1, 0, 0, 0, 0, pacific)
}

// Every hour comes out once, and equals what a loop over the file makes of it; so do the days.
func TestEqualToBatch(t *testing.T) {
	all, err := data.Flights()
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, 3)
	in, byHour, byDay := d.Input(flights), d.Output(delaysHours), d.Output(delaysDays)
	for i, f := range all {
		in.Send(f.Origin, f)
		if i == len(all)/2 {
			d.Restart() // the disk is lost, in the middle of an hour and of a day
		}
	}
	days := byDay.Map()
	if want := batch(all, dayOf); len(want) != 610 || !maps.Equal(days, want) {
		t.Errorf("%d days, the batch has %d, or other ones", len(days), len(want))
	}

	// A flight of next year leaves every airport: now time has passed the last hour in every partition.
	for code := range onPacificTime {
		in.Send(code, data.Flight{Origin: code, Departed: time.Date(2002, 1, 1, 8, 0, 0, 0, time.UTC)})
	}
	hours := make(map[window.Key[string]]delay)
	for _, r := range byHour.Take() {
		if earlier, sent := hours[r.Key]; sent {
			t.Errorf("%v was %v before it was %v", r.Key, earlier, r.Value)
		}
		hours[r.Key] = r.Value
	}
	if want := batch(all, hourOf); len(want) != 1887 || !maps.Equal(hours, want) {
		t.Errorf("%d hours, the batch has %d, or other ones", len(hours), len(want))
	}
	if drops := d.Drops(); len(drops) > 0 {
		t.Errorf("%d flights were dropped, the first for %q", len(drops), drops[0].Reason)
	}
}

func TestLateFlight(t *testing.T) {
	d := start(t, 1)
	in, out := d.Input(flights), d.Output(delaysHours)
	leave := func(clock string, minutes int64) {
		at, err := time.Parse("15:04", clock)
		if err != nil {
			t.Fatal(err)
		}
		in.Send("LAX", data.Flight{Origin: "LAX", Delay: minutes, Departed: at.AddDate(2001, 0, 0)})
	}
	eight := window.Of("LAX", time.Date(2001, 1, 1, 8, 0, 0, 0, pacific), time.Date(2001, 1, 1, 9, 0, 0, 0, pacific))

	leave("08:05", 10)
	leave("09:09", 0)
	leave("08:55", 5) // late, but within the grace
	out.None()
	leave("09:10", 0)
	out.Next(eight, delay{2, 15})
	leave("08:59", 100) // the hour is closed
	leave("09:30", 0)
	out.None()
	if n := len(d.Drops(processor.Late)); n != 1 {
		t.Errorf("%d flights were late for their hour, want 1", n)
	}
}

// On the first of April 2001 the clocks went from two to three in the morning.
func TestShortDay(t *testing.T) {
	d := start(t, 1)
	in, out := d.Input(flights), d.Output(delaysDays)
	for _, f := range []data.Flight{
		{Origin: "SFO", Delay: 1, Departed: time.Date(2001, 3, 31, 23, 59, 0, 0, time.UTC)},
		{Origin: "SFO", Delay: 2, Departed: time.Date(2001, 4, 1, 0, 0, 0, 0, time.UTC)},
		{Origin: "SFO", Delay: 3, Departed: time.Date(2001, 4, 1, 23, 59, 0, 0, time.UTC)},
		{Origin: "SFO", Delay: 4, Departed: time.Date(2001, 4, 2, 0, 0, 0, 0, time.UTC)},
	} {
		in.Send("SFO", f)
	}
	var got []time.Duration
	for _, r := range out.Take() {
		got = append(got, r.Key.End().Sub(r.Key.Start()))
	}
	if len(got) != 4 || got[0] != 24*time.Hour || got[1] != 23*time.Hour || got[2] != 23*time.Hour || got[3] != 24*time.Hour {
		t.Errorf("days of %v", got)
	}
	from, to := dayOf(time.Date(2001, 4, 1, 12, 0, 0, 0, pacific))
	if first, want := d.Output(delaysDays).Map()[window.Of("SFO", from, to)], (delay{2, 5}); first != want {
		t.Errorf("the first of April is %v, want %v", first, want)
	}
}
