package badgerstore

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
)

func segment(n int64, rows []state.Row) state.SegmentBatch {
	return state.SegmentBatch{Segment: state.Segment{Slot: 1, Number: n}, Rows: rows}
}

func applySegments(t *testing.T, s *Store, segments []state.SegmentBatch, drop ...state.Segment) {
	t.Helper()
	if err := s.ApplySegments(nil, segments, drop, []byte("x")); err != nil {
		t.Fatal(err)
	}
}

func directories(t *testing.T, s *Store) []string {
	t.Helper()
	s.background.Wait()
	entries, err := os.ReadDir(filepath.Join(s.dir, segmentsName))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSegmentMovesWhenItIsLarge(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, testConfig())
	applySegments(t, s, []state.SegmentBatch{segment(3, numbered(0, 500, "one"))})
	s.Switch()
	if got := directories(t, s); len(got) != 0 {
		t.Fatalf("a small segment has a directory: %v", got)
	}
	applySegments(t, s, []state.SegmentBatch{segment(3, numbered(400, 500, "two"))})
	s.Switch()
	if got := directories(t, s); len(got) != 1 {
		t.Fatalf("a large segment has no directory: %v", got)
	}
	inTask := 0
	if err := scan(s.view.Load().txn, segmentPrefix(nil, state.Segment{Slot: 1, Number: 3}), nil, nil, false, func(_, _ []byte) bool { inTask++; return true }); err != nil {
		t.Fatal(err)
	}
	if inTask != 0 {
		t.Errorf("%d rows stayed in the task's database", inTask)
	}
	check := func() {
		t.Helper()
		values := map[string]int{}
		if err := s.ScanSegment(state.Segment{Slot: 1, Number: 3}, nil, nil, false, func(_, v []byte) bool { values[string(v)]++; return true }); err != nil {
			t.Fatal(err)
		}
		if n, _ := s.Count(1); n != 900 || values["one"] != 400 || values["two"] != 500 {
			t.Fatalf("count %d, rows by value %v", n, values)
		}
	}
	check()
	closeStore(t, s, false)
	s = open(t, dir, testConfig())
	check()
	closeStore(t, s, true)
}

func TestDroppedSegmentGoesAtSwitch(t *testing.T) {
	s := open(t, t.TempDir(), testConfig())
	seg := state.Segment{Slot: 1, Number: 3}
	applySegments(t, s, []state.SegmentBatch{segment(3, numbered(0, 1000, "one"))})
	s.Switch()
	applySegments(t, s, nil, seg)
	if got := directories(t, s); len(got) != 1 {
		t.Fatalf("gone before the reads were switched: %v", got)
	}
	if v, ok, err := s.GetSegment(seg, []byte("key000007"), nil); err != nil || !ok || string(v) != "one" {
		t.Fatalf("before Switch: %q, %v, %v", v, ok, err)
	}
	// Begun anew before the old one is gone.
	applySegments(t, s, []state.SegmentBatch{segment(3, numbered(0, 1000, "two"))})
	if got := directories(t, s); len(got) != 2 {
		t.Fatalf("directories %v, want the old and the new one", got)
	}
	s.Switch()
	if got := directories(t, s); len(got) != 1 {
		t.Fatalf("after Switch: %v", got)
	}
	if v, ok, err := s.GetSegment(seg, []byte("key000007"), nil); err != nil || !ok || string(v) != "two" {
		t.Fatalf("after Switch: %q, %v, %v", v, ok, err)
	}
	// The last row's delete ends it, too.
	applySegments(t, s, []state.SegmentBatch{segment(3, numbered(0, 1000, ""))})
	s.Switch()
	if got := directories(t, s); len(got) != 0 || len(s.Segments(1)) != 0 {
		t.Fatalf("emptied: directories %v, segments %v", got, s.Segments(1))
	}
	closeStore(t, s, true)
}

func TestOnlySoManySegmentsAreOpen(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig()
	cfg.OpenSegments = 3
	s := open(t, dir, cfg)
	var all []state.SegmentBatch
	for n := range int64(8) {
		all = append(all, segment(n-4, numbered(0, 700, fmt.Sprint("of ", n-4))))
	}
	applySegments(t, s, all)
	s.Switch()
	check := func() {
		t.Helper()
		for _, n := range []int64{-4, 3, -3, 2, -2, 1, -1, 0, -4} {
			v, ok, err := s.GetSegment(state.Segment{Slot: 1, Number: n}, []byte("key000007"), nil)
			if err != nil || !ok || string(v) != fmt.Sprint("of ", n) {
				t.Fatalf("segment %d: %q, %v, %v", n, v, ok, err)
			}
			if got := len(s.segs.open); got > 3 {
				t.Fatalf("%d segments are open", got)
			}
		}
		if got, want := s.Segments(1), []int64{-4, -3, -2, -1, 0, 1, 2, 3}; !slices.Equal(got, want) {
			t.Fatalf("segments %v", got)
		}
	}
	check()
	closeStore(t, s, false)
	s = open(t, dir, cfg)
	check()
	closeStore(t, s, true)
}

func TestUnlistedDirectoriesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, testConfig())
	applySegments(t, s, []state.SegmentBatch{segment(3, numbered(0, 1000, "one"))})
	kept := directories(t, s)
	closeStore(t, s, true)
	for _, name := range []string{"1_3_99", "nonsense"} {
		if err := os.MkdirAll(filepath.Join(dir, segmentsName, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir, testConfig())
	if got := directories(t, s); !slices.Equal(got, kept) {
		t.Fatalf("directories %v, want %v", got, kept)
	}
	closeStore(t, s, true)
}
