package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/state"
)

// OpenBackend opens the backend that lives in dir, which exists; the same dir again after Close, or after a failed write, is the same backend.
// fault, unless nil, is called before each step that changes what is on disk, at open too, and its error must end that step with an
// error.
type OpenBackend func(dir string, fault func(step string) error) (state.Backend, error)

// Backend checks a backend against what package state promises: model-based random operations, crashes at every step, loads, large rows,
// reads beside an apply. Segments are checked if the backend is a state.Segmented.
func Backend(t *testing.T, open OpenBackend) {
	t.Run("Random", func(t *testing.T) { backendRandom(t, open) })
	t.Run("Bounds", func(t *testing.T) { backendBounds(t, open) })
	t.Run("Large", func(t *testing.T) { backendLarge(t, open) })
	t.Run("Refused", func(t *testing.T) { backendRefused(t, open) })
	t.Run("Crash", func(t *testing.T) { backendCrash(t, open) })
	t.Run("LoadCrash", func(t *testing.T) { backendLoadCrash(t, open) })
	t.Run("LoadEqualsApply", func(t *testing.T) { backendLoad(t, open) })
	t.Run("ReadsBesideApply", func(t *testing.T) { backendBeside(t, open) })
}

var (
	backendSlots = []uint16{0, 1, 2, 0x2162, 0xffff}
	backendKeys  = [][]byte{
		{}, {0}, {0, 0}, {0, 1}, {1}, {0xff}, {0xff, 0xff}, {0xff, 0xff, 0xff}, {0, 0xff}, {0xff, 0},
		[]byte("a"), []byte("a\x00"), []byte("ab"), []byte("abc"), []byte("b"), []byte("!badger!"), []byte("!badger!head"),
		{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, bytes.Repeat([]byte{0xff}, 300),
	}
	backendNumbers = []int64{-1 << 63, -1, 0, 1, 2, 3, 1<<63 - 1}
)

var errFault = errors.New("fault of the test")

// failAt makes a fault function that fails at the n-th step, counted from 0, and at every one after it.
func failAt(n int, fired *bool) func(string) error {
	return func(step string) error {
		n--
		if n < 0 {
			*fired = true
			return fmt.Errorf("step %s: %w", step, errFault)
		}
		return nil
	}
}

func backendRandom(t *testing.T, open OpenBackend) {
	root := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(root, "random")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		r := &random{t: rt, open: open, dir: dir, now: newModel(), view: newModel()}
		defer r.close(false)
		r.reopen(nil)
		ops := rapid.IntRange(1, 8).Draw(rt, "ops")
		for range ops {
			switch rapid.SampledFrom([]string{"apply", "apply", "apply", "apply", "check", "clean", "unclean", "crash", "load"}).Draw(rt, "op") {
			case "apply":
				r.apply()
			case "clean":
				r.close(true)
				r.reopen(nil)
			case "unclean":
				r.close(false)
				r.reopen(nil)
			case "crash":
				r.crash()
			case "load":
				r.load()
			}
			r.check()
		}
	})
}

// random is one run of random operations.
type random struct {
	t    *rapid.T
	open OpenBackend
	dir  string
	b    state.Backend
	now  *model // as of the last finished checkpoint
	view *model // as the reads see it
	turn int
}

func (r *random) close(clean bool) {
	if r.b != nil {
		if err := r.b.Close(clean); err != nil {
			r.t.Fatalf("close: %v", err)
		}
		r.b = nil
	}
}

func (r *random) reopen(fault func(string) error) {
	b, err := r.open(r.dir, fault)
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.b, r.view = b, r.now
}

func (r *random) check() {
	if err := r.view.compare(r.b, backendSlots, backendKeys); err != nil {
		r.t.Fatal(err)
	}
	if got := r.b.Data(); !bytes.Equal(got, r.now.data) || (got == nil) != (r.now.data == nil) {
		r.t.Fatalf("data %q, want %q", got, r.now.data)
	}
	key := rapid.SampledFrom(append([][]byte{nil}, backendKeys...))
	a := r.area()
	if err := r.view.compareScan(r.b, a, key.Draw(r.t, "from"), key.Draw(r.t, "to"), rapid.Bool().Draw(r.t, "reverse")); err != nil {
		r.t.Fatal(err)
	}
}

func (r *random) area() area {
	a := area{slot: rapid.SampledFrom(backendSlots).Draw(r.t, "slot")}
	if _, ok := r.b.(state.Segmented); ok && rapid.Bool().Draw(r.t, "in a segment") {
		a.segment, a.number = true, rapid.SampledFrom(backendNumbers).Draw(r.t, "segment")
	}
	return a
}

// rows are some rows for an area, as of model m.
func (r *random) rows(m *model, a area) []state.Row {
	picked := newModel()
	keys := rapid.OneOf(rapid.SampledFrom(backendKeys), rapid.SliceOfN(rapid.Byte(), 0, 3))
	for range rapid.IntRange(0, 12).Draw(r.t, "rows") {
		picked.put(a, keys.Draw(r.t, "key"), []byte{})
	}
	var rows []state.Row
	for _, k := range picked.scan(a, nil, nil, false) {
		row := state.Row{Key: []byte(k)}
		switch rapid.IntRange(0, 9).Draw(r.t, "kind") {
		case 0, 1, 2:
		case 3:
			row.Value = []byte{}
		default:
			r.turn++
			row.Value = bytes.Repeat([]byte{byte(r.turn)}, rapid.IntRange(0, 40).Draw(r.t, "length"))
		}
		if rapid.Bool().Draw(r.t, "known") {
			row.Known, row.Was = true, m.was(a, row.Key)
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *random) checkpoint() checkpoint {
	r.turn++
	c := checkpoint{data: fmt.Appendf(nil, "checkpoint %d", r.turn)}
	dropped := r.now.clone()
	for range rapid.IntRange(0, 2).Draw(r.t, "drops") {
		if a := r.area(); a.segment {
			c.drop = append(c.drop, state.Segment{Slot: a.slot, Number: a.number})
			delete(dropped.areas, a)
		}
	}
	seen := map[area]bool{}
	for range rapid.IntRange(0, 4).Draw(r.t, "batches") {
		a := r.area()
		if seen[a] {
			continue
		}
		seen[a] = true
		rows := r.rows(dropped, a)
		if a.segment {
			c.segments = append(c.segments, state.SegmentBatch{Segment: state.Segment{Slot: a.slot, Number: a.number}, Rows: rows})
		} else {
			c.batches = append(c.batches, state.Batch{Slot: a.slot, Rows: rows})
		}
	}
	return c
}

func (r *random) apply() {
	c := r.checkpoint()
	if err := c.applyTo(r.b); err != nil {
		r.t.Fatalf("apply: %v", err)
	}
	r.now = r.now.clone()
	r.now.apply(c)
	r.check() // before Switch
	if rapid.IntRange(0, 3).Draw(r.t, "switch") > 0 {
		r.b.Switch()
		r.view = r.now
	}
}

// crash lets a write fail at a random step, and looks at what is there afterwards.
func (r *random) crash() {
	var fired bool
	r.close(false)
	step := rapid.IntRange(0, 12).Draw(r.t, "step")
	armed := false
	at := failAt(step, &fired)
	r.reopen(func(s string) error {
		if armed {
			return at(s)
		}
		return nil
	})
	c := r.checkpoint()
	armed = true
	err := c.applyTo(r.b)
	armed = false
	if err != nil && !errors.Is(err, errFault) {
		r.t.Fatalf("apply: %v", err)
	}
	r.close(err == nil)
	r.view = nil
	b, openErr := r.open(r.dir, nil)
	if openErr != nil {
		r.t.Fatalf("open after a fault at step %d (%v): %v", step, err, openErr)
	}
	r.b = b
	if err == nil || bytes.Equal(b.Data(), c.data) {
		r.now = r.now.clone()
		r.now.apply(c)
	}
	r.view = r.now
}

func (r *random) load() {
	if len(r.now.areas) > 0 {
		if l, err := r.b.Load(); err == nil {
			l.Abort()
			r.t.Fatal("a load into a backend with rows was not refused")
		}
		return
	}
	l, err := r.b.Load()
	if err != nil {
		r.t.Fatalf("load: %v", err)
	}
	m := newModel()
	for range rapid.IntRange(0, 5).Draw(r.t, "loads") {
		a := r.area()
		for _, row := range r.rows(m, a) {
			if err := loadRow(l, a, row.Key, row.Value); err != nil {
				r.t.Fatalf("load a row: %v", err)
			}
			m.put(a, row.Key, row.Value)
		}
	}
	if rapid.IntRange(0, 3).Draw(r.t, "abort") == 0 {
		if err := l.Abort(); err != nil {
			r.t.Fatalf("abort a load: %v", err)
		}
		return
	}
	m.data = []byte("loaded")
	if err := l.Finish(m.data); err != nil {
		r.t.Fatalf("finish a load: %v", err)
	}
	r.now, r.view = m, m
}

func loadRow(l state.Loader, a area, key, value []byte) error {
	if a.segment {
		return l.(state.SegmentLoader).PutSegment(state.Segment{Slot: a.slot, Number: a.number}, key, value)
	}
	return l.Put(a.slot, key, value)
}
