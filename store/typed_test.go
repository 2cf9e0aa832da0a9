package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

var (
	finite     = store.FiniteKeys(10)
	counts     = store.NewKeyValue("counts", serde.String(), serde.Int64(), finite)
	texts      = store.NewKeyValue("texts", serde.String(), serde.String(), finite)
	errStrange = errors.New("strange value")
)

func TestPutGet(t *testing.T) {
	w := newFixture(texts, nil)
	w.time = 5
	w.kv.Put("", "")
	v, ok := w.kv.Get("")
	equal(t, "value of the empty key", v, "")
	equal(t, "its presence", ok, true)
	w.kv.PutAt("a", "x", time.UnixMilli(3))
	e, _ := w.kv.Entry("a")
	equal(t, "time", e.Time.UnixMilli(), 3)
	equal(t, "flush", w.commit(t), "=@5, a=x@3")
	w.time = 6
	w.kv.Delete("")
	_, ok = w.kv.Get("")
	equal(t, "presence after the delete", ok, false)
	equal(t, "flush", w.commit(t), " deleted@6")
	equal(t, "length", w.kv.Len(), 1)
}

// N05: a delete hides what is committed, and what is in the backend, from every kind of read.
func TestDeleteAndReadInOneTransaction(t *testing.T) {
	w := newFixture(texts, nil)
	for _, k := range []string{"a", "k", "z"} {
		w.kv.Put(k, "v")
	}
	w.commit(t)
	w.checkpoint(t)
	w.kv.Delete("k")
	if _, ok := w.kv.Get("k"); ok {
		t.Error("the deleted entry is there")
	}
	for k := range w.kv.All() {
		if k == "k" {
			t.Error("a range has the deleted entry")
		}
	}
	for k := range w.kv.RangeBackward("a", "z") {
		if k == "k" {
			t.Error("a range backward has the deleted entry")
		}
	}
	equal(t, "length", w.kv.Len(), 2)
	w.kv.Put("k", "w")
	v, _ := w.kv.Get("k")
	equal(t, "value", v, "w")
}

// F4: what a serde writes as null is a delete.
func TestNullValues(t *testing.T) {
	h := store.NewKeyValue("optional", serde.String(), serde.Optional(serde.String()), finite)
	w := newFixture(h, nil)
	x := "x"
	w.kv.Put("a", &x)
	x = "changed behind the store's back"
	got, _ := w.kv.Get("a")
	equal(t, "value", *got, "x")
	w.kv.Put("a", nil)
	if _, ok := w.kv.Get("a"); ok {
		t.Error("a nil value is there")
	}
	equal(t, "flush", w.commit(t), "a deleted@0")

	// Seven is null, which cannot be known until it is encoded.
	sevens := store.NewKeyValue("sevens", serde.String(), serde.Func(func(dst []byte, v int64) ([]byte, error) {
		if v == 7 {
			return nil, nil
		}
		return append(dst, byte('0'+v)), nil
	}, func(src []byte) (int64, error) { return int64(src[0] - '0'), nil }), finite)
	n := newFixture(sevens, nil)
	n.kv.Put("a", 1)
	n.kv.Put("b", 7)
	equal(t, "flush", n.commit(t), "a=1@0, b deleted@0")
	_, ok := n.kv.Get("b")
	equal(t, "presence after the flush", ok, false)
	equal(t, "length", n.kv.Len(), 1)
}

func TestUpdate(t *testing.T) {
	w := newFixture(counts, nil)
	add := func(old int64, _ bool) (int64, bool) { return old + 1, true }
	w.kv.Update("a", add)
	w.kv.Update("a", add)
	v, _ := w.kv.Get("a")
	equal(t, "count", v, 2)
	equal(t, "look-ups in the backend", w.backend.gets, 1)
	p := caught(func() {
		w.kv.Update("a", func(int64, bool) (int64, bool) { panic("half-way") })
	})
	equal(t, "panic", p, any("half-way"))
	v, _ = w.kv.Get("a")
	equal(t, "count after the failure", v, 2)
	w.kv.Update("a", func(int64, bool) (int64, bool) { return 0, false })
	if _, ok := w.kv.Get("a"); ok {
		t.Error("an entry that was not kept is there")
	}
	w.kv.Update("absent", func(int64, bool) (int64, bool) { return 0, false })
	equal(t, "flush", w.commit(t), "a deleted@0")
}

// The values that an aggregate was given and what it kept of them are not the store's.
func TestAggregateThatChangesItsState(t *testing.T) {
	h := store.NewKeyValue("bytes", serde.String(), serde.Bytes(), finite)
	w := newFixture(h, nil)
	w.kv.Put("a", []byte("abc"))
	var kept []byte
	caught(func() {
		w.kv.Update("a", func(old []byte, _ bool) ([]byte, bool) {
			old[0], kept = 'X', old
			panic("half-way")
		})
	})
	v, _ := w.kv.Get("a")
	equal(t, "value after a failure half-way", string(v), "abc")
	w.kv.Update("a", func(old []byte, _ bool) ([]byte, bool) {
		kept = append(old[:1], 'z')
		return kept, true
	})
	kept[0] = '!'
	v, _ = w.kv.Get("a")
	equal(t, "value", string(v), "az")
}

func TestModify(t *testing.T) {
	w := newFixture(counts, nil)
	set := func(v, at int64, keep bool) {
		w.table.Modify("a", func(int64, int64, bool) (int64, int64, bool) { return v, at, keep })
	}
	set(0, 1, false)
	equal(t, "flush of what was never there", w.commit(t), "a deleted@1")
	set(3, 8, true)
	v, at, ok := w.table.Lookup("a")
	if v != 3 || at != 8 || !ok {
		t.Errorf("looked up %d at %d, %v", v, at, ok)
	}
	set(0, 9, false)
	if _, _, ok := w.table.Lookup("a"); ok {
		t.Error("a dropped entry is there")
	}
	equal(t, "flush", w.commit(t), "a deleted@9")
	k, err := w.table.DecodeKey([]byte("a"))
	if k != "a" || err != nil {
		t.Errorf("key %q, %v", k, err)
	}
}

// A key or value that cannot be encoded is a failed record, not a broken store.
func TestWhatCannotBeEncoded(t *testing.T) {
	h := store.NewKeyValue("picky", serde.String(), serde.Func(func(dst []byte, v string) ([]byte, error) {
		if v == "?" {
			return dst, errStrange
		}
		return append(dst, v...), nil
	}, func(src []byte) (string, error) { return string(src), nil }), finite)
	w := newFixture(h, nil)
	w.kv.Put("a", "v")
	for _, f := range []func(){
		func() { w.kv.Put("a", "?") },
		func() { w.kv.Update("a", func(string, bool) (string, bool) { return "?", true }) },
		func() { w.kv.Put(strings.Repeat("k", state.MaxKey+1), "v") },
	} {
		failed, ok := caught(f).(state.Failed)
		if !ok || failed.Store != "picky" || !errors.Is(failed, errStrange) && !errors.Is(failed, state.ErrTooLarge) {
			t.Errorf("panic %v", failed)
		}
	}
	v, _ := w.kv.Get("a")
	equal(t, "value", v, "v")

	none := newFixture(store.NewKeyValue("none", serde.None(), serde.Int64(), finite), nil)
	if _, ok := caught(func() { none.kv.Put(struct{}{}, 1) }).(state.Failed); !ok {
		t.Error("a store took a null key")
	}
}

func TestBroken(t *testing.T) {
	w := newFixture(counts, nil)
	w.kv.Put("a", 1)
	w.backend.err = errors.New("disk on fire")
	for name, f := range map[string]func(){
		"Get": func() { w.kv.Get("b") }, "later Get": func() { w.kv.Get("a") }, "Put": func() { w.kv.Put("a", 2) }, "Len": func() { w.kv.Len() },
		"Delete": func() { w.kv.Delete("a") }, "Flush": func() { w.live.Flush(nil) }, "Committed": w.live.Committed, "Rollback": w.live.Rollback,
		"Freeze": func() { w.live.Freeze() }, "Applied": w.live.Applied, "Expire": func() { w.live.Expire(1, 1) },
		"All": func() {
			for range w.kv.All() {
			}
		},
	} {
		w.kv = nil
		w.kv, _ = w.live.(store.KeyValue[string, int64])
		p, ok := caught(func() { w.kv.Get("b"); f() }).(state.Broken)
		if !ok || p.Store != "counts" || !errors.Is(p, w.backend.err) {
			t.Errorf("%s: panic %v", name, p)
		}
	}
	w.backend.err = nil
	if _, ok := caught(func() { w.kv.Get("a") }).(state.Broken); !ok {
		t.Error("a store that failed is whole again")
	}

	bad := newFixture(counts, nil)
	if err := bad.live.Restore([]byte("a"), []byte("no int64"), 1); err != nil {
		t.Fatal(err) // eight bytes, so it is one
	}
	if _, ok := caught(func() { bad.live.Restore([]byte("a"), []byte("short"), 1) }).(state.Broken); !ok {
		t.Error("a value that cannot be decoded was restored")
	}
}
