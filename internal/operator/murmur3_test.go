package operator

import (
	"encoding/hex"
	"strings"
	"testing"
)

// The first three are Kafka Streams' own; the others are the algorithm's, at each length of its tail.
func TestMurmur3(t *testing.T) {
	for in, want := range map[string]string{
		"":      "9d2764a018e329428c3cf3b035938518",
		"A":     "fa79dbb0eb96db7831044d767f696750",
		"hello": "30bfb4f39919e764566aea857401d1c6",
	} {
		h := murmur3([]byte(in))
		if got := hex.EncodeToString(h[:]); got != want {
			t.Errorf("%q: %s, not %s", in, got, want)
		}
	}
	seen := make(map[hash128]int)
	for n := range 70 {
		h := murmur3([]byte(strings.Repeat("x", n)))
		if other, ok := seen[h]; ok {
			t.Errorf("%d and %d bytes have one hash", n, other)
		}
		seen[h] = n
	}
}
