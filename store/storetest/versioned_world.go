package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store"
)

// liveVersioned is what a versioned store is to the test.
type liveVersioned interface {
	store.Versioned[string, []byte]
	state.Live
	state.Versions[string, []byte]
}

// versionedWorld is a versioned store, its backend and its changelog, with what they should hold.
type versionedWorld struct {
	t              *rapid.T
	root           string
	dir            int
	openBackend    OpenBackend
	handle         store.VersionedHandle[string, []byte]
	history, limit int64

	backend state.Backend
	budget  *state.Budget
	store   liveVersioned
	log     []logged
	drops   int

	now, committed *versions
	fresh, flushed []logged // what Flush is to give, and what it gave in this transaction
	frozen         []state.Batch
	frozenTo       int
	hasFrozen      bool
}

var versionedKeys = []string{"", "\x00", "a", "a\x00", "a\x01\x00\x00\x00\x00\x00\x00\x00\x05", "b", "\xff", "key"}

func (w *versionedWorld) open() {
	dir := filepath.Join(w.root, fmt.Sprint(w.dir))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	b, err := w.openBackend(dir, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.backend, w.budget = b, state.NewBudget(w.limit)
	w.store = w.make(b, w.budget)
}

func (w *versionedWorld) make(b state.Backend, budget *state.Budget) liveVersioned {
	return state.Of(w.handle).Open(state.Env{
		Slot: liveSlot, Backend: b, Budget: budget,
		Now: func() int64 { return 0 }, StreamTime: func() int64 { return 0 },
		Drop: func(reason string) {
			if reason != "expired" {
				w.t.Fatalf("dropped as %q", reason)
			}
			w.drops++
		},
	}).(liveVersioned)
}

// step does one random thing and checks what can be seen of it.
func (w *versionedWorld) step() {
	switch rapid.SampledFrom([]string{"put", "put", "put", "put", "delete", "write", "read", "read", "reader", "flush", "commit", "commit", "rollback",
		"freeze", "apply", "apply", "crash", "lose", "compacted"}).Draw(w.t, "op") {
	case "put":
		key, at, value := w.key(), w.time(), w.value()
		w.putAnd(key, value, at, func() bool { return w.store.Put(key, value, time.UnixMilli(at)) })
	case "delete":
		key, at := w.key(), w.time()
		w.putAnd(key, nil, at, func() bool {
			was := w.drops
			w.store.Delete(key, time.UnixMilli(at))
			return w.drops == was
		})
	case "write":
		w.write()
	case "read":
		w.read(w.store, w.now, w.key(), w.time())
	case "reader":
		w.readCommitted()
	case "flush":
		w.flush()
	case "commit":
		w.commit()
	case "rollback":
		w.store.Rollback()
		w.now, w.fresh, w.flushed = w.committed.clone(), nil, nil
	case "freeze":
		w.freeze()
	case "apply":
		w.apply()
	case "crash":
		w.crash()
	case "lose":
		w.dir++
		w.restart()
		w.restore(w.store, w.log)
	case "compacted":
		w.compacted()
	}
	if got, want := w.store.Stats().Entries, int64(len(w.now.live())); got != want {
		w.t.Fatalf("Stats count %d entries, want %d", got, want)
	}
}

func (w *versionedWorld) key() string { return rapid.SampledFrom(versionedKeys).Draw(w.t, "key") }

// time is one around what was observed: of few different ones, so that there are ties.
func (w *versionedWorld) time() int64 {
	base := max(w.now.observed, 2*w.history)
	return max(0, base+rapid.Int64Range(-w.history-w.history/4-1, 3).Draw(w.t, "time"))
}

func (w *versionedWorld) value() []byte {
	return rapid.SampledFrom([][]byte{nil, {}, {0}, {1}, []byte("value"), []byte("another value")}).Draw(w.t, "value")
}

// putAnd is a put in the model, compared with one in the store.
func (w *versionedWorld) putAnd(key string, value []byte, at int64, put func() bool) {
	drops := w.drops
	taken := w.expect(key, value, at)
	if got := put(); got != taken || w.drops-drops != map[bool]int{true: 0, false: 1}[taken] {
		w.t.Fatalf("put of %q at %d: %v and %d drops, want %v", key, at, got, w.drops-drops, taken)
	}
}

// expect is a put in the model.
func (w *versionedWorld) expect(key string, value []byte, at int64) (taken bool) {
	taken, newest := w.now.put(key, value, at, w.history)
	if !taken {
		return false
	}
	w.fresh = append(w.fresh, logged{[]byte(key), value, at})
	if !newest {
		list := w.now.keys[key]
		last := list[len(list)-1]
		w.fresh = append(w.fresh, logged{[]byte(key), last.value, last.from})
	}
	return true
}

// write is a put by an operator.
func (w *versionedWorld) write() {
	key, at, value := w.key(), w.time(), w.value()
	was, _, had := w.now.at(key, at, w.history)
	count := len(w.fresh)
	taken := w.expect(key, value, at)
	want := state.Refused
	switch {
	case taken && len(w.fresh) == count+1:
		want = state.Latest
	case taken:
		want = state.Past
	}
	old, ok, done := w.store.Write(key, value, value != nil, at)
	if done != want || ok != had || had && !bytes.Equal(old, was.value) {
		w.t.Fatalf("write of %q at %d: %v, before %q %v; want %v, %q %v", key, at, done, old, ok, want, was.value, had)
	}
}

// read compares what is known of a key with the model.
func (w *versionedWorld) read(s liveVersioned, m *versions, key string, at int64) {
	v, ok := s.AsOf(key, time.UnixMilli(at))
	w.same(fmt.Sprintf("%q as of %d", key, at), v, ok, m, key, at)
	value, from, there := s.At(key, at)
	if there != ok || ok && (!bytes.Equal(value, v.Value) || from != v.From.UnixMilli()) {
		w.t.Fatalf("%q at %d: %q since %d, %v; AsOf has %+v %v", key, at, value, from, there, v, ok)
	}
	v, ok = s.Get(key)
	w.same(fmt.Sprintf("%q", key), v, ok, m, key, math.MaxInt64)
	if value, from, there = s.Latest(key); there != ok || ok && (!bytes.Equal(value, v.Value) || from != v.From.UnixMilli()) {
		w.t.Fatalf("the newest of %q is %q since %d, %v; Get has %+v %v", key, value, from, there, v, ok)
	}
}

func (w *versionedWorld) same(what string, v store.VersionedValue[[]byte], ok bool, m *versions, key string, at int64) {
	want, to, there := m.at(key, at, w.history)
	if ok != there {
		w.t.Fatalf("%s is there: %v, want %v", what, ok, there)
	}
	if !ok {
		return
	}
	ends := v.To.IsZero() && to < 0 || !v.To.IsZero() && v.To.UnixMilli() == to
	if !bytes.Equal(v.Value, want.value) || v.From.UnixMilli() != want.from || !ends {
		w.t.Fatalf("%s is %+v, want %q from %d to %d", what, v, want.value, want.from, to)
	}
}

func (w *versionedWorld) readCommitted() {
	reader := state.Of(w.handle).Read(view{w.store}).(store.VersionedReader[string, []byte])
	key, at := w.key(), w.time()
	v, ok, err := reader.AsOf(context.Background(), key, time.UnixMilli(at))
	if err != nil {
		w.t.Fatal(err)
	}
	w.same(fmt.Sprintf("committed %q as of %d", key, at), v, ok, w.committed, key, at)
	if v, ok, err = reader.Get(context.Background(), key); err != nil {
		w.t.Fatal(err)
	}
	w.same(fmt.Sprintf("committed %q", key), v, ok, w.committed, key, math.MaxInt64)
}

// flush checks what Flush gives: every put that was taken, in order, and after each that is not the newest of its key the newest once more.
func (w *versionedWorld) flush() {
	var got []logged
	err := w.store.Flush(func(key, value []byte, at int64) error {
		got = append(got, logged{key, value, at})
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(got) != len(w.fresh) {
		w.t.Fatalf("flush gave %d records, want %d", len(got), len(w.fresh))
	}
	for i, want := range w.fresh {
		if !bytes.Equal(got[i].key, want.key) || (got[i].value == nil) != (want.value == nil) || !bytes.Equal(got[i].value, want.value) || got[i].at != want.at {
			w.t.Fatalf("flush gave %q=%q@%d as number %d, want %q=%q@%d", got[i].key, got[i].value, got[i].at, i, want.key, want.value, want.at)
		}
	}
	w.flushed = append(w.flushed, got...)
	w.fresh = nil
}

func (w *versionedWorld) commit() {
	w.flush()
	for _, r := range w.flushed {
		w.log = append(w.log, logged{bytes.Clone(r.key), bytes.Clone(r.value), r.at})
	}
	w.flushed = nil
	w.store.Committed()
	w.committed = w.now.clone()
	if s := w.store.Stats(); s.Dirty != 0 {
		w.t.Fatalf("%d dirty bytes after a commit", s.Dirty)
	}
}

func (w *versionedWorld) freeze() {
	if !w.hasFrozen {
		w.frozen, w.frozenTo, w.hasFrozen = slices.Clone(w.store.Freeze()), len(w.log), true
	}
}

func (w *versionedWorld) apply() {
	if !w.hasFrozen {
		return
	}
	w.checkpoint()
	w.backend.Switch()
	w.store.Applied()
	w.frozen, w.hasFrozen = nil, false
}

func (w *versionedWorld) checkpoint() {
	exact := liveWorld[string, []byte]{t: w.t, backend: w.backend}
	for _, b := range w.frozen {
		exact.exact(b)
	}
	if err := w.backend.Apply(w.frozen, []byte(strconv.Itoa(w.frozenTo))); err != nil {
		w.t.Fatal(err)
	}
}

// crash loses the process: with the checkpoint that was under way or without it.
func (w *versionedWorld) crash() {
	if w.hasFrozen && rapid.Bool().Draw(w.t, "applied") {
		w.checkpoint()
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
	w.restore(w.store, w.log[from:])
}

func (w *versionedWorld) restart() {
	w.store.Close()
	if used := w.budget.Used(); used != 0 {
		w.t.Fatalf("a closed store holds %d bytes", used)
	}
	w.backend.Close(false)
	w.open()
	w.now, w.fresh, w.flushed, w.frozen, w.hasFrozen = w.committed.clone(), nil, nil, nil, false
}

func (w *versionedWorld) restore(s liveVersioned, log []logged) {
	for _, r := range log {
		if err := s.Restore(r.key, r.value, r.at); err != nil {
			w.t.Fatal(err)
		}
	}
}

// compacted restores another store from what a broker may have left of the changelog: the newest values are the same.
func (w *versionedWorld) compacted() {
	w.commit()
	last := make(map[string]int)
	for i, r := range w.log {
		last[string(r.key)] = i
	}
	var left []logged
	for i, r := range w.log {
		if last[string(r.key)] == i && (r.value != nil || rapid.Bool().Draw(w.t, "delete kept")) {
			left = append(left, r)
		}
	}
	dir, err := os.MkdirTemp(w.root, "other")
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := w.openBackend(dir, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer b.Close(false)
	s := w.make(b, nil)
	w.restore(s, left)
	for _, key := range versionedKeys {
		v, ok := s.Get(key)
		w.same(fmt.Sprintf("%q from a compacted changelog", key), v, ok, w.committed, key, math.MaxInt64)
	}
}

// settle brings everything into the backend and compares what can be asked for, and that little is kept beyond.
func (w *versionedWorld) settle() {
	w.commit()
	w.apply()
	w.freeze()
	w.apply()
	w.crash()
	for _, key := range versionedKeys {
		for at := max(0, w.now.observed-w.history-3); at <= w.now.observed+1; at++ {
			w.read(w.store, w.now, key, at)
		}
	}
	rows, _ := w.backend.Count(liveSlot)
	if want := int64(len(w.now.live())); rows != want {
		w.t.Fatalf("the backend has %d newest values, want %d", rows, want)
	}
}
