package operator

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/badgerstore"
	"github.com/kolkstreams/kolk/store/memstore"
)

// joinFixture is the store of a join's side over a backend, with its changelog.
type joinFixture struct {
	t       testing.TB
	open    func(fresh bool) state.Backend
	budget  *state.Budget
	backend state.Backend
	rows    *JoinRows
	log     []state.Row // name and value
	ats     []int64
	flushed int // records of the open transaction
	applied int // the changelog's position as of the last checkpoint
	finish  func()
}

const joinRetention = 100_000

func newJoinFixture(t testing.TB, open func(fresh bool) state.Backend, budget *state.Budget) *joinFixture {
	f := &joinFixture{t: t, open: open, budget: budget}
	f.start(false)
	return f
}

func (f *joinFixture) start(fresh bool) {
	f.backend, f.finish = f.open(fresh), nil
	f.rows = openJoinRows(&state.Decl{Name: "rows", Retention: joinRetention}, state.Env{Backend: f.backend, Budget: f.budget})
}

func (f *joinFixture) flush() {
	if err := f.rows.Flush(func(name, value []byte, at int64) error {
		f.log, f.ats = append(f.log, state.Row{Key: bytes.Clone(name), Value: bytes.Clone(value)}), append(f.ats, at)
		f.flushed++
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *joinFixture) commit() {
	f.flush()
	f.rows.Committed()
	f.flushed = 0
}

func (f *joinFixture) rollback() {
	f.rows.Rollback()
	f.log, f.ats, f.flushed = f.log[:len(f.log)-f.flushed], f.ats[:len(f.ats)-f.flushed], 0
}

// freeze begins a checkpoint, which finish ends.
func (f *joinFixture) freeze() {
	upTo := len(f.log) - f.flushed
	batches := f.rows.Freeze()
	segments, drop := f.rows.FreezeSegments()
	f.finish = func() {
		if err := f.backend.(state.Segmented).ApplySegments(batches, segments, drop, nil); err != nil {
			f.t.Fatal(err)
		}
		f.backend.Switch()
		f.rows.Applied()
		f.applied, f.finish = upTo, nil
	}
}

func (f *joinFixture) checkpoint() {
	f.freeze()
	f.finish()
}

// restart loses what is not committed, and reads back what the backend has not.
func (f *joinFixture) restart(lost bool) {
	f.rollback()
	f.rows.Close()
	if used := f.budget.Used(); used != 0 {
		f.t.Fatalf("a closed store holds %d bytes of the budget", used)
	}
	if err := f.backend.Close(true); err != nil {
		f.t.Fatal(err)
	}
	f.start(lost)
	if !lost {
		for i := f.applied; i < len(f.log); i++ {
			if err := f.rows.Restore(f.log[i].Key, f.log[i].Value, f.ats[i]); err != nil {
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
		if err := f.rows.Load(loader, r.Key, r.Value, f.ats[i]); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := loader.Finish(nil); err != nil {
		f.t.Fatal(err)
	}
	f.applied = len(f.log)
}

// Names and values are Kafka Streams' (F7, F8, F10): numbers begin with 1, nulls take one too, and records that are too old are logged.
func TestJoinRowsChangelog(t *testing.T) {
	f := newJoinFixture(t, func(bool) state.Backend { return memstore.New() }, nil)
	f.rows.put([]byte("k"), []byte("v"), 1)
	f.rows.skip([]byte("k"), 1)
	f.rows.put([]byte("k"), []byte{}, 1)
	f.rows.put([]byte{}, []byte("w"), 500_000)
	kept, gone := f.rows.put([]byte("k"), []byte("x"), 399_999)
	if kept || gone {
		t.Errorf("a record that is just too old: kept %t, gone %t", kept, gone)
	}
	if kept, gone = f.rows.put([]byte("k"), []byte("y"), 2); kept || !gone {
		t.Errorf("a record of an old segment: kept %t, gone %t", kept, gone)
	}
	if kept, _ = f.rows.put([]byte("k"), []byte("z"), 400_000); !kept {
		t.Error("a record that is as old as may be was not kept")
	}
	f.flush()
	if got := f.rows.Stats().Entries; got != 4 { // what is only logged is no entry
		t.Errorf("%d entries, want 4", got)
	}
	f.commit()
	for i, want := range []string{
		"6b 0000000000000001 00000001 = v", "6b 0000000000000001 00000002 = null", "6b 0000000000000001 00000003 = ", " 000000000007a120 00000004 = w",
		"6b 0000000000061a7f 00000005 = x", "6b 0000000000000002 00000006 = y", "6b 0000000000061a80 00000007 = z",
	} {
		name, value := f.log[i].Key, string(f.log[i].Value)
		if f.log[i].Value == nil {
			value = "null"
		}
		n := len(name) - joinTail
		if got := fmt.Sprintf("%s %s %s = %s", hex.EncodeToString(name[:n]), hex.EncodeToString(name[n:n+8]), hex.EncodeToString(name[n+8:]), value); got != want {
			t.Errorf("record %d is %s, want %s", i, got, want)
		}
	}
}

// A record of Java's that took a number again replaces the one before, as it does there. Numbers go on from the changelog's last one.
func TestJoinRowsRestore(t *testing.T) {
	f := newJoinFixture(t, func(bool) state.Backend { return memstore.New() }, nil)
	name := []byte("k\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x01")
	for _, v := range []string{"old", "new"} {
		if err := f.rows.Restore(name, []byte(v), 5); err != nil {
			t.Fatal(err)
		}
	}
	if hits := f.rows.find([]byte("k"), 0, 9); len(hits) != 1 || string(hits[0].value) != "new" {
		t.Errorf("found %v", hits)
	}
	f.checkpoint()
	f.rows.put([]byte("k"), []byte("next"), 5)
	f.commit()
	if number := f.log[0].Key[12]; number != 2 {
		t.Errorf("the next number is %d, want 2", number)
	}
	if got := f.rows.Stats().Entries; got != 2 {
		t.Errorf("%d entries, want 2", got)
	}
	for _, bad := range []string{"short", "k\xff\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x01"} {
		if err := f.rows.Restore([]byte(bad), []byte("v"), 5); err == nil {
			t.Errorf("the key %q was taken", bad)
		}
	}
}

// Whatever happens to a store, it finds the committed records and its own, those of the right times only, in order; no number is given twice; and little memory changes
// nothing.
func TestJoinRowsAgainstModel(t *testing.T) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	for name, backends := range map[string]func(t *rapid.T) func(bool) state.Backend{
		"memory": func(*rapid.T) func(bool) state.Backend {
			disk := memstore.NewDisk()
			return func(fresh bool) state.Backend {
				if fresh {
					disk = memstore.NewDisk()
				}
				return disk.Open()
			}
		},
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
			runs, limit := 0, 200
			if name == "disk" {
				limit = 6
			}
			rapid.Check(t, func(rt *rapid.T) {
				if runs++; runs > limit {
					return
				}
				checkJoinRows(t, rt, backends(rt))
			})
		})
	}
}

type joinRecord struct {
	key, value string
	at         int64
}

func checkJoinRows(t *testing.T, rt *rapid.T, open func(bool) state.Backend) {
	budget := state.NewBudget(rapid.SampledFrom([]int64{0, 1, 200_000, 400_000}).Draw(rt, "budget"))
	f := newJoinFixture(t, open, budget)
	defer func() {
		f.rows.Close()
		if err := f.backend.Close(false); err != nil {
			t.Error(err)
		}
	}()
	var committed, dirty []joinRecord
	observed, settled := int64(-1), int64(-1)
	now := int64(0)
	for i := range rapid.IntRange(1, 120).Draw(rt, "steps") {
		key := rapid.SampledFrom([]string{"", "a", "aa", "a\x00\x00\x00\x00\x00\x00\x00\x00", "b"}).Draw(rt, "key")
		step := rapid.SampledFrom([]string{"put", "put", "put", "put", "find", "find", "commit", "commit", "flush", "rollback", "checkpoint", "freeze", "restart", "lose"}).Draw(rt, "step")
		switch step {
		case "put":
			now += rapid.SampledFrom([]int64{0, 1, 500, 20_000, 60_000, 300_000}).Draw(rt, "later")
			x := joinRecord{key, fmt.Sprint(i), max(0, now-rapid.SampledFrom([]int64{0, 0, 1, 30_000, 99_999, 100_000, 100_001, 400_000}).Draw(rt, "late"))}
			if kept, _ := f.rows.put([]byte(key), []byte(x.value), x.at); kept != (x.at >= observed-joinRetention) {
				rt.Fatalf("kept %t at %d, observed %d", kept, x.at, observed)
			} else if kept {
				observed = max(observed, x.at)
				dirty = append(dirty, x)
			}
		case "find":
			lo := now - rapid.SampledFrom([]int64{0, 5, 60_000, 120_000, 500_000}).Draw(rt, "from")
			hi := lo + rapid.SampledFrom([]int64{-1, 0, 70_000, 1 << 40}).Draw(rt, "to")
			var want []joinRecord
			for _, x := range slices.Concat(committed, dirty) {
				if x.key == key && x.at >= lo && x.at <= hi && x.at >= observed-joinRetention {
					want = append(want, x)
				}
			}
			slices.SortStableFunc(want, func(a, b joinRecord) int { return cmp.Compare(a.at, b.at) })
			var got []joinRecord
			for _, h := range f.rows.find([]byte(key), lo, hi) {
				got = append(got, joinRecord{key, string(h.value), h.at})
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("step %d: %q from %d to %d: found %v, want %v", i, key, lo, hi, got, want)
			}
		case "commit":
			f.commit()
			committed, dirty, settled = append(committed, dirty...), nil, observed
		case "flush":
			f.flush()
		case "rollback":
			f.rollback()
			dirty, observed = nil, settled
		case "checkpoint", "freeze":
			if f.finish == nil {
				f.freeze()
			}
			if step == "checkpoint" {
				f.finish()
			}
		case "restart", "lose":
			f.restart(step == "lose")
			dirty, observed = nil, settled
		}
	}
	seen := map[string]bool{}
	for _, r := range f.log {
		if seen[string(r.Key)] {
			rt.Fatalf("the changelog has %x twice", r.Key)
		}
		seen[string(r.Key)] = true
	}
}
