package store_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/store/memstore"
)

// openAt opens a store alone in a backend.
func openAt[K comparable, V any](h store.KeyValueHandle[K, V], backend state.Backend) (store.KeyValue[K, V], state.Live) {
	live := state.Of(h).Open(state.Env{Backend: backend, Now: func() int64 { return 1000 }, StreamTime: func() int64 { return 1000 }})
	return live.(store.KeyValue[K, V]), live
}

// BenchmarkCount is what a count costs: an update per record, and a flush and commit every 10,000.
func BenchmarkCount(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprintf("customer-%07d", i)
		}
		b.Run(fmt.Sprint("string keys=", n), func(b *testing.B) { count(b, serde.String(), keys) })
	}
	numbers := make([]int64, 100_000)
	for i := range numbers {
		numbers[i] = int64(i)
	}
	b.Run("int64 keys=100000", func(b *testing.B) { count(b, serde.Int64(), numbers) })
}

func count[K comparable](b *testing.B, key serde.Serde[K], keys []K) {
	h := store.NewKeyValue("count", key, serde.Int64(), store.FiniteKeys(int64(len(keys))))
	s, live := openAt(h, memstore.New())
	order := make([]K, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range order {
		order[i] = keys[r.IntN(len(keys))]
	}
	var sent int
	write := func(_, value []byte, _ int64) error { sent += len(value); return nil }
	commit := func() {
		if err := live.Flush(write); err != nil {
			b.Fatal(err)
		}
		live.Committed()
	}
	add := func(old int64, _ bool) (int64, bool) { return old + 1, true }
	for _, k := range keys {
		s.Update(k, add)
	}
	commit()
	b.ReportAllocs()
	b.ResetTimer()
	began := processorTime(b)
	defer func() { b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op") }()
	for i := range b.N {
		s.Update(order[i&(len(order)-1)], add)
		if i%10_000 == 9_999 {
			commit()
		}
	}
}

// processorTime is what the process has used, in ns: on a busy machine the clock says little.
func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkFreeze is the task's own part of a checkpoint of 100,000 entries, per entry.
func BenchmarkFreeze(b *testing.B) {
	const n = 100_000
	h := store.NewKeyValue("freeze", serde.String(), serde.Int64(), store.FiniteKeys(n))
	s, live := openAt(h, memstore.New())
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("customer-%07d", (i*7919)%n)
	}
	b.ReportAllocs()
	for range b.N {
		b.StopTimer()
		for _, k := range keys {
			s.Put(k, 1)
		}
		live.Flush(func(_, _ []byte, _ int64) error { return nil })
		live.Committed()
		b.StartTimer()
		live.Freeze()
		live.Applied()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/entry")
}

// BenchmarkSlices is an aggregate that must be decoded for each access.
func BenchmarkSlices(b *testing.B) {
	h := store.NewKeyValue("bytes", serde.Int64(), serde.Bytes(), store.FiniteKeys(10_000))
	s, live := openAt(h, memstore.New())
	for i := range b.N {
		s.Update(int64(i%10_000), func(old []byte, _ bool) ([]byte, bool) {
			if len(old) < 64 {
				old = append(old, byte(i))
			}
			return old, true
		})
		if i%10_000 == 9_999 {
			live.Flush(func(_, _ []byte, _ int64) error { return nil })
			live.Committed()
		}
	}
	b.ReportAllocs()
}
