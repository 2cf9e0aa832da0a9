package engine_test

import (
	"encoding/base64"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
)

func TestPartitionIsThatOfJava(t *testing.T) {
	for _, c := range []struct {
		key  string
		n    int32
		want int32
	}{
		{"21", 10, 0}, {"foobar", 10, 6}, {"abc", 10, 7}, {"", 10, 1},
		{"alice", 6, 3}, {"order-42", 6, 0}, {"user-1", 6, 2}, {"TT0124", 15, 10},
		{"a", 12, 4}, {"ab", 12, 2}, {"abcd", 12, 8}, {"abcde", 12, 1}, {"é", 100, 71}, {"日本語", 12, 10}, {"key with space", 7, 0},
		{"customer-1", 100, 61}, {"customer-2147483647", 7, 6}, {"customer-1", 1, 0},
	} {
		if got := engine.Partition([]byte(c.key), c.n); got != c.want {
			t.Errorf("%q in %d: %d, not %d", c.key, c.n, got, c.want)
		}
	}
	raw, err := base64.StdEncoding.DecodeString("6Y7oHt9/rkC/55PZ/O1SsgLjTRXlxMqvFm/C7c6k+xs=")
	if err != nil {
		t.Fatal(err)
	}
	if got := engine.Partition(raw, 100); got != 98 {
		t.Errorf("raw bytes: %d", got)
	}
	for key, want := range map[string]int32{"21": -973932308, "foobar": -790332482, "abc": 479470107, "": 275646681} {
		if got := int32(engine.Murmur2([]byte(key))); got != want {
			t.Errorf("hash of %q: %d, not %d", key, got, want)
		}
	}
}

func FuzzPartition(f *testing.F) {
	f.Add([]byte("abc"), int32(7))
	f.Fuzz(func(t *testing.T, key []byte, n int32) {
		if n < 1 {
			return
		}
		if p := engine.Partition(key, n); p < 0 || p >= n {
			t.Errorf("partition %d of %d", p, n)
		}
	})
}
