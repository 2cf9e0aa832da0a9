package store_test

import (
	"fmt"
	"iter"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

func keysIn[K, V any](seq iter.Seq2[K, V]) string {
	s := ""
	for k := range seq {
		s += fmt.Sprint(k, " ")
	}
	return s
}

func TestRanges(t *testing.T) {
	w := newFixture(texts, nil)
	for i, k := range []string{"b", "a", "ab", "c", "abc", "b\xff", "d"} {
		w.kv.Put(k, k)
		w.commit(t)
		if i == 2 {
			w.checkpoint(t)
		}
		if i == 4 {
			w.live.Freeze()
		}
	}
	equal(t, "all", keysIn(w.kv.All()), "a ab abc b b\xff c d ")
	equal(t, "range", keysIn(w.kv.Range("ab", "b")), "ab abc b ")
	equal(t, "backward", keysIn(w.kv.RangeBackward("ab", "b")), "b abc ab ")
	equal(t, "reversed", keysIn(w.kv.Range("b", "a")), "")
	equal(t, "reversed backward", keysIn(w.kv.RangeBackward("b", "a")), "")
	equal(t, "one key", keysIn(w.kv.Range("ab", "ab")), "ab ")
	equal(t, "prefix", keysIn(w.kv.Prefix([]byte("ab"))), "ab abc ")
	equal(t, "prefix that ends in 255", keysIn(w.kv.Prefix([]byte("b\xff"))), "b\xff ")
	equal(t, "prefix of nothing", keysIn(w.kv.Prefix([]byte("\xff\xff"))), "")
	equal(t, "empty prefix", keysIn(w.kv.Prefix(nil)), "a ab abc b b\xff c d ")
}

// P03: a loop sees the store as it was when it began, and the store has what the loop wrote.
func TestLoopThatWrites(t *testing.T) {
	h := store.NewKeyValue("numbers", serde.Int64(), serde.Int64(), finite)
	w := newFixture(h, nil)
	const n = 3000 // several pages
	for i := range int64(n) {
		w.kv.Put(2*i, i)
		if i == n/2 {
			w.commit(t)
			w.checkpoint(t)
		}
	}
	seen := int64(0)
	for k, v := range w.kv.All() {
		if k != 2*seen || v != seen {
			t.Fatalf("entry %d is %d=%d", seen, k, v)
		}
		seen++
		w.kv.Put(k+1, 0)         // not seen: new
		w.kv.Delete(2 * (n - 1)) // seen all the same
		w.kv.Put(k+2, -1)        // seen as it was
		w.kv.Put(2*(n-1)-1-k, 7) // before and behind the cursor
		for range w.kv.All() {   // a loop in the loop
			break
		}
	}
	equal(t, "entries seen", seen, n)
	if _, ok := w.kv.Get(2 * (n - 1)); ok {
		t.Error("the delete was lost")
	}
	v, _ := w.kv.Get(10)
	equal(t, "value after the loop", v, -1)
}

func TestLoopAcrossACommit(t *testing.T) {
	w := newFixture(texts, nil)
	w.kv.Put("a", "1")
	w.kv.Put("b", "1")
	next, stop := iter.Pull2(w.kv.All())
	defer func() { caught(stop) }()
	next()
	w.commit(t)
	if _, ok := caught(func() { next() }).(state.Broken); !ok {
		t.Error("a loop went on over a commit")
	}
}
