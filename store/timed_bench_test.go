package store_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/store/memstore"
)

// BenchmarkWindowCount is BenchmarkCount in an open window: it should cost about the same.
func BenchmarkWindowCount(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprintf("customer-%07d", i)
		}
		b.Run(fmt.Sprint("string keys=", n), func(b *testing.B) { countWindows(b, keys) })
	}
}

func countWindows(b *testing.B, keys []string) {
	h := store.NewWindow("count", serde.String(), serde.Int64(), time.Minute, time.Hour)
	live := state.Of(h).Open(state.Env{Backend: memstore.New(), Now: func() int64 { return 1000 }, StreamTime: func() int64 { return 1000 }})
	s := live.(state.Windows[string, int64])
	order := make([]string, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range order {
		order[i] = keys[r.IntN(len(keys))]
	}
	commit := func() {
		if err := live.Flush(func(_, _ []byte, _ int64) error { return nil }); err != nil {
			b.Fatal(err)
		}
		live.Committed()
	}
	add := func(old int64, at int64, _ bool) (int64, int64, bool) { return old + 1, max(at, 1000), true }
	for _, k := range keys {
		s.Modify(k, 60_000, add)
	}
	commit()
	b.ReportAllocs()
	b.ResetTimer()
	began := processorTime(b)
	defer func() { b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op") }()
	for i := range b.N {
		s.Modify(order[i&(len(order)-1)], 60_000, add)
		if i%10_000 == 9_999 {
			commit()
		}
	}
}

// BenchmarkFetch reads the windows of one key around a time, of which the store has a hundred thousand keys, as sliding windows do.
func BenchmarkFetch(b *testing.B) {
	h := store.NewWindow("fetch", serde.String(), serde.Int64(), time.Minute, time.Hour)
	live := state.Of(h).Open(state.Env{Backend: memstore.New(), Now: func() int64 { return 1000 }, StreamTime: func() int64 { return 1000 }})
	s := live.(state.Windows[string, int64])
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("customer-%07d", i)
		for start := range int64(3) {
			s.Modify(keys[i], start*60_000, func(int64, int64, bool) (int64, int64, bool) { return 1, 1, true })
		}
	}
	var sum int64
	visit := func(_ int64, v int64, _ int64) bool { sum += v; return true }
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Fetch(keys[i%len(keys)], 60_000, 120_000, true, visit)
	}
}
