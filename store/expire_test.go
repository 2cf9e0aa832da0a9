package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

var aging = store.NewKeyValue("aging", serde.String(), serde.String(), store.TTL(80*time.Millisecond))

func (w *fixture[K, V]) at(t int64) *fixture[K, V] {
	w.time, w.stream = t, max(w.stream, t)
	return w
}

// D04, and P03's timer: what was refreshed lives, whatever the order of sweep and write, and nothing is left of the old expiry.
func TestD04Refresh(t *testing.T) {
	w := newFixture(aging, nil)
	w.at(1000).kv.Put("k", "v1")
	w.commit(t)
	w.checkpoint(t)
	w.at(2000).kv.Put("k", "v2")
	equal(t, "more", w.live.Expire(2000, 10), false)
	w.stream = 2079
	v, ok := w.kv.Get("k")
	if v != "v2" || !ok {
		t.Errorf("%q, %v", v, ok)
	}
	w.stream = 2080
	if _, ok := w.kv.Get("k"); ok {
		t.Error("the entry is there after its time")
	}
	if v, at, ok := w.table.Last("k"); v != "v2" || at != 2000 || !ok {
		t.Errorf("the last that was told of the entry is %q, %d, %v", v, at, ok)
	}
	equal(t, "length before the removal", w.kv.Len(), 1)
	w.live.Expire(2089, 10) // its eighth ends at 2090
	equal(t, "told", len(w.deleted), 0)
	w.at(2090).live.Expire(2090, 10)
	equal(t, "told", fmt.Sprint(w.deleted), "[k]")
	if _, _, ok := w.table.Last("k"); ok {
		t.Error("the entry is there after its removal")
	}
	equal(t, "flush", w.commit(t), "k deleted@2090")
	w.checkpoint(t)
	for slot := range uint16(2) {
		n, _ := w.backend.Count(slot)
		equal(t, fmt.Sprint("rows of slot ", slot), n, 0)
	}
	equal(t, "expired", w.live.Stats().Expired, 1)
}

// D05, and the order of expiry: by time, then by key, from memory and backend alike.
func TestD05OrderOfExpiry(t *testing.T) {
	w := newFixture(aging, nil)
	for i, k := range []string{"key2", "key", "", "\x00", "\xff", "key\x00"} {
		w.at(1000+int64(i%3)).kv.Put(k, "v")
		if w.commit(t); i%2 == 0 {
			w.checkpoint(t)
		}
	}
	w.at(1040).kv.Put("stays", "v")
	w.at(1100)
	for w.live.Expire(1100, 1) {
	}
	equal(t, "order", fmt.Sprintf("%q", w.deleted), `["\x00" "key2" "key" "\xff" "" "key\x00"]`)
	equal(t, "length", w.kv.Len(), 1)
}

// An abort brings back what had been removed, and it is removed again.
func TestExpiryThatIsAborted(t *testing.T) {
	w := newFixture(aging, nil)
	w.at(1000).kv.Put("backend", "v")
	w.commit(t)
	w.checkpoint(t)
	w.kv.Put("committed", "v")
	w.commit(t)
	for range 2 {
		w.at(1200).live.Expire(1200, 10)
		equal(t, "told", strings.Join(w.deleted, " "), "backend committed")
		w.deleted = nil
		w.live.Rollback()
		equal(t, "length", w.kv.Len(), 2)
		equal(t, "expired", w.live.Stats().Expired, 0)
	}
}

// RS09: what had expired is absent right after a restore, and removed with the next sweep.
func TestExpiryAfterRestore(t *testing.T) {
	w := newFixture(aging, nil)
	w.at(7200)
	if err := w.live.Restore([]byte("k"), []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.kv.Get("k"); ok {
		t.Error("an expired entry came back")
	}
	w.live.Expire(7200, 10)
	equal(t, "flush", w.commit(t), "k deleted@7200")
}

// An entry that is put with a time long past is removed with the next sweep, though its bucket was swept before.
func TestLatePut(t *testing.T) {
	w := newFixture(aging, nil)
	w.at(5000).live.Expire(5000, 10)
	w.kv.PutAt("late", "v", time.UnixMilli(10))
	if _, ok := w.kv.Get("late"); ok {
		t.Error("an entry past its time is there")
	}
	w.live.Expire(5000, 10)
	equal(t, "flush", w.commit(t), "late deleted@5000")
}

// An operator is told of an expired entry, with its value, before it writes the next.
func TestModifyOfAnExpiredEntry(t *testing.T) {
	w := newFixture(aging, nil)
	w.at(1000).kv.Put("k", "old")
	w.commit(t)
	w.at(1080).table.Modify("k", func(old string, _ int64, ok bool) (string, int64, bool) {
		equal(t, "told before", fmt.Sprint(w.deleted), "[k]")
		if ok {
			t.Errorf("the function sees %q", old)
		}
		return "new", 1080, true
	})
	equal(t, "flush", w.commit(t), "k=new@1080")
	w.at(1200).live.Expire(1200, 10)
	equal(t, "told", fmt.Sprint(w.deleted), "[k k]")
}

// D03: state stays as small as the bound says, however many keys come by, in memory and in the backend.
func TestD03ManyKeysThatNeverRepeat(t *testing.T) {
	w := newFixture(aging, nil)
	for i := range int64(5000) {
		w.at(i).kv.Put(fmt.Sprint("id-", i), "v")
		if i%10 == 0 {
			w.live.Expire(i, 1<<30)
			w.commit(t)
		}
		if i%50 == 0 {
			w.checkpoint(t)
			if n := w.kv.Len(); n > 100 {
				t.Fatalf("%d entries at %d", n, i)
			}
			rows, _ := w.backend.Count(0)
			index, _ := w.backend.Count(1)
			if rows > 100 || index != rows {
				t.Fatalf("%d rows, %d of the index at %d", rows, index, i)
			}
		}
	}
}
