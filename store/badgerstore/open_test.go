package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
)

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, testConfig())
	for name, try := range map[string]func() error{
		"open":   func() error { _, err := Open(dir, testConfig()); return err },
		"wipe":   func() error { return Wipe(dir) },
		"remove": func() error { return Remove(dir) },
	} {
		err := try()
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
			t.Errorf("%s of a directory that is open: %v", name, err)
		}
	}
	closeStore(t, s, true)
	s = open(t, dir, testConfig())
	closeStore(t, s, true)
}

func TestWipeAndRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "task", "0_1")
	s := open(t, dir, testConfig())
	apply(t, s, "1", numbered(0, 10, "one"))
	closeStore(t, s, true)
	if err := Wipe(dir); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, testConfig())
	if s.Data() != nil || s.Opened().Wiped {
		t.Fatalf("after Wipe: data %q, %+v", s.Data(), s.Opened())
	}
	closeStore(t, s, true)
	for range 2 { // the second finds nothing to do
		if err := Remove(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Fatalf("after Remove: %v", err)
		}
	}
}

func TestDirectoryCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(file, "state")
	_, err := Open(dir, testConfig())
	if err == nil || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("open below a file: %v", err)
	}
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	free := int64(1 << 40)
	cfg := testConfig()
	cfg.free = func(string) (int64, error) { return free, nil }
	s := open(t, dir, cfg)
	apply(t, s, "1", numbered(0, 2000, "one"))
	free = defaultMinFree + 1000
	err := s.Apply([]state.Batch{{Slot: 1, Rows: numbered(0, 2000, "two")}}, nil)
	if !errors.Is(err, ErrDiskFull) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), fmt.Sprint(free)) {
		t.Fatalf("apply on a full disk: %v", err)
	}
	closeStore(t, s, false)
	free = defaultMinFree - 1
	if _, err := Open(dir, cfg); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("open on a full disk: %v", err)
	}
	cfg.MinFree = -1
	s = open(t, dir, cfg)
	wantValues(t, s, map[string]int{"one": 2000})
	closeStore(t, s, true)
}

func TestDamage(t *testing.T) {
	each := func(t *testing.T, dir, pattern string, change func(path string) error) {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, name := range names {
			if err := change(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	flip := func(at func(size int64) int64) func(string) error {
		return func(path string) error {
			b, err := os.ReadFile(path)
			if err == nil {
				b[at(int64(len(b)))] ^= 0x55
				err = os.WriteFile(path, b, 0o666)
			}
			return err
		}
	}
	for name, damage := range map[string]func(t *testing.T, dir string){
		"a table is missing": func(t *testing.T, dir string) { each(t, dir, "rows/*.sst", os.Remove) },
		"a table is cut": func(t *testing.T, dir string) {
			each(t, dir, "rows/*.sst", func(p string) error { return os.Truncate(p, 100) })
		},
		"a table is empty": func(t *testing.T, dir string) {
			each(t, dir, "rows/*.sst", func(p string) error { return os.Truncate(p, 0) })
		},
		"a bit of a table":         func(t *testing.T, dir string) { each(t, dir, "rows/*.sst", flip(func(n int64) int64 { return n / 3 })) },
		"the manifest's beginning": func(t *testing.T, dir string) { each(t, dir, "rows/MANIFEST", flip(func(int64) int64 { return 1 })) },
		"the manifest in between": func(t *testing.T, dir string) {
			each(t, dir, "rows/MANIFEST", flip(func(n int64) int64 { return n / 2 }))
		},
		"a segment is missing":      func(t *testing.T, dir string) { each(t, dir, "segments/*", os.RemoveAll) },
		"a segment's table is gone": func(t *testing.T, dir string) { each(t, dir, "segments/*/*.sst", os.Remove) },
		"the record": func(t *testing.T, dir string) {
			db, err := openDB(testConfig().withDefaults().badgerOptions(filepath.Join(dir, rowsName), 1<<20, 0))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(writeRecord(db, db.MaxVersion()+1, []byte("nonsense")), db.Close()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := testConfig()
			cfg.Verify = true
			s := open(t, dir, cfg)
			err := s.ApplySegments([]state.Batch{{Slot: 1, Rows: numbered(0, 5000, "one")}},
				[]state.SegmentBatch{{Segment: state.Segment{Slot: 1, Number: 7}, Rows: numbered(0, 5000, "one")}}, nil, []byte("1"))
			if err != nil {
				t.Fatal(err)
			}
			closeStore(t, s, true)
			damage(t, dir)
			s, err = Open(dir, cfg)
			if err == nil { // segments are opened when they are asked for
				_, _, err = s.GetSegment(state.Segment{Slot: 1, Number: 7}, []byte("key000001"), nil)
				s.Close(false)
			}
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("open: %v", err)
			}
			if err := Wipe(dir); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, cfg)
			wantValues(t, s, map[string]int{})
			closeStore(t, s, true)
		})
	}
}

func TestUseAfterClose(t *testing.T) {
	s := open(t, t.TempDir(), testConfig())
	apply(t, s, "1", numbered(0, 10, "one"))
	closeStore(t, s, true)
	closeStore(t, s, true)
	if _, _, err := s.Get(1, []byte("key000000"), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("get: %v", err)
	}
	if err := s.Scan(1, nil, nil, false, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("scan: %v", err)
	}
	if err := s.Apply(nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("apply: %v", err)
	}
	if _, err := s.Load(); !errors.Is(err, ErrClosed) {
		t.Errorf("load: %v", err)
	}
	s.Switch()
}

// TestMemtableShrinks reopens a killed store with less memory: Badger would end the process if it got it.
func TestMemtableShrinks(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig()
	cfg.memtable = 8 << 20
	s := open(t, dir, cfg)
	apply(t, s, "1", numbered(0, 50_000, "one"))
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil { // what a killed process leaves: its log is not yet a table
		t.Fatal(err)
	}
	closeStore(t, s, true)
	cfg.memtable = 1 << 20
	s = open(t, copied, cfg)
	if got := s.db.Opts().MemTableSize; got != 8<<20 {
		t.Errorf("memtable of %d bytes after a kill", got)
	}
	wantValues(t, s, map[string]int{"one": 50_000})
	closeStore(t, s, true)
	s = open(t, copied, cfg)
	if got := s.db.Opts().MemTableSize; got != 1<<20 {
		t.Errorf("memtable of %d bytes after a clean close", got)
	}
	wantValues(t, s, map[string]int{"one": 50_000})
	closeStore(t, s, true)
}

// TestValueLogIsCleaned overwrites large values until their old ones would fill many files.
func TestValueLogIsCleaned(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig()
	cfg.valueLog = 1 << 20
	s := open(t, dir, cfg)
	value := func(key, turn int) []byte { return bytes.Repeat([]byte{byte(key), byte(turn)}, 50_000) }
	const turns = 60
	for turn := range turns {
		rows := numbered(turn*1000, 1000, "filler")
		for k := range 8 {
			rows = append(rows, state.Row{Key: fmt.Appendf(nil, "large%d", k), Value: value(k, turn)})
		}
		apply(t, s, "1", rows)
		if err := s.db.Flatten(2); err != nil {
			t.Fatal(err)
		}
		for k := range 8 {
			if v, ok, err := s.Get(1, fmt.Appendf(nil, "large%d", k), nil); err != nil || !ok || !bytes.Equal(v, value(k, turn)) {
				t.Fatalf("turn %d: key %d: %d bytes, %v, %v", turn, k, len(v), ok, err)
			}
		}
	}
	s.background.Wait()
	names, err := filepath.Glob(filepath.Join(dir, rowsName, "*.vlog"))
	if err != nil || len(names) > turns*3/4 {
		t.Errorf("%d value log files after %d turns of 0.8 MB each (%v)", len(names), turns, err)
	}
	closeStore(t, s, true)
	s = open(t, dir, cfg)
	for k := range 8 {
		if v, ok, err := s.Get(1, fmt.Appendf(nil, "large%d", k), nil); err != nil || !ok || !bytes.Equal(v, value(k, turns-1)) {
			t.Fatalf("key %d after a reopen: %d bytes, %v, %v", k, len(v), ok, err)
		}
	}
	closeStore(t, s, true)
}
