package store_test

import (
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/store/memstore"
)

func TestFreezeKnowsWhatWasThere(t *testing.T) {
	w := newFixture(texts, nil)
	w.kv.Put("b", "blind")
	w.kv.Get("a")
	w.kv.Put("a", "read")
	w.kv.Get("c")
	w.kv.Delete("c") // known never to have been there
	w.commit(t)
	batches := w.live.Freeze()
	if len(batches) != 1 || len(batches[0].Rows) != 2 {
		t.Fatalf("batches %+v", batches)
	}
	a, b := batches[0].Rows[0], batches[0].Rows[1]
	if string(a.Key) != "a" || !a.Known || a.Was != -1 || string(a.Value[8:]) != "read" {
		t.Errorf("row %+v", a)
	}
	if string(b.Key) != "b" || b.Known {
		t.Errorf("row %+v", b)
	}
	if w.live.Freeze() != nil {
		t.Error("a second frozen layer")
	}
	// While the checkpoint is written, the store goes on.
	w.kv.Put("a", "newer")
	w.commit(t)
	v, _ := w.kv.Get("a")
	equal(t, "value", v, "newer")
	if err := w.backend.Apply(batches, nil); err != nil {
		t.Fatal(err)
	}
	w.backend.Switch()
	w.live.Applied()
	v, _ = w.kv.Get("a")
	equal(t, "value after the checkpoint", v, "newer")
	w.live.Rollback()
	rows := w.live.Freeze()[0].Rows
	if len(rows) != 1 || !rows[0].Known || rows[0].Was != int64(len("a")+8+len("read")) {
		t.Errorf("rows %+v", rows)
	}
}

func TestStatsAreExactAfterACheckpoint(t *testing.T) {
	w := newFixture(texts, nil)
	w.kv.Put("a", "12345")
	w.commit(t)
	w.checkpoint(t)
	again := newFixture(texts, nil)
	again.backend.Backend = w.backend.Backend
	again.kv.Put("a", "1") // not known to be an overwrite
	again.kv.Put("b", "1")
	again.commit(t)
	equal(t, "entries, overwrite taken as new", again.live.Stats().Entries, 3)
	equal(t, "look-ups", again.backend.gets, 0)
	equal(t, "length", again.kv.Len(), 2)
	equal(t, "entries", again.live.Stats().Entries, 2)
	again.checkpoint(t)
	s := again.live.Stats()
	if s.Entries != 2 || s.Bytes != 4 || s.Dirty != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestRestoreAndLoad(t *testing.T) {
	w := newFixture(texts, nil)
	for _, r := range []struct {
		key, value string
		at         int64
	}{{"a", "1", 3}, {"b", "2", 4}, {"a", "", 5}} {
		if err := w.live.Restore([]byte(r.key), []byte(r.value), r.at); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.live.Restore([]byte("b"), nil, 6); err != nil {
		t.Fatal(err)
	}
	e, ok := w.kv.Entry("a")
	if !ok || e.Value != "" || e.Time.UnixMilli() != 5 {
		t.Errorf("restored %+v, %v", e, ok)
	}
	equal(t, "length", w.kv.Len(), 1)
	equal(t, "flush", w.commit(t), "")

	b := memstore.New()
	loaded := state.Of(texts).Open(state.Env{Backend: b, Now: func() int64 { return 0 }, StreamTime: func() int64 { return 0 }})
	to, err := b.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{loaded.Load(to, []byte("a"), []byte{}, 7), loaded.Load(to, []byte("b"), []byte("x"), 7), loaded.Load(to, []byte("b"), nil, 8), to.Finish(nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	kv := loaded.(store.KeyValue[string, string])
	e, ok = kv.Entry("a")
	if !ok || e.Value != "" || e.Time.UnixMilli() != 7 || kv.Len() != 1 {
		t.Errorf("loaded %+v, %v, %d", e, ok, kv.Len())
	}
}

// Two keys with the same bytes would be one row in the changelog and the backend.
func TestKeysThatAreTheSameBytes(t *testing.T) {
	h := store.NewKeyValue("lossy", serde.Func(func(dst []byte, k int64) ([]byte, error) { return append(dst, byte(k)), nil },
		func(src []byte) (int64, error) { return int64(src[0]), nil }), serde.Int64(), finite)
	w := newFixture(h, nil)
	w.kv.Put(1, 1)
	w.kv.Put(257, 1)
	w.commit(t)
	if _, ok := caught(func() { w.live.Freeze() }).(state.Broken); !ok {
		t.Error("two keys became one row")
	}
}
