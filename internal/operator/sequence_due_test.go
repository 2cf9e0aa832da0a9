package operator

import (
	"cmp"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// sortedRows is a store of dueRows that can be read in order.
type sortedRows struct {
	store.KeyValue[sequenceRow[string], sequenceState]
	rows  []sequenceRow[string]
	reads int
}

func compareRows(a, b sequenceRow[string]) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.key, b.key))
}

func (s *sortedRows) put(row sequenceRow[string]) {
	if i, ok := slices.BinarySearchFunc(s.rows, row, compareRows); !ok {
		s.rows = slices.Insert(s.rows, i, row)
	}
}

func (s *sortedRows) remove(row sequenceRow[string]) bool {
	i, ok := slices.BinarySearchFunc(s.rows, row, compareRows)
	if ok {
		s.rows = slices.Delete(s.rows, i, i+1)
	}
	return ok
}

func (s *sortedRows) Range(from, to sequenceRow[string]) iter.Seq2[sequenceRow[string], sequenceState] {
	return func(yield func(sequenceRow[string], sequenceState) bool) {
		for _, row := range slices.Clone(s.rows) {
			if row.due < from.due || row.due >= to.due {
				continue
			}
			if s.reads++; !yield(row, nil) {
				return
			}
		}
	}
}

// Rows come out in order, whatever is written and deleted in between, and few are held.
func TestAgenda(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := &sortedRows{}
		a := newAgenda(rows, sequenceRows[string]{serde.String()}, rapid.IntRange(1, 4).Draw(t, "at once"))
		now := int64(0)
		key := rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "f", "g"})
		write := func(from int64) {
			row := sequenceRow[string]{dueRow, from + rapid.Int64Range(0, 6).Draw(t, "due in"), key.Draw(t, "key")}
			rows.put(row)
			if err := a.insert(row); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0:
				if n := len(rows.rows); n > 0 {
					rows.remove(rows.rows[rapid.IntRange(0, n-1).Draw(t, "deleted")])
				}
			case 1:
				now += rapid.Int64Range(1, 8).Draw(t, "later")
				for {
					row, ok := a.next(now)
					if !ok {
						break
					}
					if len(rows.rows) > 0 && compareRows(rows.rows[0], row) < 0 {
						t.Fatalf("%v came out before %v", row, rows.rows[0])
					}
					if rows.remove(row) && rapid.Bool().Draw(t, "again") {
						write(row.due + 1)
					}
				}
				if len(rows.rows) > 0 && rows.rows[0].due < now {
					t.Fatalf("%v is still there at %d", rows.rows[0], now)
				}
			case 2:
				a = newAgenda(rows, a.keys, a.atOnce) // after a restart
			default:
				write(now)
			}
			if n := len(a.ahead); n > 4*a.atOnce {
				t.Fatalf("%d rows are held, not twice %d at most", n, a.atOnce)
			}
		}
	})
}

// Thousands of keys that are due one after the other, or all at once, are read about once each.
func TestAgendaReadsOnce(t *testing.T) {
	for _, step := range []int64{1, 0} {
		rows := &sortedRows{}
		a := newAgenda(rows, sequenceRows[string]{serde.String()}, 50)
		const n = 2000
		for i := range int64(n) {
			rows.put(sequenceRow[string]{dueRow, 1 + step*i, string([]byte{byte(i >> 8), byte(i)})})
		}
		taken := 0
		for now := int64(0); now <= n+1; now++ {
			for row, ok := a.next(now); ok; row, ok = a.next(now) {
				if !rows.remove(row) {
					t.Fatalf("%v came out twice", row)
				}
				taken++
			}
		}
		if taken != n || rows.reads > n+n/10 {
			t.Errorf("step %d: %d of %d rows came out, by %d reads", step, taken, n, rows.reads)
		}
	}
}

// What is forgotten while a part of what was read is taken out is read again.
func TestAgendaForgets(t *testing.T) {
	rows := &sortedRows{}
	a := newAgenda(rows, sequenceRows[string]{serde.String()}, 2)
	rows.put(sequenceRow[string]{dueRow, 1, "a"})
	rows.put(sequenceRow[string]{dueRow, 5, "b"})
	if row, ok := a.next(2); !ok || row.key != "a" || !rows.remove(row) {
		t.Fatal(row, ok)
	}
	for _, key := range []string{"f", "c", "e", "d"} {
		row := sequenceRow[string]{dueRow, 5, key}
		rows.put(row)
		if err := a.insert(row); err != nil {
			t.Fatal(err)
		}
	}
	got := ""
	for row, ok := a.next(6); ok; row, ok = a.next(6) {
		rows.remove(row)
		got += row.key
	}
	if got != "bcdef" {
		t.Errorf("keys %s", got)
	}
}
