package store_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/store/memstore"
	"github.com/kolkstreams/kolk/window"
)

// counting is a backend that timedCounts how often rows of segments are asked for.
type counting struct {
	*memstore.Store
	gets, scans int
}

func (c *counting) GetSegment(s state.Segment, key, dst []byte) ([]byte, bool, error) {
	c.gets++
	return c.Store.GetSegment(s, key, dst)
}

func (c *counting) ScanSegment(s state.Segment, from, to []byte, reverse bool, visit func(key, value []byte) bool) error {
	c.scans++
	return c.Store.ScanSegment(s, from, to, reverse, visit)
}

// timedFixture is a window or session store alone in a backend.
type timedFixture struct {
	live    state.Segmenting
	backend *counting
	dropped []string
	now     int64
}

func newTimed(h state.Declared, disk *memstore.Disk, budget *state.Budget) *timedFixture {
	f := &timedFixture{backend: &counting{Store: disk.Open()}, now: 7}
	f.live = state.Of(h).Open(state.Env{
		Backend: f.backend, Budget: budget, Now: func() int64 { return f.now }, StreamTime: func() int64 { return f.now },
		Drop: func(reason string) { f.dropped = append(f.dropped, reason) },
	}).(state.Segmenting)
	return f
}

func (f *timedFixture) commit(t *testing.T) (out []string) {
	t.Helper()
	if err := f.live.Flush(func(key, value []byte, at int64) error {
		out = append(out, fmt.Sprintf("%s=%s@%d", hex.EncodeToString(key), value, at))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f.live.Committed()
	return out
}

// checkpoint returns how many rows it wrote into segments.
func (f *timedFixture) checkpoint(t *testing.T) (rows int) {
	t.Helper()
	batches := f.live.Freeze()
	segments, drop := f.live.FreezeSegments()
	for _, s := range segments {
		rows += len(s.Rows)
	}
	if err := f.backend.ApplySegments(batches, segments, drop, nil); err != nil {
		t.Fatal(err)
	}
	f.backend.Switch()
	f.live.Applied()
	return rows
}

func ms(n int64) time.Time { return time.UnixMilli(n) }

var timedCounts = store.NewWindow("timedCounts", serde.String(), serde.String(), 10*time.Millisecond, 100*time.Second)

func windowOf(f *timedFixture) store.Window[string, string] {
	return f.live.(state.Opener).Opened().(store.Window[string, string])
}

// F7, F9, F13: the changelog has Kafka Streams' bytes.
func TestTimedChangelogBytes(t *testing.T) {
	f := newTimed(timedCounts, memstore.NewDisk(), nil)
	windowOf(f).Put("k", ms(1), "v")
	f.live.(state.Windows[string, string]).Modify("k", 2, func(string, int64, bool) (string, int64, bool) { return "w", 99, true })
	if got := f.commit(t); !slices.Equal(got, []string{"6b000000000000000100000000=v@7", "6b000000000000000200000000=w@99"}) {
		t.Error(got)
	}
	h := store.NewSession("visits", serde.String(), serde.String(), time.Minute)
	f = newTimed(h, memstore.NewDisk(), nil)
	f.live.(state.Opener).Opened().(store.Session[string, string]).Put(window.Of("k", ms(1), ms(2)), "v")
	if got := f.commit(t); !slices.Equal(got, []string{"6b00000000000000020000000000000001=v@7"}) {
		t.Error(got)
	}
}

// Guards the speed of a deduplication that has outgrown memory: the backend is not asked for keys that never were in it, neither by what is looked up nor by what
// is put, also after a restore.
func TestUnknownKeysSpareTheBackend(t *testing.T) {
	const n = 2000
	key := func(i int) string { return fmt.Sprintf("id-%06d", i) }
	seen := func(f *timedFixture, from, to int) (found int) {
		t.Helper()
		s := f.live.(state.Windows[string, string])
		for i := from; i < to; i++ {
			if _, _, ok := s.Lookup(key(i), 10); ok {
				found++
				continue
			}
			s.Modify(key(i), 10, func(_ string, _ int64, ok bool) (string, int64, bool) {
				if ok {
					t.Fatalf("%s is there, and was not", key(i))
				}
				return "v", 1, true
			})
		}
		return found
	}
	crowded := func() *state.Budget {
		b := state.NewBudget(1 << 20)
		b.Add(1 << 20) // by other stores: what can be evicted is
		return b
	}
	disk := memstore.NewDisk()
	f := newTimed(timedCounts, disk, crowded())
	var log [][2]string
	for round := range 4 {
		if found := seen(f, round*n, (round+1)*n); found != 0 {
			t.Fatalf("%d keys are known that are new", found)
		}
		if err := f.live.Flush(func(name, value []byte, at int64) error {
			log = append(log, [2]string{string(name), string(value)})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		f.live.Committed()
		f.checkpoint(t)
	}
	if held := f.live.Stats().Memory; held > 1<<20 {
		t.Errorf("%d bytes in memory, nothing was evicted", held)
	}
	// Of the new keys in the last rounds some are taken for old ones by the filter, no more.
	if f.backend.gets > 3*n/20 {
		t.Errorf("the backend was asked %d times for %d new keys", f.backend.gets, 4*n)
	}
	if found := seen(f, 0, n); found != n {
		t.Errorf("%d of %d keys that were evicted are found", found, n)
	}
	f.live.Close()

	f = newTimed(timedCounts, memstore.NewDisk(), crowded())
	loader, err := f.backend.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range log {
		if err := f.live.Load(loader, []byte(r[0]), []byte(r[1]), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := loader.Finish(nil); err != nil {
		t.Fatal(err)
	}
	if found := seen(f, 4*n, 5*n); found != 0 || f.backend.gets > n/20 {
		t.Errorf("after a restore: %d found of %d new keys, the backend was asked %d times", found, n, f.backend.gets)
	}
	if found := seen(f, 0, 4*n); found != 4*n {
		t.Errorf("after a restore %d of %d keys are found", found, 4*n)
	}
}

// Looking for what is not there keeps nothing, where memory has all there is: a deduplication looks for each id in two windows, and puts it into one.
func TestLookupOfNothingKeepsNothing(t *testing.T) {
	f := newTimed(timedCounts, memstore.NewDisk(), nil)
	s := f.live.(state.Windows[string, string])
	s.Modify("there", 10, func(string, int64, bool) (string, int64, bool) { return "v", 1, true })
	before := f.live.Stats().Memory
	for i := range 1000 {
		if v, _, ok := s.Lookup(fmt.Sprint("not there ", i), int64(i%2)*90_000); ok {
			t.Fatalf("found %q", v)
		}
	}
	if after := f.live.Stats().Memory; after != before {
		t.Errorf("%d bytes of memory after 1000 look-ups of nothing, %d before", after, before)
	}
	if v, at, ok := s.Lookup("there", 10); v != "v" || at != 1 || !ok {
		t.Errorf("%q, %d, %v", v, at, ok)
	}
	if f.backend.gets > 0 {
		t.Errorf("%d reads of a backend that has nothing", f.backend.gets)
	}
}

// What expires before its first checkpoint never touches the disk, and a new window asks it nothing.
func TestWindowsInMemory(t *testing.T) {
	f := newTimed(timedCounts, memstore.NewDisk(), nil)
	s := f.live.(state.Windows[string, string])
	for i := range int64(50) {
		s.Modify(fmt.Sprint(i%5), i*10_000, func(string, int64, bool) (string, int64, bool) { return "v", 1, true })
		f.commit(t)
	}
	if f.backend.gets+f.backend.scans > 0 {
		t.Errorf("%d gets, %d scans", f.backend.gets, f.backend.scans)
	}
	if rows := f.checkpoint(t); rows != 10 {
		t.Errorf("%d rows went to the backend, want the 10 of the last 100 s", rows)
	}
	if st := f.live.Stats(); st.Entries != 10 || st.Expired != 40 {
		t.Errorf("%+v", st)
	}
	s.Modify("later", 10_000_000, func(string, int64, bool) (string, int64, bool) { return "v", 1, true })
	f.commit(t)
	f.checkpoint(t)
	if n := f.backend.Segments(0); len(n) != 1 || f.live.Stats().Entries != 1 || f.live.Stats().Expired != 50 {
		t.Errorf("segments %v, %+v", n, f.live.Stats())
	}
}

// RS09, W07: what has expired stays so after a restart, from a checkpoint, a changelog or both.
func TestExpiredStaysExpired(t *testing.T) {
	disk := memstore.NewDisk()
	f := newTimed(timedCounts, disk, nil)
	w := windowOf(f)
	w.Put("old", ms(0), "v")
	w.Put("edge", ms(1), "v")
	f.commit(t)
	f.checkpoint(t)
	w.Put("new", ms(100_000), "v")
	f.commit(t)
	f.checkpoint(t)
	check := func(what string, f *timedFixture) {
		t.Helper()
		w := windowOf(f)
		if _, ok := w.Get("old", ms(0)); ok {
			t.Errorf("%s: the window that expired is there", what)
		}
		if _, ok := w.Get("edge", ms(1)); !ok {
			t.Errorf("%s: a window that did not expire is gone", what)
		}
		w.Put("old", ms(0), "again")
		w.Delete("old", ms(0))
		if !slices.Equal(f.dropped, []string{"expired", "expired"}) {
			t.Errorf("%s: dropped %v", what, f.dropped)
		}
		f.dropped = nil
	}
	check("before", f)
	check("from the checkpoint", newTimed(timedCounts, disk, nil))
	name := func(s string) []byte { b, _ := hex.DecodeString(s); return b }
	f = newTimed(timedCounts, memstore.NewDisk(), nil)
	for _, k := range []string{"6f6c64000000000000000000000000", "65646765000000000000000100000000", "6e657700000000000186a000000000"} {
		if err := f.live.Restore(name(k), []byte("v"), 1); err != nil {
			t.Fatal(err)
		}
	}
	check("from the changelog", f)
}

// A transaction that is aborted takes the observed time back.
func TestRollbackOfTime(t *testing.T) {
	f := newTimed(timedCounts, memstore.NewDisk(), nil)
	w := windowOf(f)
	w.Put("a", ms(0), "v")
	f.commit(t)
	w.Put("b", ms(1_000_000), "v")
	if _, ok := w.Get("a", ms(0)); ok {
		t.Error("the window has not expired")
	}
	f.live.Rollback()
	if _, ok := w.Get("a", ms(0)); !ok {
		t.Error("the window has expired in a transaction that was aborted")
	}
}

func TestTimedRefusals(t *testing.T) {
	f := newTimed(timedCounts, memstore.NewDisk(), nil)
	sessions := newTimed(store.NewSession("visits", serde.String(), serde.String(), time.Minute), memstore.NewDisk(), nil)
	visits := sessions.live.(state.Opener).Opened().(store.Session[string, string])
	for what, call := range map[string]func(){
		"a window before 1970":           func() { windowOf(f).Put("a", ms(-1), "v") },
		"a session before 1970":          func() { visits.Put(window.Of("a", ms(-1), ms(5)), "v") },
		"a session that ends at first":   func() { visits.Put(window.Of("a", ms(6), ms(5)), "v") },
		"a key that is too long":         func() { windowOf(f).Put(strings.Repeat("k", state.MaxKey-11), ms(1), "v") },
		"a key that is too long, a read": func() { windowOf(f).Get(strings.Repeat("k", state.MaxKey), ms(1)) },
	} {
		if p, ok := caught(call).(state.Failed); !ok {
			t.Errorf("%s: %v", what, p)
		}
	}
	for _, key := range []string{"", "00", "6b00000000000000010000000a", "6bffffffffffffffff00000000"} {
		name, _ := hex.DecodeString(key)
		if err := f.live.Restore(name, []byte("v"), 1); err == nil {
			t.Errorf("a changelog record with key %q is taken", key)
		}
	}
	if got := f.commit(t); len(got) > 0 {
		t.Errorf("written: %v", got)
	}
}

func TestTimedFaults(t *testing.T) {
	for want, d := range map[string]*state.Decl{
		"":                       state.Of(timedCounts),
		"size is 0s":             state.Of(store.NewWindow("s", serde.String(), serde.String(), 0, time.Hour)),
		"less than the windows'": state.Of(store.NewWindow("s", serde.String(), serde.String(), time.Hour, time.Minute)),
		"nothing is kept":        state.Of(store.NewSession("s", serde.String(), serde.String(), 0)),
		"no name":                state.Of(store.NewSession("", serde.String(), serde.String(), time.Hour)),
		"the key has no serde":   state.Of(store.NewSession[string]("s", nil, serde.String(), time.Hour)),
		"the value has no serde": state.Of(store.NewSession[string, string]("s", serde.String(), nil, time.Hour)),
		"of type float64":        state.Of(store.NewSession("s", serde.Float64(), serde.String(), time.Hour)),
	} {
		switch {
		case want == "" && len(d.Faults) > 0, want != "" && (len(d.Faults) != 1 || !strings.Contains(d.Faults[0].Problem, want)):
			t.Errorf("%v, want %q", d.Faults, want)
		case !strings.Contains(d.Place, "timed_test.go:"):
			t.Errorf("declared at %q", d.Place)
		}
	}
	d := state.Of(timedCounts)
	if d.Kind != "window" || d.Retention != 100_000 || d.Ends(5) != 15 || d.Ends(math.MaxInt64-1) != math.MaxInt64 {
		t.Errorf("%+v", d)
	}
	if k := state.Of(store.NewSession("s", serde.String(), serde.String(), time.Hour)).Kind; k != "session" {
		t.Error(k)
	}
}

// Keys that memory finds by their bytes, and values that it keeps decoded, behave like all others. D05: a key is not its prefix.
func TestTimedRanges(t *testing.T) {
	type moment struct{ At time.Time }
	key := func(n int64) moment { return moment{ms(n).UTC()} }
	h := store.NewWindow("moments", serde.JSON[moment](), serde.Int64(), 10*time.Millisecond, time.Hour)
	for _, budget := range []*state.Budget{nil, state.NewBudget(1)} {
		f := newTimed(h, memstore.NewDisk(), budget)
		w := f.live.(state.Opener).Opened().(store.Window[moment, int64])
		for i := range int64(400) {
			w.Put(key(i%20), ms(i*1000), i)
			if i%100 == 99 {
				f.commit(t)
				f.checkpoint(t)
			}
		}
		var got []int64
		for k, v := range w.FetchBackward(key(3), ms(0), ms(100_000)) {
			if k.End().Sub(k.Start()) != 10*time.Millisecond || k.Key != key(3) {
				t.Errorf("found %v", k)
			}
			got = append(got, v)
		}
		if !slices.Equal(got, []int64{83, 63, 43, 23, 3}) {
			t.Errorf("backward: %v", got)
		}
		got = nil
		for _, v := range w.Range(key(1), key(2), ms(40_000), ms(80_000)) {
			got = append(got, v)
		}
		if !slices.Equal(got, []int64{41, 42, 61, 62}) {
			t.Errorf("range of keys: %v", got)
		}
		n := 0
		for range w.All(ms(0), ms(math.MaxInt64)) {
			if n++; n == 5 {
				break
			}
		}
		if n != 5 || w.Len() != 400 {
			t.Errorf("visited %d, there are %d", n, w.Len())
		}
		r := state.Of(h).Read(view{f.live}).(store.WindowReader[moment, int64])
		if v, ok, err := r.Get(context.Background(), window.Of(key(3), ms(3000), ms(0))); v != 3 || !ok || err != nil {
			t.Errorf("a reader gets %d, %v, %v", v, ok, err)
		}
		ended, end := context.WithCancel(context.Background())
		end()
		if _, _, err := r.Get(ended, window.Of(key(3), ms(3000), ms(0))); err == nil {
			t.Error("a reader reads after its context has ended")
		}
	}
}

type view []state.Live

func (v view) Stores(string) []state.Live { return v }
