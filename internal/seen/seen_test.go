package seen

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/badgerstore"
	"github.com/kolkstreams/kolk/store/memstore"
)

// fixture is a set over a backend, with its changelog.
type fixture struct {
	t       testing.TB
	open    func(fresh bool) state.Backend
	budget  *state.Budget
	backend state.Backend
	set     *Set
	log     []state.Row // name and value
	ats     []int64
	flushed int // records of the open transaction
	applied int // the changelog's position as of the last checkpoint
	finish  func()
	every   int // instead of fillEvery
	fill    int
}

const retention = 100_000

func newFixture(t testing.TB, open func(fresh bool) state.Backend, budget *state.Budget) *fixture {
	f := &fixture{t: t, open: open, budget: budget}
	f.start(false)
	return f
}

func inMemory() func(bool) state.Backend {
	disk := memstore.NewDisk()
	return func(fresh bool) state.Backend {
		if fresh {
			disk = memstore.NewDisk()
		}
		return disk.Open()
	}
}

func (f *fixture) start(fresh bool) {
	f.backend, f.finish = f.open(fresh), nil
	f.set = Open(&state.Decl{Name: "ids", Retention: retention - 1, Beyond: 1}, state.Env{Backend: f.backend, Budget: f.budget})
	if f.every > 0 {
		f.set.every, f.set.fill = f.every, f.fill
	}
}

func (f *fixture) flush() {
	if err := f.set.Flush(func(name, value []byte, at int64) error {
		f.log, f.ats = append(f.log, state.Row{Key: bytes.Clone(name), Value: bytes.Clone(value)}), append(f.ats, at)
		f.flushed++
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) commit() {
	f.flush()
	f.set.Committed()
	f.flushed = 0
}

func (f *fixture) rollback() {
	f.set.Rollback()
	f.log, f.ats, f.flushed = f.log[:len(f.log)-f.flushed], f.ats[:len(f.ats)-f.flushed], 0
}

// freeze begins a checkpoint, which finish ends.
func (f *fixture) freeze() {
	upTo := len(f.log) - f.flushed
	batches := f.set.Freeze()
	segments, drop := f.set.FreezeSegments()
	f.finish = func() {
		if err := f.backend.(state.Segmented).ApplySegments(batches, segments, drop, nil); err != nil {
			f.t.Fatal(err)
		}
		f.backend.Switch()
		f.set.Applied()
		f.counted()
		f.applied, f.finish = upTo, nil
	}
}

// counted compares the backend's number of rows with what there is.
func (f *fixture) counted() {
	f.t.Helper()
	n := int64(0)
	b := f.backend.(state.Segmented)
	for _, seg := range b.Segments(0) {
		if err := b.ScanSegment(state.Segment{Number: seg}, nil, nil, false, func(_, _ []byte) bool { n++; return true }); err != nil {
			f.t.Fatal(err)
		}
	}
	if rows, _ := b.Count(0); rows != n {
		f.t.Fatalf("the backend counts %d rows and has %d", rows, n)
	}
}

func (f *fixture) checkpoint() {
	f.freeze()
	f.finish()
}

// stop loses what is not committed.
func (f *fixture) stop() {
	f.rollback()
	f.set.Close()
	if used, reserved := f.budget.Used(), f.budget.Reserved(); used != 0 || reserved != 0 {
		f.t.Fatalf("a closed store holds %d bytes of the budget and %d for filters", used, reserved)
	}
	if err := f.backend.Close(true); err != nil {
		f.t.Fatal(err)
	}
}

// resume reads back what the backend has not.
func (f *fixture) resume(lost bool) {
	f.start(lost)
	if !lost {
		for i := f.applied; i < len(f.log); i++ {
			if err := f.set.Restore(f.log[i].Key, f.log[i].Value, f.ats[i]); err != nil {
				f.t.Fatal(err)
			}
		}
		return
	}
	loader, err := f.backend.Load()
	if err != nil {
		f.t.Fatal(err)
	}
	for i, r := range f.log {
		if err := f.set.Load(loader, r.Key, r.Value, f.ats[i]); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := loader.Finish(nil); err != nil {
		f.t.Fatal(err)
	}
	f.applied = len(f.log)
}

// has is what the set says of a key in a cell.
func (f *fixture) has(key string, cell int64) (string, bool) {
	f.set.Seek([]byte(key))
	at, value, ok := f.set.Find(cell)
	if !ok {
		return "", false
	}
	return fmt.Sprintf("%s@%d", value, at), true
}

// Whatever happens to a store, it has the committed entries and its own that have not expired, and no others; and little memory changes nothing.
func TestSetAgainstModel(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	for name, backends := range map[string]func(t *rapid.T) func(bool) state.Backend{
		"memory": func(*rapid.T) func(bool) state.Backend { return inMemory() },
		"disk": func(rt *rapid.T) func(bool) state.Backend {
			dir := t.TempDir()
			return func(fresh bool) state.Backend {
				if fresh {
					dir = t.TempDir()
				}
				s, err := badgerstore.Open(dir, badgerstore.Config{Memory: 8 << 20, Logger: quiet})
				if err != nil {
					rt.Fatal(err)
				}
				return s
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			runs, limit := 0, 400
			if name == "disk" {
				limit = 6
			}
			rapid.Check(t, func(rt *rapid.T) {
				if runs++; runs > limit {
					return
				}
				checkSet(t, rt, backends(rt))
			})
		})
	}
}

// entry is a key in a cell.
type entry struct {
	key  string
	cell int64
}

func checkSet(t *testing.T, rt *rapid.T, open func(bool) state.Backend) {
	// Filters take 16 KiB at least.
	budget := state.NewBudget(rapid.SampledFrom([]int64{0, 1, 20_000, 400_000}).Draw(rt, "budget"))
	f := newFixture(t, open, budget)
	defer func() {
		f.set.Close()
		if err := f.backend.Close(false); err != nil {
			t.Error(err)
		}
	}()
	f.every, f.fill = 2, 3
	f.set.every, f.set.fill = f.every, f.fill
	committed, dirty := map[entry]string{}, map[entry]string{}
	observed, settled, now := int64(-1), int64(-1), int64(0)
	keys := []string{"", "a", "aa", "a\x00\x00\x00\x00\x00\x00\x00\x00", "b", strings.Repeat("long", 1000)}
	check := func(x entry) bool {
		want, known := dirty[x]
		if !known {
			want, known = committed[x]
		}
		if x.cell <= observed-retention {
			known = false
		}
		got, ok := f.has(x.key, x.cell)
		if ok != known || ok && got != want {
			rt.Fatalf("%.9q in %d is %q, %t; want %q, %t (observed %d)", x.key, x.cell, got, ok, want, known, observed)
		}
		return ok
	}
	draw := func() entry {
		late := rapid.SampledFrom([]int64{0, 0, 10_000, 50_000, 90_000, 100_000, 110_000}).Draw(rt, "late")
		return entry{rapid.SampledFrom(keys).Draw(rt, "key"), max(0, now-late)}
	}
	for i := range rapid.IntRange(1, 100).Draw(rt, "steps") {
		step := rapid.SampledFrom([]string{"add", "add", "add", "many", "find", "commit", "commit", "flush", "rollback", "checkpoint", "freeze", "restart", "lose"}).Draw(rt, "step")
		switch step {
		case "add":
			now += rapid.SampledFrom([]int64{0, 0, 10_000, 60_000, 300_000}).Draw(rt, "later")
			x := draw()
			if check(x) {
				break
			}
			f.set.Add(x.cell, int64(i), []byte(fmt.Sprint("v", i)))
			if x.cell > observed-retention {
				observed = max(observed, x.cell)
				dirty[x] = fmt.Sprintf("v%d@%d", i, i)
			}
			check(x)
		case "many":
			for j := range 200 {
				x := entry{fmt.Sprint("m", j), now}
				if !check(x) {
					f.set.Add(x.cell, int64(i), nil)
					if x.cell > observed-retention {
						observed = max(observed, x.cell)
						dirty[x] = fmt.Sprintf("@%d", i)
					}
				}
			}
		case "find":
			check(draw())
		case "commit":
			f.commit()
			maps.Copy(committed, dirty)
			settled = observed
			clear(dirty)
		case "flush":
			f.flush()
		case "rollback":
			f.rollback()
			observed = settled
			clear(dirty)
		case "checkpoint", "freeze":
			if f.finish == nil {
				f.freeze()
			}
			if step == "checkpoint" {
				f.finish()
			}
		case "restart", "lose":
			f.stop()
			observed = settled
			clear(dirty)
			// Somebody else may have written to the changelog: another value, or none.
			for range rapid.IntRange(0, 3).Draw(rt, "foreign") {
				x := draw()
				name := appendName(nil, []byte(x.key), x.cell)
				if rapid.Bool().Draw(rt, "null") {
					f.log, f.ats = append(f.log, state.Row{Key: name}), append(f.ats, 7)
					delete(committed, x)
				} else {
					f.log, f.ats = append(f.log, state.Row{Key: name, Value: []byte("other")}), append(f.ats, 7)
					committed[x] = "other@7"
				}
				// What a record says of time is true of one that deletes too, unless a bulk load reads it after later ones.
				observed, settled = max(observed, x.cell), max(settled, x.cell)
			}
			f.resume(step == "lose")
		}
	}
	for x := range maps.Keys(committed) {
		check(x)
	}
	for _, key := range keys {
		for cell := range slices.Values([]int64{0, now, max(0, now-10_000), max(0, now-90_000)}) {
			check(entry{key, cell})
		}
	}
}

// Bytes are those of a window store: name, value, and the row with its time before the value.
func TestSetChangelog(t *testing.T) {
	f := newFixture(t, inMemory(), nil)
	f.set.Seek([]byte("k"))
	if _, _, ok := f.set.Find(5); ok {
		t.Fatal("found what was never added")
	}
	f.set.Add(5, 6, []byte("v"))
	f.commit()
	if got := fmt.Sprintf("%x = %s at %d", f.log[0].Key, f.log[0].Value, f.ats[0]); got != "6b000000000000000500000000 = v at 6" {
		t.Errorf("the changelog has %s", got)
	}
	f.checkpoint()
	row, ok, err := f.backend.(state.Segmented).GetSegment(state.Segment{}, f.log[0].Key, nil)
	if err != nil || !ok || string(row) != "\x00\x00\x00\x00\x00\x00\x00\x06v" {
		t.Errorf("the backend has %q, %t, %v", row, ok, err)
	}
	if st := f.set.Stats(); st.Entries != 1 || st.Bytes != 14 || st.Dirty != 0 || st.Pending != 0 {
		t.Errorf("%+v", st)
	}
}

// What expires is counted once, whether the backend had it or not, and leaves neither rows nor memory.
func TestSetExpires(t *testing.T) {
	budget := state.NewBudget(10 << 20)
	f := newFixture(t, inMemory(), budget)
	add := func(n int, cell int64) {
		for i := range n {
			f.set.Seek(fmt.Append(nil, i))
			f.set.Find(cell)
			f.set.Add(cell, cell, nil)
		}
		f.commit()
	}
	add(1000, 0)
	f.checkpoint()
	add(500, 1)
	add(10, 1_000_000)
	if st := f.set.Stats(); st.Entries != 1510 || st.Expired != 0 {
		t.Errorf("before the checkpoint: %+v", st)
	}
	f.checkpoint()
	if st := f.set.Stats(); st.Entries != 10 || st.Expired != 1500 || st.Memory > 150_000 {
		t.Errorf("after the checkpoint: %+v", st)
	}
	add(0, 0)
	add(20, 2_000_000)
	add(5, 4_000_000)
	f.checkpoint()
	if st := f.set.Stats(); st.Entries != 5 || st.Expired != 1530 {
		t.Errorf("at the end: %+v", st)
	}
}

// With little memory rows leave it, and the backend is seldom asked for what it has not.
func TestSetLeavesMemory(t *testing.T) {
	const n = 20_000
	budget := state.NewBudget(200_000)
	disk := inMemory()
	asked := &counting{}
	f := newFixture(t, func(fresh bool) state.Backend {
		asked.Segmented = disk(fresh).(state.Segmented)
		return asked
	}, budget)
	look := func(from, to int) (found int) {
		for i := from; i < to; i++ {
			f.set.Seek(fmt.Appendf(nil, "id-%d", i))
			if _, _, ok := f.set.Find(7); ok {
				found++
			} else {
				f.set.Add(7, 7, nil)
			}
			if i%1000 == 0 {
				f.commit()
				f.checkpoint()
			}
		}
		f.commit()
		f.checkpoint()
		return found
	}
	if found := look(0, n); found != 0 {
		t.Errorf("%d of %d new keys are known", found, n)
	}
	if asked.gets > n/50 {
		t.Errorf("the backend was asked %d times for %d new keys", asked.gets, n)
	}
	if held := f.set.Stats().Memory - f.set.filters; held > 400_000 {
		t.Errorf("%d bytes in memory, the limit for all is %d", held, budget.Limit())
	}
	if found := look(0, n); found != n {
		t.Errorf("%d of %d keys are found again", found, n)
	}
	// A key that comes again and again is read once.
	asked.gets = 0
	for range 100 {
		if _, ok := f.has("id-1", 7); !ok {
			t.Fatal("it is gone")
		}
	}
	if asked.gets > 1 {
		t.Errorf("it was read %d times", asked.gets)
	}

	// A store that was opened again learns what the backend has, once that is worth it.
	f.stop()
	f.resume(false)
	asked.gets = 0
	for i := range 3 * fillEvery {
		if _, ok := f.has(fmt.Sprint("new-", i), 7); ok {
			t.Fatalf("new-%d is known", i)
		}
	}
	if asked.gets < fillEvery || asked.gets > fillEvery+fillEvery/10 {
		t.Errorf("after a start the backend was asked %d times for %d new keys", asked.gets, 3*fillEvery)
	}
	if found := look(0, n); found != n {
		t.Errorf("after a start %d of %d keys are found", found, n)
	}
}

// The filter of a segment that was there at the start grows while rows are added to the segment, before and behind what it has taken in, and denies none of them.
func TestSetCatchesUp(t *testing.T) {
	f := newFixture(t, inMemory(), state.NewBudget(1<<20))
	add := func(from, to int) {
		for i := from; i < to; i++ {
			f.set.Seek(fmt.Appendf(nil, "%06d", i*7919%1_000_000))
			if _, _, ok := f.set.Find(7); ok {
				t.Fatalf("new key %d is known", i)
			}
			f.set.Add(7, 7, nil)
			if i%500 == 0 {
				f.commit()
				f.checkpoint()
			}
		}
		f.commit()
		f.checkpoint()
	}
	const n = fillRows * 3 / 2
	add(0, n)
	f.stop()
	f.resume(false)
	add(n, n+5*fillEvery)
	if p := f.set.part(7); p.behind || p.left == nil || p.whole {
		t.Errorf("the filter has not caught up: %+v", p)
	}
	for i := range n + 5*fillEvery {
		if _, ok := f.has(fmt.Sprintf("%06d", i*7919%1_000_000), 7); !ok {
			t.Fatalf("key %d is denied", i)
		}
	}
}

type counting struct {
	state.Segmented
	gets int
}

func (c *counting) GetSegment(s state.Segment, key, dst []byte) ([]byte, bool, error) {
	c.gets++
	return c.Segmented.GetSegment(s, key, dst)
}

// The budget is told what there is, at any time of a checkpoint, and a transaction is as large as what was added, whatever was looked for last.
func TestSetTellsItsMemory(t *testing.T) {
	budget := state.NewBudget(0)
	f := newFixture(t, inMemory(), budget)
	check := func(when string, waiting int64) {
		t.Helper()
		s := f.set
		sum := int64(s.listed)*listSize + int64(cap(s.sorting))*sortSize
		for _, r := range append(slices.Clone(s.clean), s.live, s.frozen, s.found) {
			if r == nil {
				continue
			}
			for _, c := range r.chunks {
				sum += int64(cap(c))
			}
			sum += int64(cap(r.list))*refSize + int64(len(r.table))*slotSize
		}
		if budget.Used() != sum {
			t.Errorf("%s: the budget is told %d bytes of %d", when, budget.Used(), sum)
		}
		if got := s.Stats().Pending; got != waiting {
			t.Errorf("%s: %d bytes wait, want %d", when, got, waiting)
		}
	}
	const n, own = 30_000, 6 + tail + timeSize
	for i := range n {
		f.set.Seek(fmt.Appendf(nil, "%06d", i))
		f.set.Find(7)
		f.set.Add(7, 7, nil)
	}
	f.set.Seek(make([]byte, 10_000))
	f.set.Find(7)
	if got, want := f.set.Stats().Dirty, int64(n*(own+rowCost)); got != want {
		t.Errorf("%d bytes are dirty, want %d", got, want)
	}
	f.commit()
	check("committed", n*(own+rowCost))
	f.freeze()
	if f.set.listed != n {
		t.Errorf("%d rows are listed, want %d", f.set.listed, n)
	}
	check("frozen", n*(own+rowCost))
	f.finish()
	check("applied", 0)
	if len(f.set.clean) != 1 || f.set.listed > 0 {
		t.Errorf("%d clean lists, %d rows listed", len(f.set.clean), f.set.listed)
	}
	// Small checkpoints do not make many lists.
	for i := range 100 {
		f.set.Seek(fmt.Appendf(nil, "more-%d", i))
		f.set.Find(7)
		f.set.Add(7, 7, nil)
		f.commit()
		f.checkpoint()
	}
	if n := len(f.set.clean); n > 8 {
		t.Errorf("%d clean lists", n)
	}
	check("many checkpoints", 0)
}

// Memory for a filter that was not to be had is asked for again once older filters have gone with what they were of.
func TestSetFiltersAnew(t *testing.T) {
	budget := state.NewBudget(24_000) // two filters of 16 KiB
	f := newFixture(t, inMemory(), budget)
	add := func(cell int64) {
		for i := range 200 {
			f.set.Seek(fmt.Append(nil, i))
			f.set.Find(cell)
			f.set.Add(cell, cell, make([]byte, MaxValue))
		}
		f.commit()
		f.checkpoint()
	}
	add(0)
	add(60_000)
	add(120_000)
	if p := f.set.part(120_000); f.set.part(60_000).left == nil || p.left != nil {
		t.Fatalf("there is memory for three filters, or for one: %d bytes", budget.Reserved())
	}
	add(159_999) // the first segment has expired
	p := f.set.part(120_000)
	if p.left == nil || !p.behind {
		t.Fatalf("no new filter: %+v", p)
	}
	for i := range fillEvery + 1 {
		if _, ok := f.has(fmt.Sprint("new-", i), 120_000); ok {
			t.Fatalf("new-%d is known", i)
		}
	}
	if p.behind || p.left == nil {
		t.Errorf("the new filter has not caught up: %+v", p)
	}
	for i := range 200 {
		if _, ok := f.has(fmt.Sprint(i), 120_000); !ok {
			t.Fatalf("key %d is denied", i)
		}
	}
}

// A name that somebody deleted on the changelog and that comes again before a checkpoint is one row, which the backend had.
func TestSetCountsRows(t *testing.T) {
	dir := t.TempDir()
	f := newFixture(t, func(bool) state.Backend {
		s, err := badgerstore.Open(dir, badgerstore.Config{Memory: 8 << 20, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, nil)
	defer func() { f.stop() }()
	add := func(want bool) {
		t.Helper()
		f.set.Seek([]byte("k"))
		if _, _, ok := f.set.Find(7); ok != want {
			t.Fatalf("found %t", ok)
		} else if !ok {
			f.set.Add(7, 7, nil)
		}
		f.commit()
	}
	add(false)
	f.checkpoint()
	f.stop()
	f.log, f.ats = append(f.log, state.Row{Key: f.log[0].Key}), append(f.ats, 7)
	f.resume(false)
	add(false)
	f.checkpoint() // which counts
	add(true)
	if st := f.set.Stats(); st.Entries != 1 || st.Bytes != 13 {
		t.Errorf("%+v", st)
	}
}

// What cannot be is refused before anything is changed, and what cannot be read from the changelog is an error that says what it is.
func TestSetRefuses(t *testing.T) {
	f := newFixture(t, inMemory(), nil)
	refused := func(what string, call func()) {
		t.Helper()
		defer func() {
			if _, ok := recover().(state.Failed); !ok {
				t.Errorf("%s was not refused", what)
			}
		}()
		call()
	}
	refused("a long key", func() { f.set.Seek(make([]byte, state.MaxKey-tail+1)) })
	f.set.Seek(make([]byte, state.MaxKey-tail))
	refused("a long value", func() { f.set.Add(5, 5, make([]byte, MaxValue+1)) })
	refused("a time before 1970", func() { f.set.Add(-5, 5, nil) })
	f.set.Add(5, 5, make([]byte, MaxValue))
	f.commit()
	f.checkpoint()
	f.stop()
	f.resume(true)
	f.set.Seek(make([]byte, state.MaxKey-tail))
	if _, value, ok := f.set.Find(5); !ok || len(value) != MaxValue {
		t.Errorf("the largest row comes back with a value of %d bytes, %t", len(value), ok)
	}
	for name, want := range map[string]string{
		"short": "a key of 5 bytes, at least 12 are needed for its place in time",
		"k\xff\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00":                                 "lies before 1970",
		"k\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x01":                                 "has a sequence number",
		strings.Repeat("long", 1<<14) + "k\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00": "a key of 65549 bytes, at most 64000 are possible",
	} {
		if err := f.set.Restore([]byte(name), nil, 5); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("restore %q: %v", name, err)
		}
	}
	if err := f.set.Restore(f.log[0].Key, make([]byte, MaxValue+1), 5); err == nil {
		t.Error("a long value was restored")
	}
	broken := errors.New("disk")
	f.set.Seek([]byte("new"))
	f.set.Add(5, 5, nil)
	if err := f.set.Flush(func(_, _ []byte, _ int64) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("flush: %v", err)
	}
	n := len(f.log)
	if f.commit(); len(f.log) != n+1 {
		t.Errorf("a flush that failed lost its row")
	}
}
