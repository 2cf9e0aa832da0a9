package storetest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store"
)

// step does one random thing and checks what can be seen of it.
func (w *liveWorld[K, V]) step() {
	w.time = max(0, w.stream+rapid.Int64Range(-130, 10).Draw(w.t, "record time"))
	w.stream = max(w.stream, w.time)
	switch rapid.SampledFrom([]string{"write", "write", "write", "write", "get", "get", "range", "range", "loop", "len", "reader",
		"flush", "commit", "commit", "rollback", "freeze", "apply", "apply", "crash", "lose", "time", "expire", "expire", "settle"}).Draw(w.t, "op") {
	case "write":
		w.writeOne()
	case "get":
		w.getOne()
	case "range":
		w.rangeOnce(nil)
	case "loop":
		w.rangeOnce(w.writeOne)
	case "len":
		if got, want := w.store.Len(), int64(len(w.now)); got != want {
			w.t.Fatalf("Len is %d, want %d", got, want)
		}
		if got := w.store.Stats().Entries; got != int64(len(w.now)) {
			w.t.Fatalf("Stats count %d entries after Len, want %d", got, len(w.now))
		}
	case "reader":
		w.readCommitted()
	case "flush":
		w.flush()
	case "commit":
		w.commit()
	case "rollback":
		w.rollback()
	case "freeze":
		w.freeze()
	case "apply":
		w.apply()
	case "crash":
		w.crash()
	case "lose":
		w.lose()
	case "time":
		w.stream += rapid.Int64Range(1, 60).Draw(w.t, "later")
	case "expire":
		w.expire()
	case "settle":
		w.settle()
	}
	if !slices.Equal(w.deleted, w.wantDeleted) {
		w.t.Fatalf("told of expired %q, want %q", w.deleted, w.wantDeleted)
	}
	w.deleted, w.wantDeleted = nil, nil
}

type failure struct{}

// writeOne is one write, of any kind.
func (w *liveWorld[K, V]) writeOne() {
	k, name := w.key()
	switch rapid.SampledFrom([]string{"put", "put", "putAt", "delete", "update", "update", "drop", "fail", "modify", "busy"}).Draw(w.t, "write") {
	case "put":
		v := w.values.draw(w.t)
		w.store.Put(k, v)
		w.set(name, w.bytes(v), w.time)
	case "putAt":
		v, at := w.values.draw(w.t), rapid.Int64Range(0, w.stream+200).Draw(w.t, "at")
		w.store.PutAt(k, v, time.UnixMilli(at))
		w.set(name, w.bytes(v), at)
	case "delete":
		w.store.Delete(k)
		w.set(name, nil, w.time)
	case "update":
		w.update(k, name, func() {})
	case "drop":
		w.store.Update(k, func(old V, ok bool) (V, bool) {
			w.seen(name, old, ok)
			return old, false
		})
		if _, ok := w.now[name]; ok {
			w.set(name, nil, w.time)
		}
	case "fail":
		func() {
			defer func() {
				if p := recover(); p != (failure{}) {
					panic(p)
				}
			}()
			w.store.Update(k, func(old V, ok bool) (V, bool) {
				w.values.next(old, 1)
				panic(failure{})
			})
		}()
	case "modify":
		w.modify(k, name)
	case "busy":
		// The function uses the store, more of it than tight memory keeps.
		w.update(k, name, func() {
			for _, other := range w.keys {
				w.store.Get(other)
			}
			v := w.values.draw(w.t)
			k, name := w.key()
			w.store.Put(k, v)
			w.set(name, w.bytes(v), w.time)
		})
	}
}

func (w *liveWorld[K, V]) update(k K, name string, inside func()) {
	var next []byte
	w.store.Update(k, func(old V, ok bool) (V, bool) {
		w.seen(name, old, ok)
		inside()
		v := w.values.next(old, int(w.time))
		next = w.bytes(v)
		return v, true
	})
	w.set(name, next, w.time)
}

func (w *liveWorld[K, V]) modify(k K, name string) {
	if r, ok := w.now[name]; ok && w.gone(r) {
		w.expel(name, r)
	}
	at := w.time + 7
	var next []byte
	keep := rapid.Bool().Draw(w.t, "keep")
	w.store.Modify(k, func(old V, was int64, ok bool) (V, int64, bool) {
		w.seen(name, old, ok)
		if r := w.now[name]; ok && was != r.at {
			w.t.Fatalf("Modify has %q at %d, want %d", name, was, r.at)
		}
		v := w.values.next(old, int(w.time))
		next = w.bytes(v)
		return v, at, keep
	})
	if !keep {
		next = nil
	}
	w.set(name, next, at)
}

// seen checks what a function was given.
func (w *liveWorld[K, V]) seen(name string, v V, ok bool) {
	r, want := w.get(w.now, name)
	if ok != want || ok && string(w.bytes(v)) != r.value {
		w.t.Fatalf("%q is %q, %v; want %q, %v", name, w.bytes(v), ok, r.value, want)
	}
}

func (w *liveWorld[K, V]) getOne() {
	k, name := w.key()
	v, ok := w.store.Get(k)
	w.seen(name, v, ok)
	if ok {
		w.values.next(v, 0) // what a reader does with its value does not matter
	}
	e, ok := w.store.Entry(k)
	w.seen(name, e.Value, ok)
	if r, there := w.get(w.now, name); there && (e.Key != k || e.Time.UnixMilli() != r.at) {
		w.t.Fatalf("entry %v has time %d, want %d", e.Key, e.Time.UnixMilli(), r.at)
	}
}

// rangeOnce runs a range, and each time through the loop what inside does.
func (w *liveWorld[K, V]) rangeOnce(inside func()) {
	begin := maps.Clone(w.now)
	names := w.visible(begin)
	var loop iter.Seq2[K, V]
	between := func(from, to string) {
		names = slices.DeleteFunc(names, func(n string) bool { return n < from || n > to })
	}
	switch kind := rapid.SampledFrom([]string{"all", "range", "backward", "prefix"}).Draw(w.t, "range"); kind {
	case "all":
		loop = w.store.All()
	case "prefix":
		_, name := w.key()
		prefix := name[:rapid.IntRange(0, len(name)).Draw(w.t, "length")]
		names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) })
		loop = w.store.Prefix([]byte(prefix))
	default:
		k1, from := w.key()
		k2, to := w.key()
		between(from, to)
		if loop = w.store.Range(k1, k2); kind == "backward" {
			loop = w.store.RangeBackward(k1, k2)
			slices.Reverse(names)
		}
	}
	stop := -1
	if rapid.Bool().Draw(w.t, "stop early") {
		stop = rapid.IntRange(0, 3).Draw(w.t, "stop after")
	}
	i := 0
	for k, v := range loop {
		if i >= len(names) || w.name(k) != names[i] {
			w.t.Fatalf("a range gave %q as number %d of %q", w.name(k), i, names)
		}
		if string(w.bytes(v)) != begin[names[i]].value {
			w.t.Fatalf("a range gave %q=%q, want %q", names[i], w.bytes(v), begin[names[i]].value)
		}
		if i++; inside != nil && i < 5 {
			inside()
		}
		if i == stop {
			return
		}
	}
	if i != len(names) {
		w.t.Fatalf("a range ended after %d of %q", i, names)
	}
}

type view []state.Live

func (v view) Stores(string) []state.Live { return v }

// readCommitted reads from outside.
func (w *liveWorld[K, V]) readCommitted() {
	reader := state.Of(w.handle).Read(view{w.store}).(store.KeyValueReader[K, V])
	ctx := context.Background()
	k, name := w.key()
	e, ok, err := reader.Entry(ctx, k)
	r, want := w.get(w.committed, name)
	if err != nil || ok != want || ok && (string(w.bytes(e.Value)) != r.value || e.Time.UnixMilli() != r.at) {
		w.t.Fatalf("reader has %q %v %v %v, want %+v %v", name, e, ok, err, r, want)
	}
	var got, all []string
	for e, err := range reader.All(ctx) {
		if err != nil {
			w.t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%q=%q@%d", w.name(e.Key), w.bytes(e.Value), e.Time.UnixMilli()))
	}
	for _, name := range w.visible(w.committed) {
		r := w.committed[name]
		all = append(all, fmt.Sprintf("%q=%q@%d", name, r.value, r.at))
	}
	if !slices.Equal(got, all) {
		w.t.Fatalf("reader has %q, want %q", got, all)
	}
}

// expire removes what the bound says, in the order it says.
func (w *liveWorld[K, V]) expire() {
	limit := rapid.IntRange(1, 5).Draw(w.t, "limit")
	w.time = w.stream
	more := w.store.Expire(w.stream, limit)
	if w.ttl == 0 {
		if more {
			w.t.Fatal("a store without TTL has something to remove")
		}
		return
	}
	var passed []string
	for name, r := range w.now {
		if bucket(r.at+w.ttl, w.ttl) < bucket(w.stream, w.ttl) {
			passed = append(passed, name)
		}
	}
	slices.SortFunc(passed, func(a, b string) int {
		return cmp.Or(cmp.Compare(w.now[a].at, w.now[b].at), strings.Compare(a, b))
	})
	if n := min(limit, len(passed)); more && n == len(passed) {
		// Something in the queue may have been written since; the next call finds nothing.
		w.t.Logf("more after %d", n)
	} else if !more && n < len(passed) {
		w.t.Fatalf("expire ended after %d of %d", n, len(passed))
	}
	for _, name := range passed[:min(limit, len(passed))] {
		w.expel(name, w.now[name])
	}
}
