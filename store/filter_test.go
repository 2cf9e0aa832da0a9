package store

import (
	"fmt"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
)

func TestFilter(t *testing.T) {
	budget := state.NewBudget(8 << 20)
	f := filter{budget: budget}
	if f.has(hashText("")) {
		t.Error("an empty filter may have something")
	}
	name := func(i int) string { return fmt.Sprintf("id-%09d", i) }
	const n = 1_000_000
	for i := range n {
		if !f.add(hashText(name(i))) {
			t.Fatalf("no room for name %d", i)
		}
	}
	if budget.Reserved() != f.held || f.held > 2*n*filterBits/8 {
		t.Errorf("%d bytes for %d names, %d told", f.held, n, budget.Reserved())
	}
	wrong := 0
	for i := range n {
		if !f.has(hashBytes([]byte(name(i)))) {
			t.Fatalf("name %d is denied", i)
		}
		if f.has(hashBytes([]byte(name(n + i)))) {
			wrong++
		}
	}
	if limit := n * (len(f.parts) + 1) / 100; wrong > limit {
		t.Errorf("%d of %d other names are taken for known ones, %d are to be expected at most", wrong, n, limit)
	}
	// Names that are added again take no room.
	held := f.held
	for i := range n {
		f.add(hashText(name(i)))
	}
	if f.held != held {
		t.Errorf("%d bytes more for the same names", f.held-held)
	}
	i := n
	for f.add(hashText(name(i))) {
		i++
	}
	if budget.Reserved() > budget.Limit() {
		t.Errorf("%d of %d bytes reserved", budget.Reserved(), budget.Limit())
	}
	if f.close(); budget.Reserved() != 0 || f.has(hashText(name(1))) {
		t.Errorf("%d bytes held after the close", budget.Reserved())
	}
}

func BenchmarkFilter(b *testing.B) {
	f := filter{}
	const n = 4_000_000
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("id-%09d", i)
		f.add(hashText(names[i]))
	}
	other := []byte("other-0123456789")
	i := 0
	for b.Loop() {
		i++
		other[len(other)-1], other[len(other)-2], other[len(other)-3] = byte(i), byte(i>>8), byte(i>>16)
		f.has(hashBytes(other))
	}
}
