package topology_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

// joinTask sends a record to each side of a join, 1 ms after those before, and commits after every thousand. The keys go round.
func joinTask(tb testing.TB, keys int, declare func(b *topology.Builder)) (send func()) {
	p := newPipe(tb, engine.Policy{}, declare)
	p.task.Start(1, 0, 0, engine.Meta{PartitionTime: -1})
	names := make([][]byte, keys)
	for i := range names {
		names[i] = fmt.Appendf(nil, "key-%08d", i)
	}
	value := make([]byte, 100)
	var recs [1]engine.Record
	n := int64(0)
	write := func(*state.Decl, []byte, []byte, int64) error { return nil }
	return func() {
		for input := range 2 {
			recs[0] = engine.Record{Key: names[n%int64(keys)], Value: value, Time: 1_000_000 + n, Offset: n}
			p.task.Add(input, recs[:], n+1, n+1)
			if _, err := p.task.Process(0); err != nil {
				tb.Fatal(err)
			}
		}
		if n++; n%1000 == 0 {
			err := p.task.Prepare()
			if err == nil {
				err = p.task.Flush(write)
			}
			if err == nil {
				err = p.task.Committed()
			}
			if err != nil {
				tb.Fatal(err)
			}
		}
	}
}

var (
	numbersLeft  = topology.NewTopic("words", serde.String(), serde.Bytes())
	numbersRight = topology.NewTopic("more", serde.String(), serde.Bytes())
	numbersBoth  = topology.NewTopic("joined", serde.String(), serde.Bytes())
)

func innerOfNumbers(b *topology.Builder) {
	b.Stream(numbersLeft).Join("j", b.Stream(numbersRight), window.Within(time.Second).Grace(time.Second), func(l, _ []byte) []byte { return l[:8] }).To(numbersBoth)
}

func leftOfNumbers(b *topology.Builder) {
	b.Stream(numbersLeft).LeftJoin("j", b.Stream(numbersRight), window.Within(time.Second).Grace(time.Second), func(l []byte, _ *[]byte) []byte { return l[:8] }).To(numbersBoth)
}

// A pair of records costs what the serdes allocate, two keys and three values as the first record is read once more for the second, and its result. The rest is memory for many
// records at once.
func TestStreamJoinAllocations(t *testing.T) {
	for name, c := range map[string]struct {
		declare func(*topology.Builder)
		most    float64
	}{"inner": {innerOfNumbers, 6}, "left": {leftOfNumbers, 6}} {
		send := joinTask(t, 5000, c.declare)
		for range 5000 {
			send()
		}
		if n := testing.AllocsPerRun(20_000, send); n > c.most {
			t.Errorf("%s: %v allocations for a pair of records, want %v at most", name, n, c.most)
		}
	}
}

func BenchmarkStreamJoin(b *testing.B) {
	for _, c := range []struct {
		name    string
		keys    int
		declare func(*topology.Builder)
	}{{"inner", 100_000, innerOfNumbers}, {"inner-matched", 500, innerOfNumbers}, {"left-unmatched", 100_000, leftOfNumbers}} {
		b.Run(c.name, func(b *testing.B) {
			send := joinTask(b, c.keys, c.declare)
			b.ReportAllocs()
			for b.Loop() {
				send()
			}
		})
	}
}
