package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
)

func mustOpen(t *testing.T, open OpenBackend, dir string) state.Backend {
	t.Helper()
	b, err := open(dir, nil)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return b
}

func mustApply(t *testing.T, b state.Backend, m *model, c checkpoint) {
	t.Helper()
	if err := c.applyTo(b); err != nil {
		t.Fatalf("apply: %v", err)
	}
	b.Switch()
	m.apply(c)
}

func mustEqual(t *testing.T, b state.Backend, m *model) {
	t.Helper()
	if err := m.compare(b, backendSlots, backendKeys); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Data(), m.data) {
		t.Fatalf("data %q, want %q", b.Data(), m.data)
	}
}

func mustClose(t *testing.T, b state.Backend, clean bool) {
	t.Helper()
	if err := b.Close(clean); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// backendBounds scans every pair of bounds, both ways, of neighbours that must not show through.
func backendBounds(t *testing.T, open OpenBackend) {
	b := mustOpen(t, open, t.TempDir())
	defer b.Close(false)
	m := newModel()
	c := checkpoint{data: []byte("bounds")}
	_, segmented := b.(state.Segmented)
	var all []state.Row
	sorted := newModel()
	for _, k := range backendKeys {
		sorted.put(area{}, k, []byte{})
	}
	for i, k := range sorted.scan(area{}, nil, nil, false) {
		all = append(all, state.Row{Key: []byte(k), Value: fmt.Appendf(nil, "v%d", i)})
	}
	for _, slot := range []uint16{0, 1, 2, 0xffff} {
		c.batches = append(c.batches, state.Batch{Slot: slot, Rows: all})
		if segmented {
			for _, n := range []int64{-1, 0, 1} {
				c.segments = append(c.segments, state.SegmentBatch{Segment: state.Segment{Slot: slot, Number: n}, Rows: all})
			}
		}
	}
	mustApply(t, b, m, c)
	mustEqual(t, b, m)
	bounds := append([][]byte{nil}, backendKeys...)
	areas := []area{{slot: 0}, {slot: 1}, {slot: 0xffff}}
	if segmented {
		areas = append(areas, area{slot: 1, segment: true, number: -1}, area{slot: 1, segment: true, number: 0})
	}
	for _, a := range areas {
		for _, from := range bounds {
			for _, to := range bounds {
				for _, reverse := range []bool{false, true} {
					if err := m.compareScan(b, a, from, to, reverse); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	// A scan ends when told to, and what it visits may read.
	visits := 0
	err := b.Scan(1, nil, nil, true, func(key, value []byte) bool {
		got, ok, err := b.Get(1, key, nil)
		if err != nil || !ok || !bytes.Equal(got, value) {
			t.Errorf("get %q within a scan: %q, %v, %v; want %q", key, got, ok, err, value)
		}
		visits++
		return visits < 3
	})
	if err != nil || visits != 3 {
		t.Fatalf("a scan that was told to end after 3 rows: %d, %v", visits, err)
	}
}

// backendLarge has rows at and over the sizes at which backends change their ways.
func backendLarge(t *testing.T, open OpenBackend) {
	dir := t.TempDir()
	b := mustOpen(t, open, dir)
	defer func() { b.Close(false) }()
	m := newModel()
	value := func(n int, seed byte) []byte {
		v := make([]byte, n)
		for i := range v {
			v[i] = byte(i)*7 + seed
		}
		return v
	}
	rows := []state.Row{{Key: bytes.Repeat([]byte{7}, state.MaxKey), Value: value(100, 1)}}
	for i, n := range []int{60 << 10, 64<<10 - 1, 64 << 10, 90 << 10, 160 << 10, 1<<20 - 1, 1 << 20, 1<<20 + 1, 3 << 20} {
		rows = append(rows, state.Row{Key: fmt.Appendf(nil, "large%d", i), Value: value(n, byte(i))})
	}
	mustApply(t, b, m, checkpoint{batches: []state.Batch{{Slot: 1, Rows: rows}}, data: bytes.Repeat([]byte("d"), 100_000)})
	mustEqual(t, b, m)
	// Overwritten, deleted and put again, without being known, so that the backend must find out how long they were.
	for turn := range byte(6) {
		var again []state.Row
		for i, r := range rows {
			switch (i + int(turn)) % 3 {
			case 0:
				again = append(again, state.Row{Key: r.Key})
			case 1:
				again = append(again, state.Row{Key: r.Key, Value: value(len(r.Value)-int(turn), turn)})
			}
		}
		mustApply(t, b, m, checkpoint{batches: []state.Batch{{Slot: 1, Rows: again}}, data: []byte{turn}})
		mustEqual(t, b, m)
	}
	mustClose(t, b, true)
	b = mustOpen(t, open, dir)
	mustEqual(t, b, m)
}

func backendRefused(t *testing.T, open OpenBackend) {
	long := bytes.Repeat([]byte{1}, state.MaxKey+1)
	for name, rows := range map[string][]state.Row{
		"a key that is too long":   {{Key: long, Value: []byte{1}}},
		"a value that is too long": {{Key: []byte("a"), Value: make([]byte, state.MaxValue+1)}},
		"rows out of order":        {{Key: []byte("b"), Value: []byte{1}}, {Key: []byte("a"), Value: []byte{1}}},
		"a key twice":              {{Key: []byte("b"), Value: []byte{1}}, {Key: []byte("b"), Value: []byte{1}}},
	} {
		dir := t.TempDir()
		b := mustOpen(t, open, dir)
		m := newModel()
		mustApply(t, b, m, checkpoint{batches: []state.Batch{{Slot: 1, Rows: []state.Row{{Key: []byte("k"), Value: []byte{2}}}}}, data: []byte("1")})
		err := b.Apply([]state.Batch{{Slot: 0, Rows: []state.Row{{Key: []byte("x"), Value: []byte{1}}}}, {Slot: 2, Rows: rows}}, []byte("2"))
		if err == nil {
			t.Errorf("%s was not refused", name)
		}
		if tooLarge := len(rows) == 1; tooLarge != errors.Is(err, state.ErrTooLarge) {
			t.Errorf("%s: error %v", name, err)
		}
		if err := b.Apply(nil, []byte("3")); err == nil {
			t.Errorf("%s: an apply after an error was not refused", name)
		}
		mustClose(t, b, true)
		b = mustOpen(t, open, dir)
		mustEqual(t, b, m)
		mustClose(t, b, true)
	}
}

// history is a row of checkpoints: small and large ones, overwrites, deletes and new ones, segments that grow, are dropped and begun anew.
func history(segmented bool) []checkpoint {
	rng := rand.New(rand.NewPCG(1, 2))
	m := newModel()
	var list []checkpoint
	for turn, size := range []int{20, 1200, 40, 900, 1300} {
		c := checkpoint{data: fmt.Appendf(nil, "turn %d", turn)}
		rows := func(a area, n int) []state.Row {
			picked := newModel()
			for range n {
				picked.put(a, fmt.Appendf(nil, "key%04d", rng.IntN(2000)), []byte{})
			}
			var rows []state.Row
			for i, k := range picked.scan(a, nil, nil, false) {
				r := state.Row{Key: []byte(k)}
				if rng.IntN(4) > 0 {
					r.Value = fmt.Appendf(nil, "value of %d at turn %d", i, turn)
				}
				if rng.IntN(2) == 0 {
					r.Known, r.Was = true, m.was(a, r.Key)
				}
				rows = append(rows, r)
			}
			return rows
		}
		if segmented {
			for _, n := range []int64{int64(turn) - 2, int64(turn) - 1} {
				c.drop = append(c.drop, state.Segment{Slot: 2, Number: n})
				delete(m.areas, area{slot: 2, segment: true, number: n})
			}
			for _, n := range []int64{int64(turn) - 1, int64(turn), int64(turn) + 1} {
				c.segments = append(c.segments, state.SegmentBatch{Segment: state.Segment{Slot: 2, Number: n},
					Rows: rows(area{slot: 2, segment: true, number: n}, size)})
			}
		}
		c.batches = []state.Batch{{Slot: 0, Rows: rows(area{}, size)}, {Slot: 2, Rows: rows(area{slot: 2}, size/2)}}
		m.apply(c)
		list = append(list, c)
	}
	return list
}

// backendCrash lets each checkpoint of a history fail at each of its steps, the undo at the next open included.
func backendCrash(t *testing.T, open OpenBackend) {
	dir := t.TempDir()
	b := mustOpen(t, open, dir)
	defer func() { b.Close(false) }()
	_, segmented := b.(state.Segmented)
	m := newModel()
	for turn, c := range history(segmented) {
		for step := 0; ; step++ {
			mustClose(t, b, false)
			var fired bool
			armed, at := false, failAt(step, &fired)
			var err error
			b, err = open(dir, func(s string) error {
				if !armed {
					return nil
				}
				return at(s)
			})
			if err != nil {
				t.Fatalf("checkpoint %d, step %d: open: %v", turn, step, err)
			}
			armed = true
			err = c.applyTo(b)
			armed = false
			if fired != errors.Is(err, errFault) {
				t.Fatalf("checkpoint %d, step %d: the fault fired: %v, apply: %v", turn, step, fired, err)
			}
			mustClose(t, b, false)
			// The process dies in the recovery too, a step later each time.
			fired = false
			b, err = open(dir, failAt(step%7, &fired))
			if err != nil && !errors.Is(err, errFault) {
				t.Fatalf("checkpoint %d, step %d, open that fails at step %d: %v", turn, step, step%7, err)
			}
			if err == nil {
				mustClose(t, b, false)
			}
			b = mustOpen(t, open, dir)
			if bytes.Equal(b.Data(), c.data) {
				m.apply(c)
				mustEqual(t, b, m)
				break
			}
			mustEqual(t, b, m)
		}
	}
}

// backendLoadCrash lets a load fail at each of its steps.
func backendLoadCrash(t *testing.T, open OpenBackend) {
	probe := mustOpen(t, open, t.TempDir())
	_, segmented := probe.(state.Segmented)
	mustClose(t, probe, true)
	for step := 0; ; step++ {
		dir := t.TempDir()
		var fired bool
		armed, at := false, failAt(step, &fired)
		b, err := open(dir, func(s string) error {
			if !armed {
				return nil
			}
			return at(s)
		})
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		armed = true
		m, err := loadHistory(b, segmented)
		armed = false
		mustClose(t, b, err == nil)
		if fired != errors.Is(err, errFault) {
			t.Fatalf("step %d: the fault fired: %v, load: %v", step, fired, err)
		}
		b = mustOpen(t, open, dir)
		if b.Data() == nil {
			mustEqual(t, b, newModel())
		} else {
			mustEqual(t, b, m)
		}
		mustClose(t, b, true)
		if !fired {
			return
		}
	}
}

// loadHistory loads what the checkpoints of history lead to, row by row.
func loadHistory(b state.Backend, segmented bool) (*model, error) {
	m := newModel()
	l, err := b.Load()
	if err != nil {
		return m, err
	}
	for _, c := range history(segmented) {
		// A load knows no drops: the changelog has a delete for each row of a dropped segment, or the topic's retention took them.
		for _, s := range c.drop {
			a := area{slot: s.Slot, segment: true, number: s.Number}
			for _, k := range m.scan(a, nil, nil, false) {
				if err := loadRow(l, a, []byte(k), nil); err != nil {
					return m, errors.Join(err, l.Abort())
				}
			}
		}
		m.apply(c)
		for _, batch := range c.batches {
			for _, r := range batch.Rows {
				if err := l.Put(batch.Slot, r.Key, r.Value); err != nil {
					return m, errors.Join(err, l.Abort())
				}
			}
		}
		for _, batch := range c.segments {
			for _, r := range batch.Rows {
				if err := l.(state.SegmentLoader).PutSegment(batch.Segment, r.Key, r.Value); err != nil {
					return m, errors.Join(err, l.Abort())
				}
			}
		}
	}
	return m, l.Finish(m.data)
}

// backendLoad checks that a load and the checkpoints that lead to the same rows are one.
func backendLoad(t *testing.T, open OpenBackend) {
	loadedDir, appliedDir := t.TempDir(), t.TempDir()
	loaded, applied := mustOpen(t, open, loadedDir), mustOpen(t, open, appliedDir)
	defer func() { loaded.Close(false); applied.Close(false) }()
	_, segmented := loaded.(state.Segmented)
	want, err := loadHistory(loaded, segmented)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	mustEqual(t, loaded, want) // visible without Switch
	m := newModel()
	for _, c := range history(segmented) {
		mustApply(t, applied, m, c)
	}
	mustEqual(t, applied, m)
	mustEqual(t, applied, want)
	// And both go on from there alike, also after they were opened again.
	mustClose(t, loaded, true)
	loaded = mustOpen(t, open, loadedDir)
	mustEqual(t, loaded, want)
	more := checkpoint{data: []byte("more"), batches: []state.Batch{{Slot: 0, Rows: []state.Row{{Key: []byte("key0001")}, {Key: []byte("key9"), Value: []byte{}}}}}}
	if segmented {
		more.drop = []state.Segment{{Slot: 2, Number: 5}}
	}
	mustApply(t, loaded, want, more)
	mustApply(t, applied, m, more)
	mustEqual(t, loaded, m)
	mustEqual(t, applied, m)
}

// backendBeside reads as of the last Switch while the next checkpoints are written.
func backendBeside(t *testing.T, open OpenBackend) {
	b := mustOpen(t, open, t.TempDir())
	defer func() { b.Close(false) }()
	_, segmented := b.(state.Segmented)
	m := newModel()
	for _, c := range history(segmented) {
		done := make(chan error, 1)
		go func() { done <- c.applyTo(b) }()
		for waiting := true; waiting; {
			select {
			case err := <-done:
				if err != nil {
					t.Fatalf("apply: %v", err)
				}
				waiting = false
			default:
			}
			if err := m.compare(b, backendSlots, backendKeys); err != nil {
				t.Fatalf("beside an apply: %v", err)
			}
		}
		b.Switch()
		m.apply(c)
		mustEqual(t, b, m)
	}
}
