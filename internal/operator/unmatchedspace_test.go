package operator

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/memstore"
)

// loneFixture is a store of records without a partner over a backend, with its changelog.
type loneFixture struct {
	t       testing.TB
	disk    *memstore.Disk
	backend state.Backend
	budget  *state.Budget
	rows    *Unmatched
	log     []state.Row
	applied int // the changelog's position as of the last checkpoint
	finish  func()
}

func newLoneFixture(t testing.TB) *loneFixture {
	f := &loneFixture{t: t, disk: memstore.NewDisk(), budget: state.NewBudget(1 << 40)}
	f.start()
	return f
}

func (f *loneFixture) start() {
	d := &state.Decl{Name: "lone"}
	DeclareLone(d)
	f.backend, f.finish = f.disk.Open(), nil
	f.rows = d.Open(state.Env{Backend: f.backend, Budget: f.budget}).(*Unmatched)
	for _, r := range f.log[f.applied:] {
		if err := f.rows.Restore(r.Key, r.Value, 0); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *loneFixture) commit() {
	if err := f.rows.Flush(func(name, value []byte, _ int64) error {
		f.log = append(f.log, state.Row{Key: bytes.Clone(name), Value: bytes.Clone(value)})
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	f.rows.Committed()
}

// freeze begins a checkpoint, which finish ends.
func (f *loneFixture) freeze() {
	batches, upTo := f.rows.Freeze(), len(f.log)
	f.finish = func() {
		if err := f.backend.Apply(batches, []byte("data")); err != nil {
			f.t.Fatal(err)
		}
		f.backend.Switch()
		f.rows.Applied()
		f.applied, f.finish = upTo, nil
	}
}

// restart loses what is in memory.
func (f *loneFixture) restart() {
	f.rows.Close()
	if used := f.budget.Used(); used != 0 {
		f.t.Fatalf("a closed store holds %d bytes of the budget", used)
	}
	f.start()
}

// there is what the store holds, each as time, side, key and values.
func (f *loneFixture) there() []string {
	out := []string{}
	for _, r := range f.rows.sorted() {
		text := fmt.Sprint(r.at, " ", r.side(), " ", r.key())
		for v, err := range loneValues(r.value) {
			if err != nil {
				f.t.Fatal(err)
			}
			text += fmt.Sprintf(" %d*%d", len(v), v[0])
		}
		out = append(out, text)
	}
	return out
}

// Whatever is added, taken, committed, taken back, written and lost, the rows are those of a model. The values are so large that memory is given back all the time.
func TestUnmatchedAgainstModel(t *testing.T) {
	type row struct {
		at   int64
		side byte
		key  string
	}
	rapid.Check(t, func(rt *rapid.T) {
		f := newLoneFixture(t)
		now, settled := map[row]string{}, map[row]string{}
		same := func(what string) {
			want := []string{}
			for r, values := range now {
				want = append(want, fmt.Sprint(r.at, " ", r.side, " ", r.key, values))
			}
			slices.Sort(want)
			got := f.there()
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("%s: model (-), store (+):\n%s", what, diff)
			}
			for side := range 2 {
				var first *loneRow
				for _, r := range f.rows.sides[side] {
					if first == nil || loneLess(r, first) {
						first = r
					}
				}
				if got := f.rows.first(side); got != first {
					rt.Fatalf("%s: the first row of side %d is %v, want %v", what, side, got, first)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			r := row{rapid.Int64Range(0, 3).Draw(rt, "at"), byte(rapid.IntRange(0, 1).Draw(rt, "side")), rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "key")}
			what := rapid.SampledFrom([]string{"add", "add", "add", "take", "take", "commit", "commit", "roll back", "freeze", "finish", "crash"}).Draw(rt, "step")
			switch what {
			case "add":
				value := bytes.Repeat([]byte{byte(rapid.IntRange(1, 9).Draw(rt, "value"))}, rapid.SampledFrom([]int{1, 100_000, 300_000}).Draw(rt, "size"))
				f.rows.add(r.at, r.side, []byte(r.key), value, 7)
				now[r] += fmt.Sprintf(" %d*%d", len(value), value[0])
			case "take":
				f.rows.take(r.at, r.side, []byte(r.key), 7)
				delete(now, r)
			case "commit":
				f.commit()
				settled = copied(now)
			case "roll back":
				f.rows.Rollback()
				now = copied(settled)
			case "freeze":
				if f.finish == nil {
					f.freeze()
				}
			case "finish":
				if f.finish != nil {
					f.finish()
				}
			case "crash":
				f.restart()
				now = copied(settled)
			}
			same(what)
		}
		f.rows.Close()
		if used := f.budget.Used(); used != 0 {
			rt.Fatalf("a closed store holds %d bytes of the budget", used)
		}
	})
}

func copied[K comparable](m map[K]string) map[K]string {
	out := make(map[K]string, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// One record in a hundred waits for long and the others find their partners at once: what those took does not stay. The budget is told what is held, and all of it when the
// last row has gone.
func TestUnmatchedMemory(t *testing.T) {
	f := newLoneFixture(t)
	const rows, size = 200_000, 100
	value := make([]byte, size)
	waits := 0
	for i := range rows {
		key := fmt.Appendf(nil, "key%08d", i)
		f.rows.add(int64(i), leftSide, key, value, int64(i))
		if i%100 == 0 {
			waits++
		} else {
			f.rows.take(int64(i), leftSide, key, int64(i))
		}
		if i%1000 == 999 {
			f.commit()
		}
		if i%20_000 == 19_999 {
			f.freeze()
			f.finish()
		}
	}
	st := f.rows.Stats()
	if st.Entries != int64(waits) || st.Bytes != int64(waits*(8+1+11+5+5+size)) {
		t.Errorf("%d entries of %d bytes, want %d of %d each", st.Entries, st.Bytes, waits, 8+1+11+5+5+size)
	}
	used := f.budget.Used()
	if most := 2*st.Bytes + loneSlack + (st.Entries+loneIdle)*loneRowSize; used > most || used < st.Bytes || used != st.Memory {
		t.Errorf("the budget was told of %d bytes, want %d to %d; Stats has %d", used, st.Bytes, most, st.Memory)
	}
	for i := 0; i < rows; i += 100 {
		f.rows.take(int64(i), leftSide, fmt.Appendf(nil, "key%08d", i), rows)
	}
	f.commit()
	f.freeze()
	f.finish()
	if used := f.budget.Used(); used > loneSlack+loneIdle*loneRowSize || f.rows.Stats().Entries != 0 {
		t.Errorf("%d bytes are held for %d rows", used, f.rows.Stats().Entries)
	}
}
