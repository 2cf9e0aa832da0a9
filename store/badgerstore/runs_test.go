package badgerstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSorter sorts with so little memory that runs are merged into larger ones more than once.
func TestSorter(t *testing.T) {
	for _, limit := range []int64{1, 200, 2000, 1 << 30} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "runs")
			s := sorter{dir: dir, limit: limit, room: func(int64) error { return nil }, fault: func(string) error { return nil }}
			rng := rand.New(rand.NewPCG(uint64(limit), 1))
			want := map[string]string{} // "-" stands for a delete
			n := 1200
			if limit == 1<<30 {
				n = 50_000
			}
			for i := range n {
				key, value := fmt.Sprint(rng.IntN(n/2)), fmt.Sprint("value", i)
				if rng.IntN(20) == 0 {
					key = ""
				}
				switch rng.IntN(8) {
				case 0:
					want["p"+key] = "-"
					if err := s.add([]byte("p"), []byte(key), nil); err != nil {
						t.Fatal(err)
					}
					continue
				case 1:
					value = ""
				}
				want["p"+key] = value
				if err := s.add([]byte("p"), []byte(key), []byte(value)); err != nil {
					t.Fatal(err)
				}
			}
			if len(s.runs) > 3*mergeRuns {
				t.Errorf("%d runs were left", len(s.runs))
			}
			rows, err := s.rows()
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range slices.Sorted(maps.Keys(want)) {
				k, v, ok, err := rows.next()
				if err != nil || !ok || string(k) != key {
					t.Fatalf("key %q, %v, %v, want %q", k, ok, err, key)
				}
				if w := want[key]; (v == nil) != (w == "-") || v != nil && string(v) != w {
					t.Fatalf("key %q: value %q (nil: %v), want %q", k, v, v == nil, w)
				}
			}
			if k, _, ok, err := rows.next(); ok || err != nil {
				t.Fatalf("a row too many: %q, %v", k, err)
			}
			if err := rows.close(); err != nil {
				t.Fatal(err)
			}
			if err := s.discard(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Fatalf("files are left: %v", err)
			}
		})
	}
}
