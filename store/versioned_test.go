package store_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/store/badgerstore"
	"github.com/kolkstreams/kolk/store/memstore"
	"github.com/kolkstreams/kolk/store/storetest"
)

func TestVersioned(t *testing.T) {
	var mu sync.Mutex
	disks := map[string]*memstore.Disk{}
	storetest.Versioned(t, func(dir string, fault func(string) error) (state.Backend, error) {
		mu.Lock()
		defer mu.Unlock()
		d := disks[dir]
		if d == nil {
			d = memstore.NewDisk()
			disks[dir] = d
		}
		d.Fault(fault)
		return d.Open(), nil
	})
}

// versionedFixture is a versioned store alone in a backend.
type versionedFixture struct {
	store.Versioned[string, string]
	live    state.Live
	backend state.Backend
	dropped int
}

func newVersionedFixture(t *testing.T, history time.Duration) *versionedFixture {
	t.Helper()
	h := store.NewVersioned("v", serde.String(), serde.String(), store.FiniteKeys(10), history)
	if faults := state.Of(h).Faults; len(faults) > 0 {
		t.Fatal(faults)
	}
	w := &versionedFixture{backend: memstore.New()}
	w.live = state.Of(h).Open(state.Env{Backend: w.backend, Now: func() int64 { return 0 }, StreamTime: func() int64 { return 0 }, Drop: func(string) { w.dropped++ }})
	w.Versioned = w.live.(store.Versioned[string, string])
	return w
}

func (w *versionedFixture) commit(t *testing.T) (out []string) {
	t.Helper()
	if err := w.live.Flush(func(key, value []byte, at int64) error {
		out = append(out, fmt.Sprintf("%s=%s@%d", key, value, at))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.live.Committed()
	return out
}

func at(ms int64) time.Time { return time.UnixMilli(ms) }

// Kafka Streams' own example.
func TestVersionedVector(t *testing.T) {
	w := newVersionedFixture(t, time.Second)
	w.Put("k", "10", at(100))
	w.Put("k", "20", at(200))
	w.Put("k", "15", at(150))
	w.Put("k", "30", at(300))
	equal(t, "changelog", strings.Join(w.commit(t), " "), "k=10@100 k=20@200 k=15@150 k=20@200 k=30@300")
	v, ok := w.Get("k")
	equal(t, "newest", fmt.Sprintln(v.Value, v.From.UnixMilli(), v.To.IsZero(), ok), "30 300 true true\n")
	v, ok = w.AsOf("k", at(250))
	equal(t, "as of 250", fmt.Sprintln(v.Value, v.From.UnixMilli(), v.To.UnixMilli(), ok), "20 200 300 true\n")
	v, ok = w.AsOf("k", at(199))
	equal(t, "as of 199", fmt.Sprintln(v.Value, v.From.UnixMilli(), v.To.UnixMilli(), ok), "15 150 200 true\n")
	_, ok = w.AsOf("k", at(50))
	equal(t, "there as of 50", ok, false)
}

func TestVersionedRemovesWhatIsOutOfReach(t *testing.T) {
	w := newVersionedFixture(t, 10*time.Millisecond)
	for ms := range int64(5000) {
		key := fmt.Sprint(ms % 7)
		if ms%5 == 0 {
			w.Delete(key, at(ms))
		} else {
			w.Put(key, "v", at(ms))
		}
		w.commit(t)
	}
	if err := w.backend.Apply(w.live.Freeze(), nil); err != nil {
		t.Fatal(err)
	}
	w.backend.Switch()
	w.live.Applied()
	if rows, _ := w.backend.Count(0); rows > 7 || rows != w.live.Stats().Entries {
		t.Errorf("%d newest values of 7 keys; stats say %d", rows, w.live.Stats().Entries)
	}
	if rows, _ := w.backend.Count(1); rows > 40 {
		t.Errorf("%d rows are kept of a history of 10 ms", rows)
	}
	if w.live.Stats().Expired < 4900 {
		t.Errorf("%d versions were removed", w.live.Stats().Expired)
	}
}

func TestVersionedRefuses(t *testing.T) {
	w := newVersionedFixture(t, 10*time.Millisecond)
	equal(t, "a put", w.Put("a", "1", at(100)), true)
	equal(t, "a put as old as the history", w.Put("b", "1", at(90)), true)
	equal(t, "an older put", w.Put("a", "0", at(89)), false)
	w.Delete("a", at(89))
	equal(t, "drops", w.dropped, 2)
	equal(t, "changelog", strings.Join(w.commit(t), " "), "a=1@100 b=1@90")
	if p, ok := caught(func() { w.Put("a", "1", time.UnixMilli(-1)) }).(state.Failed); !ok {
		t.Errorf("a version before 1970: %v", p)
	}
	if p, ok := caught(func() { w.Put(strings.Repeat("x", state.MaxKey), "1", at(100)) }).(state.Failed); !ok || !errors.Is(p, state.ErrTooLarge) {
		t.Errorf("a large key: %v", p)
	}
	if err := w.live.Restore([]byte("a"), nil, -1); err == nil {
		t.Error("a changelog record without a time is restored")
	}
	if err := w.live.Load(nil, []byte("a"), nil, 1); err == nil {
		t.Error("the store is loaded in bulk")
	}
	w.live.Close()
	if _, ok := caught(func() { w.Get("a") }).(state.Broken); !ok {
		t.Error("a closed store answers")
	}
}

func TestVersionedDeclaration(t *testing.T) {
	for want, h := range map[string]store.Any{
		"the store has no name":             store.NewVersioned("", serde.String(), serde.String(), store.FiniteKeys(1), time.Hour),
		"a history of 0s remembers nothing": store.NewVersioned("v", serde.String(), serde.String(), store.FiniteKeys(1), 0),
		"a versioned store has no TTL":      store.NewVersioned("v", serde.String(), serde.String(), store.TTL(time.Hour), time.Hour),
		"the store has no bound":            store.NewVersioned("v", serde.String(), serde.String(), store.Bound{}, time.Hour),
		"the key has no serde":              store.NewVersioned[string]("v", nil, serde.String(), store.FiniteKeys(1), time.Hour),
		"the value has no serde":            store.NewVersioned[string, string]("v", serde.String(), nil, store.FiniteKeys(1), time.Hour),
		"keys of type float64 are refused":  store.NewVersioned("v", serde.Float64(), serde.String(), store.FiniteKeys(1), time.Hour),
	} {
		faults := state.Of(h).Faults
		if len(faults) != 1 || !strings.Contains(faults[0].Problem, want) || faults[0].Remedy == "" {
			t.Errorf("%v, want %q", faults, want)
		}
	}
	d := state.Of(store.NewVersioned("v", serde.String(), serde.Int64(), store.FiniteKeys(5), time.Hour, store.InMemory(), store.Version(2)))
	if d.Kind != "versioned" || d.Retention != 3_600_000 || !d.NoLoad || !d.InMemory || d.Full() != "v-v2" || d.Expected != 5 || !strings.HasSuffix(d.Place[:strings.LastIndex(d.Place, ":")], "versioned_test.go") {
		t.Errorf("declared %+v", d)
	}
}

// Opening a database takes long, so there are fewer random runs than in memory.
func TestVersionedOnDisk(t *testing.T) {
	checks := flag.Lookup("rapid.checks").Value.String()
	if err := flag.Set("rapid.checks", "5"); err != nil {
		t.Fatal(err)
	}
	defer flag.Set("rapid.checks", checks)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	storetest.Versioned(t, func(dir string, _ func(string) error) (state.Backend, error) {
		return badgerstore.Open(dir, badgerstore.Config{Memory: 8 << 20, Logger: quiet})
	})
}
