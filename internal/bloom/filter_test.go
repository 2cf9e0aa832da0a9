package bloom

import (
	"fmt"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
)

func name(i int) string { return fmt.Sprintf("id-%09d", i) }

// wrong is how many of so many names that were not added are taken for known ones.
func wrong(f *Filter, names int) (n int) {
	for i := range names {
		if f.Has(HashText(name(1<<30 + i))) {
			n++
		}
	}
	return n
}

func TestFilter(t *testing.T) {
	const n = 1_500_000
	budget := state.NewBudget(n * 4 / 3)
	limit := budget.Limit() * 3 / 2
	f := New(budget)
	if f.Has(HashText("")) {
		t.Error("an empty filter may have something")
	}
	added := 0
	check := func() {
		t.Helper()
		for i := range added {
			if !f.Has(HashBytes([]byte(name(i)))) {
				t.Fatalf("name %d of %d is denied", i, added)
			}
		}
		if budget.Reserved() != f.Held() || f.Held() > limit {
			t.Errorf("%d bytes for %d names, %d told", f.Held(), added, budget.Reserved())
		}
	}
	add := func(until int) bool {
		for ; added < until; added++ {
			if !f.Add(HashText(name(added))) {
				return false
			}
		}
		return true
	}
	for _, step := range []struct{ names, bytes, percent int }{
		{1000, 16 << 10, 1}, {100_000, 4 * 100_000, 1}, {400_000, 4 * 400_000, 1}, {n, 2 * n, 3},
	} {
		if !add(step.names) {
			t.Fatalf("no room for name %d", added)
		}
		check()
		if f.Held() > int64(step.bytes) {
			t.Errorf("%d bytes for %d names", f.Held(), added)
		}
		if w := wrong(f, 100_000); w > step.percent*1000 {
			t.Errorf("of %d names: %d of 100000 others are taken for known ones, %d %% are to be expected at most", added, w, step.percent)
		}
	}
	// There is no memory for more: it errs more often, and at last it gives up.
	for add(added + n) {
	}
	if added < 2*n || added > 5*n/2 {
		t.Errorf("it gives up after %d names", added)
	}
	check()
	if w := wrong(f, 100_000); w > 40_000 {
		t.Errorf("when it is full, %d of 100000 others are taken for known ones", w)
	}
	if f.Close(); budget.Reserved() != 0 || f.Held() != 0 || f.Has(HashText(name(1))) {
		t.Errorf("%d bytes held after the close", budget.Reserved())
	}
}

// Without any memory there is no filter, and it says so at once.
func TestFilterWithoutMemory(t *testing.T) {
	f := New(state.NewBudget(1))
	if f.Add(HashText("a")) || f.Held() != 0 {
		t.Errorf("a name was added to %d bytes", f.Held())
	}
}

func BenchmarkFilter(b *testing.B) {
	var f Filter
	const n = 4_000_000
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("id-%09d", i)
		f.Add(HashText(names[i]))
	}
	other := []byte("other-0123456789")
	i := 0
	for b.Loop() {
		i++
		other[len(other)-1], other[len(other)-2], other[len(other)-3] = byte(i), byte(i>>8), byte(i>>16)
		f.Has(HashBytes(other))
	}
}
