package storetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store"
)

// rows is what a store should hold, by encoded key.
type rows map[string]modelRow

type modelRow struct {
	value string // encoded
	at    int64
}

// logged is a record of the changelog.
type logged struct {
	key, value []byte
	at         int64
}

// live is what a key-value store is to the test.
type live[K comparable, V any] interface {
	store.KeyValue[K, V]
	state.Live
	state.Table[K, V]
}

// liveWorld is a store, its backend and its changelog, with what they should hold.
type liveWorld[K comparable, V any] struct {
	t           *rapid.T
	root        string
	dir         int
	openBackend OpenBackend
	keyKind     kindOf[K]
	values      valueOf[V]
	keys        []K
	handle      store.KeyValueHandle[K, V]
	ttl         int64
	limit       int64

	backend state.Backend
	budget  *state.Budget
	store   live[K, V]
	log     []logged
	loaded  bool // a bulk load may have left rows in the index

	now, committed          rows
	stream, committedStream int64
	time                    int64    // of the record being processed
	fresh                   []string // keys written since the last flush, in order
	flushed                 []logged // by flushes of this transaction
	deleted, wantDeleted    []string
	frozen                  []state.Batch // on its way to the backend
	frozenTo                int
	hasFrozen               bool
}

const liveSlot = 6

func (w *liveWorld[K, V]) open() {
	dir := filepath.Join(w.root, fmt.Sprint(w.dir))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	b, err := w.openBackend(dir, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.backend, w.budget = b, state.NewBudget(w.limit)
	w.store = state.Of(w.handle).Open(state.Env{
		Slot: liveSlot, Backend: b, Budget: w.budget,
		Now:        func() int64 { return w.time },
		StreamTime: func() int64 { return w.stream },
		Deleted: func(key []byte) {
			k, err := w.store.DecodeKey(key)
			if err != nil {
				w.t.Fatal(err)
			}
			value, at, ok := w.store.Lookup(k)
			w.deleted = append(w.deleted, fmt.Sprintf("%q=%q@%d %v", key, w.bytes(value), at, ok))
		},
	}).(live[K, V])
}

// key is a key of the test and its bytes.
func (w *liveWorld[K, V]) key() (K, string) {
	k := rapid.SampledFrom(w.keys).Draw(w.t, "key")
	return k, w.name(k)
}

func (w *liveWorld[K, V]) name(k K) string {
	b, err := w.keyKind.serde.Encode(nil, k)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// bytes is an encoded value; nil for null.
func (w *liveWorld[K, V]) bytes(v V) []byte {
	b, err := w.values.serde.Encode(nil, v)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *liveWorld[K, V]) gone(r modelRow) bool { return w.ttl > 0 && w.stream >= r.at+w.ttl }

// get is what a read should find.
func (w *liveWorld[K, V]) get(from rows, name string) (modelRow, bool) {
	r, ok := from[name]
	if !ok || w.gone(r) {
		return modelRow{}, false
	}
	return r, true
}

// set is a write in the model; nil deletes.
func (w *liveWorld[K, V]) set(name string, value []byte, at int64) {
	if value == nil {
		delete(w.now, name)
	} else {
		w.now[name] = modelRow{string(value), at}
	}
	if !slices.Contains(w.fresh, name) {
		w.fresh = append(w.fresh, name)
	}
}

// expel is what becomes of an entry that expired.
func (w *liveWorld[K, V]) expel(name string, r modelRow) {
	w.wantDeleted = append(w.wantDeleted, fmt.Sprintf("%q=%q@%d true", name, r.value, r.at))
	w.set(name, nil, w.time)
}

// visible is the rows that a range should visit, ascending.
func (w *liveWorld[K, V]) visible(from rows) []string {
	var names []string
	for name := range from {
		if _, ok := w.get(from, name); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// flush checks what Flush gives.
func (w *liveWorld[K, V]) flush() {
	var got []logged
	err := w.store.Flush(func(key, value []byte, at int64) error {
		got = append(got, logged{key, value, at})
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(got) != len(w.fresh) {
		w.t.Fatalf("flush gave %d records, want %q", len(got), w.fresh)
	}
	for i, name := range w.fresh {
		r, ok := w.now[name]
		switch {
		case string(got[i].key) != name:
			w.t.Fatalf("flush gave key %q at %d, want %q", got[i].key, i, name)
		case ok && (got[i].value == nil || string(got[i].value) != r.value || got[i].at != r.at):
			w.t.Fatalf("flush gave %q=%q@%d, want %q@%d", name, got[i].value, got[i].at, r.value, r.at)
		case !ok && got[i].value != nil:
			w.t.Fatalf("flush gave %q=%q, want a delete", name, got[i].value)
		}
	}
	w.flushed = append(w.flushed, got...)
	w.fresh = w.fresh[:0]
}

func (w *liveWorld[K, V]) commit() {
	w.flush()
	for _, r := range w.flushed {
		w.log = append(w.log, logged{bytes.Clone(r.key), bytes.Clone(r.value), r.at})
	}
	w.flushed = nil
	w.store.Committed()
	w.committed, w.committedStream = maps.Clone(w.now), w.stream
	if s := w.store.Stats(); s.Dirty != 0 {
		w.t.Fatalf("%d dirty bytes after a commit", s.Dirty)
	}
}

func (w *liveWorld[K, V]) rollback() {
	w.store.Rollback()
	w.now, w.stream = maps.Clone(w.committed), w.committedStream
	w.fresh, w.flushed = nil, nil
}

func (w *liveWorld[K, V]) freeze() {
	if w.hasFrozen {
		return
	}
	w.frozen, w.frozenTo, w.hasFrozen = slices.Clone(w.store.Freeze()), len(w.log), true
}

func (w *liveWorld[K, V]) apply() {
	if !w.hasFrozen {
		return
	}
	w.write()
	w.backend.Switch()
	w.store.Applied()
	w.frozen, w.hasFrozen = nil, false
}

func (w *liveWorld[K, V]) write() {
	for _, b := range w.frozen {
		w.exact(b)
	}
	if err := w.backend.Apply(w.frozen, []byte(strconv.Itoa(w.frozenTo))); err != nil {
		w.t.Fatal(err)
	}
}

// exact checks what a batch says of the rows before it.
func (w *liveWorld[K, V]) exact(b state.Batch) {
	for _, r := range b.Rows {
		if !r.Known {
			continue
		}
		old, ok, err := w.backend.Get(b.Slot, r.Key, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		was := int64(-1)
		if ok {
			was = int64(len(r.Key) + len(old))
		}
		if r.Was != was {
			w.t.Fatalf("slot %d: row %q was %d bytes, the batch says %d", b.Slot, r.Key, was, r.Was)
		}
	}
}

// crash loses the process: with the checkpoint that was under way or without it.
func (w *liveWorld[K, V]) crash() {
	if w.hasFrozen && rapid.Bool().Draw(w.t, "applied") {
		w.write()
	}
	w.restart()
	from := 0
	if data := w.backend.Data(); data != nil {
		n, err := strconv.Atoi(string(data))
		if err != nil {
			w.t.Fatal(err)
		}
		from = n
	}
	for _, r := range w.log[from:] {
		if err := w.store.Restore(r.key, r.value, r.at); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *liveWorld[K, V]) restart() {
	w.store.Close()
	if used := w.budget.Used(); used != 0 {
		w.t.Fatalf("a closed store holds %d bytes", used)
	}
	w.backend.Close(false)
	w.open()
	w.now, w.stream = maps.Clone(w.committed), w.committedStream
	w.fresh, w.flushed, w.frozen, w.hasFrozen = nil, nil, nil, false
}

// lose is a crash that takes the disk: everything comes back by a bulk load.
func (w *liveWorld[K, V]) lose() {
	w.dir++
	w.restart()
	to, err := w.backend.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range w.log {
		if err := w.store.Load(to, r.key, r.value, r.at); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := to.Finish([]byte(strconv.Itoa(len(w.log)))); err != nil {
		w.t.Fatal(err)
	}
	w.loaded = true
}

// settle brings everything into the backend and compares it, row by row.
func (w *liveWorld[K, V]) settle() {
	w.commit()
	w.apply()
	w.freeze()
	w.apply()
	var got []string
	var size int64
	err := w.backend.Scan(liveSlot, nil, nil, false, func(key, value []byte) bool {
		size += int64(len(key) + len(value))
		got = append(got, fmt.Sprintf("%q=%q@%d", key, value[8:], binary.BigEndian.Uint64(value)))
		return true
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var want, index []string
	for name, r := range w.committed {
		want = append(want, fmt.Sprintf("%q=%q@%d", name, r.value, r.at))
		if w.ttl > 0 {
			index = append(index, fmt.Sprintf("%d %q", bucket(r.at+w.ttl, w.ttl), name))
		}
	}
	same(w.t, "rows of the backend", got, want)
	n, bytes := w.backend.Count(liveSlot)
	if n != int64(len(got)) || bytes != size {
		w.t.Fatalf("the backend counts %d rows of %d bytes, has %d of %d", n, bytes, len(got), size)
	}
	s := w.store.Stats()
	if s.Entries != n || s.Bytes != size-8*n || s.Pending > 1<<20 {
		w.t.Fatalf("stats %+v, want %d entries of %d bytes", s, n, size-8*n)
	}
	var indexed []string
	if err := w.backend.Scan(liveSlot+1, nil, nil, false, func(key, _ []byte) bool {
		indexed = append(indexed, fmt.Sprintf("%d %q", int64(binary.BigEndian.Uint64(key)^1<<63), key[8:]))
		return true
	}); err != nil {
		w.t.Fatal(err)
	}
	if w.loaded {
		indexed = slices.DeleteFunc(indexed, func(s string) bool { return !slices.Contains(index, s) })
	}
	same(w.t, "rows of the index", indexed, index)
}

func bucket(expiry, ttl int64) int64 { return expiry / max(1, ttl/8) }

func same(t *rapid.T, what string, got, want []string) {
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
