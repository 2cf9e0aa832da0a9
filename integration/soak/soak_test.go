package soak

import (
	"strings"
	"testing"
	"time"
)

// short is a run of some seconds. It writes little more than Badger's memtables and first tables hold, so they make up most of heap and disk.
func short(t *testing.T) Options {
	o := Defaults()
	o.Dir, o.Steps, o.Pace, o.Records, o.Memory = t.TempDir(), 24, 0, 2000, 32<<20
	return o
}

// fixed is more than Badger's memtables and first tables take up, in memory and on disk.
const fixed = 64 << 20

// State is bounded while keys and ids come that were never there before: every store is as large in the end as after its retention.
func TestNothingGrows(t *testing.T) {
	o := short(t)
	o.Progress = t.Output()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%v", r)
	if len(r.Samples) != o.Steps || len(r.Columns) != 7 {
		t.Fatalf("%d samples of %v", len(r.Samples), r.Columns)
	}
	for _, g := range r.Growth() {
		switch {
		case g.Column == "buffers":
			if most := max(g.First, g.Later); most > Buffers {
				t.Errorf("%d bytes of buffers", most)
			}
		case g.Column == "disk" || g.Column == "heap":
			if g.Later == 0 || g.Later > fixed {
				t.Errorf("%s: %d bytes, at most %d are Badger's own", g.Column, g.Later, fixed)
			}
		case g.First == 0 || g.Ratio() > Limit:
			t.Errorf("%s: %d in the first half, %d in the second", g.Column, g.First, g.Later)
		}
	}
	if last := r.Samples[len(r.Samples)-1]; last.Records != int64(o.Steps*o.Records) || last.Event != time.Duration(o.Steps)*o.Event {
		t.Errorf("the last sample is %+v", last)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, spoil := range map[string]func(*Options){
		"steps":   func(o *Options) { o.Steps = 2*o.retained() - 1 },
		"event":   func(o *Options) { o.Event = 0 },
		"commits": func(o *Options) { o.Commits = 0 },
		"memory":  func(o *Options) { o.Memory = 0 },
	} {
		o := short(t)
		spoil(&o)
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("wrong %s passed", name)
		}
	}
}

// Users come and go, and some ids come twice: without either nothing would be shown.
func TestFeed(t *testing.T) {
	o := short(t)
	f := feed{Options: o, rnd: newRandom(o.Seed)}
	users, ids := map[string]int{}, map[string]int{}
	for range 10 * o.Records {
		r := f.next()
		users[string(r.Key)]++
		ids[string(r.Value)]++
	}
	if n := 10 * o.Records; len(users) < n/perUser*9/10 || len(ids) < n*85/100 || len(ids) > n*95/100 {
		t.Errorf("%d records of %d users with %d ids", n, len(users), len(ids))
	}
	for user := range users {
		if !strings.HasPrefix(user, "user-") {
			t.Errorf("user %q", user)
		}
	}
}
