package main

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

// list is an airport's fee from a time on, and says when the list comes.
type list struct {
	code        string
	from, comes time.Time
	fee         fee
}

// lists has a new fee for each airport every second week, some of them hours after they are in force.
func lists(flights []data.Flight) (all []list) {
	codes := make(map[string]bool)
	for _, f := range flights {
		codes[f.Origin] = true
	}
	n := int64(0)
	for at := time.Date(2000, 12, 31, 0, 0, 0, 0, time.UTC); at.Year() < 2001 || at.Month() < 4; at = at.AddDate(0, 0, 14) {
		for code := range codes {
			n++
			from := at.Add(time.Duration(code[0]) * 10 * time.Minute) // another hour for each letter
			all = append(all, list{code, from, from.Add(time.Duration(n%3) * time.Hour), fee{1000 + n, 1 + n%5}})
		}
	}
	slices.SortFunc(all, func(a, b list) int { return cmp.Or(a.comes.Compare(b.comes), cmp.Compare(a.code, b.code)) })
	return all
}

// batch bills each flight by the list that was in force.
func batch(flights []data.Flight, lists []list) (all []charge) {
	byAirport := make(map[string][]list)
	for _, l := range lists {
		byAirport[l.code] = append(byAirport[l.code], l)
	}
	for _, f := range flights {
		var now list
		for _, l := range byAirport[f.Origin] {
			if !l.from.After(f.Departed) && l.from.After(now.from) {
				now = l
			}
		}
		all = append(all, bill(f, now.fee))
	}
	return all
}

// inOrder sorts charges, as flights of different partitions come out in any order.
func inOrder(all []charge) []charge {
	slices.SortFunc(all, func(a, b charge) int {
		return cmp.Or(a.Departed.Compare(b.Departed), cmp.Compare(a.To, b.To), cmp.Compare(a.Cents, b.Cents))
	})
	return all
}

func TestEqualToBatch(t *testing.T) {
	all, err := data.Flights()
	if err != nil {
		t.Fatal(err)
	}
	all = all[:7000] // a month
	top, err := charging()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top, topologytest.Partitions(3))
	in, table, out := d.Input(flights), d.Input(fees), d.Output(charges)
	fees := lists(all)
	next := 0
	for i, f := range all {
		for ; next < len(fees) && !fees[next].comes.After(f.Departed); next++ {
			l := fees[next]
			table.SendAt(l.from, l.code, l.fee)
		}
		in.SendAt(f.Departed, f.Origin, f)
		if i == len(all)/2 {
			d.Restart() // the disk is lost, with flights that wait and a history
		}
	}
	for _, code := range []string{"ATL", "DEN", "JFK", "LAX", "ORD", "SEA", "SFO"} { // of all three partitions
		in.SendAt(time.Date(2002, 1, 1, 0, 0, 0, 0, time.UTC), code, data.Flight{Origin: code})
	}
	var got []charge
	for _, r := range out.Take() {
		got = append(got, r.Value)
	}
	if want := batch(all, fees); len(got) != 7000 || !slices.Equal(inOrder(got), inOrder(want)) {
		t.Errorf("%d flights were charged, the batch has %d, or they pay something else", len(got), len(want))
	}
	if drops := d.Drops(); len(drops) > 0 {
		t.Errorf("%d flights were dropped, the first for %q", len(drops), drops[0].Reason)
	}
}

func TestHindsight(t *testing.T) {
	top, err := charging()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top)
	in, table, out := d.Input(flights), d.Input(fees), d.Output(charges)
	at := func(hour int) time.Time { return d.At(time.Duration(hour) * time.Hour) }
	leave := func(hour int, code string) {
		in.SendAt(at(hour), code, data.Flight{Departed: at(hour), Miles: 100, Origin: code, Destination: "SEA"})
	}
	table.SendAt(at(0), "LAX", fee{1000, 1})
	leave(10, "LAX")
	leave(11, "LAX")
	table.SendAt(at(11), "LAX", fee{5000, 2}) // after the flight for which it is
	leave(10, "LAX")                          // comes late, and waits for its turn
	leave(12, "???")
	out.None()
	leave(15, "LAX")
	out.Next("LAX", charge{"SEA", at(10), 1100})
	out.Next("LAX", charge{"SEA", at(10), 1100})
	out.Next("LAX", charge{"SEA", at(11), 5200})
	out.None()
	if n := len(d.Drops(processor.NoRow)); n != 1 {
		t.Errorf("%d flights left airports without fees, want 1", n)
	}
}
