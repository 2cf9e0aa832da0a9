package store_test

import (
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
)

// Operators get a value's bytes as the changelog gets them, whether it is kept decoded or not, in memory or in the backend.
func TestEncoded(t *testing.T) {
	numbers, words := newFixture(counts, nil), newFixture(texts, nil)
	numbers.kv.Put("a", 258)
	words.kv.Put("a", "")
	words.kv.Put("b", "text")
	look := func(when string) {
		t.Helper()
		b, ok := numbers.kv.(state.Encoder[string]).Encoded("a")
		equal(t, when+": the number's bytes", string(b), "\x00\x00\x00\x00\x00\x00\x01\x02")
		equal(t, when+": the number is there", ok, true)
		for key, want := range map[string]string{"a": "", "b": "text"} {
			b, ok := words.kv.(state.Encoder[string]).Encoded(key)
			equal(t, when+": "+key, string(b), want)
			equal(t, when+": there is "+key, ok, true)
		}
		_, ok = words.kv.(state.Encoder[string]).Encoded("c")
		equal(t, when+": there is c", ok, false)
	}
	look("dirty")
	numbers.commit(t)
	words.commit(t)
	look("committed")
	numbers.checkpoint(t)
	words.checkpoint(t)
	look("applied")
	words.kv.Delete("b")
	_, ok := words.kv.(state.Encoder[string]).Encoded("b")
	equal(t, "a deleted value is there", ok, false)
}
