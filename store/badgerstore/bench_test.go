package badgerstore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
)

// benchRows are rows of 16-byte keys and 30-byte values, ascending.
func benchRows(n int, known bool) []state.Row {
	rows := make([]state.Row, n)
	for i := range rows {
		rows[i] = state.Row{Key: benchKey(uint64(i)), Value: make([]byte, 30), Known: known, Was: 46}
		binary.BigEndian.PutUint64(rows[i].Value, uint64(i))
	}
	return rows
}

func benchKey(i uint64) []byte { return fmt.Appendf(nil, "%016x", i) }

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func report(b *testing.B, rows int, start time.Time, before time.Duration) {
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/1e3/float64(rows), "us/row")
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/1e3/float64(rows), "cpu-us/row")
}

func benchOpen(b *testing.B) *Store {
	s, err := Open(b.TempDir(), Config{Memory: 112 << 20, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close(true) })
	return s
}

func BenchmarkApply100k(b *testing.B) {
	for _, known := range []bool{true, false} {
		b.Run(fmt.Sprintf("known=%v", known), func(b *testing.B) {
			s := benchOpen(b)
			rows := benchRows(100_000, known)
			for i := range rows {
				rows[i].Was = -1
			}
			first := true
			start, before := time.Now(), cpu()
			for b.Loop() {
				if err := s.Apply([]state.Batch{{Slot: 1, Rows: rows}}, nil); err != nil {
					b.Fatal(err)
				}
				s.Switch()
				if first {
					for i := range rows {
						rows[i].Was = 46
					}
					first = false
				}
			}
			report(b, b.N*len(rows), start, before)
		})
	}
}

func BenchmarkApply100(b *testing.B) {
	s := benchOpen(b)
	rows := benchRows(100, false)
	start, before := time.Now(), cpu()
	for b.Loop() {
		if err := s.Apply([]state.Batch{{Slot: 1, Rows: rows}}, nil); err != nil {
			b.Fatal(err)
		}
		s.Switch()
	}
	report(b, b.N*len(rows), start, before)
}

func benchLoad(b *testing.B, s *Store, n int) {
	l, err := s.Load()
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 30)
	for range n {
		if err := l.Put(1, benchKey(uint64(rng.IntN(n))), value); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Finish(nil); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkLoad1M(b *testing.B) {
	start, before := time.Now(), cpu()
	for b.Loop() {
		benchLoad(b, benchOpen(b), 1_000_000)
	}
	report(b, b.N*1_000_000, start, before)
}

func BenchmarkGet(b *testing.B) {
	s := benchOpen(b)
	benchLoad(b, s, 1_000_000)
	rng := rand.New(rand.NewPCG(1, 1)) // the keys that were loaded
	b.Run("hit", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			var ok bool
			var err error
			if dst, ok, err = s.Get(1, benchKey(uint64(rng.IntN(1_000_000))), dst[:0]); err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("miss", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok, err := s.Get(1, benchKey(uint64(1_000_000+rng.IntN(1_000_000))), nil); ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	b.Run("scan10", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			if err := s.Scan(1, benchKey(uint64(rng.IntN(1_000_000))), nil, false, func(_, _ []byte) bool { n++; return n < 10 }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
