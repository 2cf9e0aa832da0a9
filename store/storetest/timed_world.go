package storetest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

type timedKey struct {
	key string
	spot
}

type timedRows map[timedKey]modelRow

// timedWorld is a window or session store, its backend and its changelog, with what they should hold.
type timedWorld struct {
	t           *rapid.T
	root        string
	dir         int
	openBackend OpenBackend
	keys        serde.Serde[string]
	retention   int64
	limit       int64
	others      int64 // what other stores have of the budget
	decl        *state.Decl
	sessions    bool
	tail        func([]byte, spot) []byte
	opened      func(state.Live)

	backend state.Segmented
	budget  *state.Budget
	live    state.Segmenting
	store   timedStore
	log     []logged

	now, committed              timedRows
	observed, committedObserved int64
	time                        int64
	written                     map[timedKey]bool // ever
	fresh                       []timedKey
	flushed                     []logged
	frozen                      timedFrozen
	frozenTo                    int
	hasFrozen                   bool
}

type timedFrozen struct {
	batches  []state.Batch
	segments []state.SegmentBatch
	drop     []state.Segment
}

func (w *timedWorld) open() {
	dir := filepath.Join(w.root, fmt.Sprint(w.dir))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	b, err := w.openBackend(dir, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	w.backend, w.budget = b.(state.Segmented), state.NewBudget(w.limit)
	w.budget.Add(w.others)
	live := w.decl.Open(state.Env{Slot: liveSlot, Backend: b, Budget: w.budget, Now: func() int64 { return w.time }, StreamTime: func() int64 { return w.time }, Drop: func(string) {}})
	w.live = live.(state.Segmenting)
	w.opened(live)
}

func (w *timedWorld) name(k timedKey) string { return string(w.tail([]byte(k.key), k.spot)) }

func (w *timedWorld) gone(at, observed int64) bool { return at <= observed-w.retention }

// draw is a key and a place around the observed time.
func (w *timedWorld) draw() timedKey {
	k := timedKey{key: rapid.SampledFrom(timedKeys).Draw(w.t, "key")}
	reach := w.retention + w.retention/4 + 10
	k.at = max(0, w.observed+rapid.Int64Range(-reach, w.retention/5+3).Draw(w.t, "at"))
	if !rapid.Bool().Draw(w.t, "fine") {
		k.at -= k.at % max(1, w.retention/5)
	}
	if w.sessions {
		k.from = max(0, k.at-rapid.Int64Range(0, 3).Draw(w.t, "length"))
	}
	return k
}

func (w *timedWorld) step() {
	w.time++
	switch rapid.SampledFrom([]string{"write", "write", "write", "write", "write", "get", "get", "one", "one", "all", "all", "first", "loop",
		"flush", "commit", "commit", "rollback", "freeze", "apply", "apply", "crash", "lose", "reader", "settle", "len"}).Draw(w.t, "op") {
	case "write":
		w.write()
	case "get":
		k := w.draw()
		got, ok := w.store.get(k.key, k.spot)
		w.compare(k, got, ok)
	case "one":
		w.one(func() {})
	case "all":
		w.all(func() {})
	case "first":
		w.first()
	case "loop":
		if rapid.Bool().Draw(w.t, "of one key") {
			w.one(w.write)
		} else {
			w.all(w.write)
		}
	case "flush":
		w.flush()
	case "commit":
		w.commit()
	case "rollback":
		w.live.Rollback()
		w.now, w.observed, w.fresh, w.flushed = maps.Clone(w.committed), w.committedObserved, nil, nil
	case "freeze":
		w.freeze()
	case "apply":
		w.apply()
	case "crash":
		w.crash()
	case "lose":
		w.lose()
	case "reader":
		w.readCommitted()
	case "settle":
		w.settle()
	case "len":
		w.count()
	}
}

func (w *timedWorld) compare(k timedKey, got string, ok bool) {
	want, there := w.now[k]
	there = there && !w.gone(k.at, w.observed)
	if ok != there || ok && got != want.value {
		w.t.Fatalf("%+v is %q, %v, want %q, %v (observed %d)", k, got, ok, want.value, there, w.observed)
	}
}

type failed struct{}

func (w *timedWorld) write() {
	k := w.draw()
	expired := w.gone(k.at, w.observed)
	touch := func() {
		w.written[k] = true
		w.observed = max(w.observed, k.at)
		if !slices.Contains(w.fresh, k) {
			w.fresh = append(w.fresh, k)
		}
	}
	switch rapid.SampledFrom([]string{"modify", "modify", "modify", "drop", "remove", "fail"}).Draw(w.t, "write") {
	case "modify":
		v := fmt.Sprint("v", w.time)
		if ok := w.store.modify(k.key, k.spot, func(old string, ok bool) (string, bool) {
			w.compare(k, old, ok)
			return v, true
		}); ok == expired {
			w.t.Fatalf("a write to %+v is taken: %v, observed %d", k, ok, w.observed)
		}
		if !expired {
			w.now[k] = modelRow{v, w.time}
			touch()
		}
	case "drop":
		if ok := w.store.modify(k.key, k.spot, func(string, bool) (string, bool) { return "", false }); ok == expired {
			w.t.Fatalf("a delete of %+v is taken: %v, observed %d", k, ok, w.observed)
		}
		if !expired {
			delete(w.now, k)
			touch()
		}
	case "remove":
		w.store.remove(k.key, k.spot)
		if !expired {
			delete(w.now, k)
			touch()
		}
	case "fail":
		func() {
			defer func() {
				if p := recover(); p != nil && p != (failed{}) {
					panic(p)
				}
			}()
			w.store.modify(k.key, k.spot, func(string, bool) (string, bool) { panic(failed{}) })
		}()
	}
}

// want lists what a range should visit, in order.
func (w *timedWorld) want(from timedRows, observed int64, wants func(timedKey) bool) (out []string) {
	var keys []timedKey
	for k := range from {
		if wants(k) && !w.gone(k.at, observed) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b timedKey) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.from, b.from), cmp.Compare(a.key, b.key))
	})
	for _, k := range keys {
		out = append(out, fmt.Sprintf("%q %v %s", k.key, k.spot, from[k].value))
	}
	return out
}

func (w *timedWorld) window() (lo, hi int64) {
	lo = w.observed + rapid.Int64Range(-w.retention-20, w.retention/5).Draw(w.t, "from")
	return lo, lo + rapid.Int64Range(-1, w.retention+40).Draw(w.t, "length of range")
}

func (w *timedWorld) touching(lo, hi int64) func(timedKey) bool {
	return func(k timedKey) bool {
		if w.sessions {
			return k.at >= lo && k.from <= hi
		}
		return k.at >= lo && k.at <= hi
	}
}

func (w *timedWorld) one(busy func()) {
	key := rapid.SampledFrom(timedKeys).Draw(w.t, "key")
	lo, hi := w.window()
	touches := w.touching(lo, hi)
	want := w.want(w.now, w.observed, func(k timedKey) bool { return k.key == key && touches(k) })
	var got []string
	w.store.one(key, lo, hi, func(p spot, v string) bool {
		got = append(got, fmt.Sprintf("%q %v %s", key, p, v))
		busy()
		return true
	})
	if !slices.Equal(got, want) {
		w.t.Fatalf("entries of %q in [%d, %d]:\n%q\nwant\n%q", key, lo, hi, got, want)
	}
}

func (w *timedWorld) all(busy func()) {
	lo, hi := w.window()
	want := w.want(w.now, w.observed, func(k timedKey) bool { return k.at >= lo && k.at <= hi })
	var got []string
	w.store.all(lo, hi, func(key string, p spot, v string) bool {
		got = append(got, fmt.Sprintf("%q %v %s", key, p, v))
		busy()
		return true
	})
	if !slices.Equal(got, want) {
		w.t.Fatalf("entries in [%d, %d]:\n%q\nwant\n%q", lo, hi, got, want)
	}
}

func (w *timedWorld) first() {
	lo, _ := w.window()
	want, there := int64(0), false
	for k := range w.now {
		if k.at >= lo && !w.gone(k.at, w.observed) && (!there || k.at < want) {
			want, there = k.at, true
		}
	}
	if got, ok := w.store.First(lo); got != want || ok != there {
		w.t.Fatalf("the first entry from %d on is at %d, %v, want %d, %v", lo, got, ok, want, there)
	}
}

func (w *timedWorld) flush() {
	var got []logged
	if err := w.live.Flush(func(key, value []byte, at int64) error {
		got = append(got, logged{key, value, at})
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	if len(got) != len(w.fresh) {
		w.t.Fatalf("flush gave %d records, want %d: %v", len(got), len(w.fresh), w.fresh)
	}
	for i, k := range w.fresh {
		r, ok := w.now[k]
		switch {
		case string(got[i].key) != w.name(k):
			w.t.Fatalf("flush gave key %x at %d, want %x", got[i].key, i, w.name(k))
		case ok && (got[i].value == nil || string(got[i].value) != r.value || got[i].at != r.at):
			w.t.Fatalf("flush gave %v=%q@%d, want %q@%d", k, got[i].value, got[i].at, r.value, r.at)
		case !ok && got[i].value != nil:
			w.t.Fatalf("flush gave %v=%q, want a delete", k, got[i].value)
		}
	}
	w.flushed, w.fresh = append(w.flushed, got...), nil
}

func (w *timedWorld) commit() {
	w.flush()
	for _, r := range w.flushed {
		w.log = append(w.log, logged{bytes.Clone(r.key), bytes.Clone(r.value), r.at})
	}
	w.flushed = nil
	w.live.Committed()
	w.committed, w.committedObserved = maps.Clone(w.now), w.observed
	if s := w.live.Stats(); s.Dirty != 0 {
		w.t.Fatalf("%d dirty bytes after a commit", s.Dirty)
	}
}

func (w *timedWorld) freeze() {
	if w.hasFrozen {
		return
	}
	w.frozen.batches = slices.Clone(w.live.Freeze())
	segments, drop := w.live.FreezeSegments()
	w.frozen.segments, w.frozen.drop = slices.Clone(segments), slices.Clone(drop)
	w.frozenTo, w.hasFrozen = len(w.log), true
	for _, b := range w.frozen.segments {
		for _, r := range b.Rows {
			if at := w.timeOf(r.Key); w.gone(at, w.committedObserved) {
				w.t.Fatalf("a row of time %d goes to disk, observed %d", at, w.committedObserved)
			}
		}
	}
}

func (w *timedWorld) timeOf(name []byte) int64 {
	n := 12
	if w.sessions {
		n = 16
	}
	return int64(binary.BigEndian.Uint64(name[len(name)-n:]))
}

func (w *timedWorld) apply() {
	if !w.hasFrozen {
		return
	}
	w.toDisk()
	w.backend.Switch()
	w.live.Applied()
	w.frozen, w.hasFrozen = timedFrozen{}, false
}

func (w *timedWorld) toDisk() {
	for _, b := range w.frozen.segments {
		for _, r := range b.Rows {
			old, ok, err := w.backend.GetSegment(b.Segment, r.Key, nil)
			if err != nil {
				w.t.Fatal(err)
			}
			was := int64(-1)
			if ok {
				was = int64(len(r.Key) + len(old))
			}
			if r.Known && r.Was != was {
				w.t.Fatalf("segment %v: row %x was %d bytes, the batch says %d", b.Segment, r.Key, was, r.Was)
			}
		}
	}
	if err := w.backend.ApplySegments(w.frozen.batches, w.frozen.segments, w.frozen.drop, []byte(strconv.Itoa(w.frozenTo))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *timedWorld) restart() {
	w.live.Close()
	if used := w.budget.Used(); used != w.others {
		w.t.Fatalf("a closed store holds %d bytes", used)
	}
	w.backend.Close(false)
	w.open()
	w.now, w.observed = maps.Clone(w.committed), w.committedObserved
	w.fresh, w.flushed, w.frozen, w.hasFrozen = nil, nil, timedFrozen{}, false
}

func (w *timedWorld) crash() {
	if w.hasFrozen && rapid.Bool().Draw(w.t, "applied") {
		w.toDisk()
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
		if err := w.live.Restore(r.key, r.value, r.at); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *timedWorld) lose() {
	w.dir++
	w.restart()
	to, err := w.backend.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range w.log {
		if err := w.live.Load(to, r.key, r.value, r.at); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := to.Finish([]byte(strconv.Itoa(len(w.log)))); err != nil {
		w.t.Fatal(err)
	}
}

// count checks that the count is exact but for what has expired: that counts as long as a row of it is left anywhere.
func (w *timedWorld) count() {
	type counted interface{ Len() int64 }
	n := w.live.(state.Opener).Opened().(counted).Len()
	least := int64(len(w.want(w.now, w.observed, func(timedKey) bool { return true })))
	most := least
	for k := range w.written {
		if w.gone(k.at, w.observed) {
			most++
		}
	}
	if n < least || n > most || n != w.live.Stats().Entries {
		w.t.Fatalf("Len is %d, Stats say %d, there are %d, with expired ones at most %d", n, w.live.Stats().Entries, least, most)
	}
}

// settle brings everything into the backend and compares it, row by row.
func (w *timedWorld) settle() {
	w.commit()
	w.apply()
	w.freeze()
	w.apply()
	var got, want []string
	var rows, size int64
	for _, n := range w.backend.Segments(liveSlot) {
		live := false
		if err := w.backend.ScanSegment(state.Segment{Slot: liveSlot, Number: n}, nil, nil, false, func(key, value []byte) bool {
			rows, size = rows+1, size+int64(len(key)+len(value))
			if at := w.timeOf(key); !w.gone(at, w.observed) {
				got = append(got, fmt.Sprintf("%x=%q@%d", key, value[8:], binary.BigEndian.Uint64(value)))
				live = true
			}
			return true
		}); err != nil {
			w.t.Fatal(err)
		}
		if last := (n+1)*max(w.retention/2, 60_000) - 1; !live && w.gone(last, w.observed) {
			w.t.Fatalf("segment %d has expired and is still there, observed %d", n, w.observed)
		}
	}
	for k, r := range w.committed {
		if !w.gone(k.at, w.observed) {
			want = append(want, fmt.Sprintf("%x=%q@%d", w.name(k), r.value, r.at))
		}
	}
	same(w.t, "rows of the backend", got, want)
	if n, b := w.backend.Count(liveSlot); n != rows || b != size {
		w.t.Fatalf("the backend counts %d rows of %d bytes, has %d of %d", n, b, rows, size)
	}
	if s := w.live.Stats(); s.Entries != rows || s.Bytes != size-8*rows || s.Pending > 1<<20 {
		w.t.Fatalf("stats %+v, want %d entries of %d bytes", s, rows, size-8*rows)
	}
	if w.observed >= 0 {
		row, ok, err := w.backend.Get(liveSlot+1, []byte("observed"), nil)
		if err != nil || !ok || int64(binary.BigEndian.Uint64(row)) != w.observed {
			w.t.Fatalf("the checkpoint's observed time is %x, %v, %v, want %d", row, ok, err, w.observed)
		}
	}
}
