package badgerstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
)

var errDied = errors.New("died")

func open(t *testing.T, dir string, cfg Config) *Store {
	t.Helper()
	s, err := Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t *testing.T, s *Store, clean bool) {
	t.Helper()
	if err := s.Close(clean); err != nil {
		t.Fatal(err)
	}
}

// numbered are rows key000000 up, of n keys from first on; a nil-valued one for a value of "".
func numbered(first, n int, value string) []state.Row {
	rows := make([]state.Row, n)
	for i := range rows {
		rows[i].Key = fmt.Appendf(nil, "key%06d", first+i)
		if value != "" {
			rows[i].Value = []byte(value)
		}
	}
	return rows
}

func apply(t *testing.T, s *Store, data string, rows []state.Row) {
	t.Helper()
	if err := s.Apply([]state.Batch{{Slot: 1, Rows: rows}}, []byte(data)); err != nil {
		t.Fatal(err)
	}
	s.Switch()
}

// wantValues checks the number of rows by counting, by scanning, and by value.
func wantValues(t *testing.T, s *Store, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	n, size := int64(0), int64(0)
	if err := s.Scan(1, nil, nil, false, func(key, value []byte) bool {
		got[string(value)]++
		n, size = n+1, size+int64(len(key)+len(value))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("rows by value: %v, want %v", got, want)
	}
	if rows, bytes := s.Count(1); rows != n || bytes != size {
		t.Fatalf("counts %d rows of %d bytes, has %d of %d", rows, bytes, n, size)
	}
}

// tear applies rows and dies before the given step. It compacts all that was written before it leaves, as a busy store would.
func tear(t *testing.T, dir, step string, rows []state.Row) {
	t.Helper()
	cfg := testConfig()
	cfg.fault = func(at string) error {
		if at == step {
			return errDied
		}
		return nil
	}
	s := open(t, dir, cfg)
	if err := s.Apply([]state.Batch{{Slot: 1, Rows: rows}}, []byte("torn")); !errors.Is(err, errDied) {
		t.Fatalf("apply: %v", err)
	}
	if err := s.db.Flatten(2); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s, true) // which must not be believed
}

func TestTornApplyIsUndone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, testConfig())
	apply(t, s, "1", numbered(0, 5000, "one"))
	number := s.rec.number
	closeStore(t, s, true)

	for try := range 3 { // a second and a third try must not mix with the first
		tear(t, dir, "record", append(numbered(0, 2000, fmt.Sprint("torn", try)), numbered(5000+1000*try, 1500, "new")...))
		s = open(t, dir, testConfig())
		if got := s.Opened(); got.Undone != 3500 || got.Wiped {
			t.Fatalf("opened: %+v, want 3500 rows undone", got)
		}
		if s.rec.number < number+2 {
			t.Fatalf("checkpoint %d after a torn one of number %d: a number was used twice", s.rec.number, number+1)
		}
		number = s.rec.number
		if string(s.Data()) != "1" {
			t.Fatalf("data %q", s.Data())
		}
		wantValues(t, s, map[string]int{"one": 5000})
		closeStore(t, s, false)
	}

	s = open(t, dir, testConfig())
	if got := s.Opened(); got.Undone != 0 {
		t.Fatalf("opened: %+v, want nothing undone twice", got)
	}
	closeStore(t, s, true)
}

// TestReplayInParts replays a torn checkpoint in smaller ones, whose rows nobody knows. A row of the torn one that showed through would be
// taken for one that is there.
func TestReplayInParts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, testConfig())
	apply(t, s, "1", numbered(0, 100, "one"))
	closeStore(t, s, true)
	tear(t, dir, "record", numbered(50, 3000, "two"))
	s = open(t, dir, testConfig())
	for first := 50; first < 3050; first += 600 {
		apply(t, s, fmt.Sprint("replayed to ", first), numbered(first, 600, "two"))
	}
	wantValues(t, s, map[string]int{"one": 50, "two": 3000})
	closeStore(t, s, true)
}

// TestCompactionKeepsTheLastCheckpoint overwrites and deletes rows under a number that never gets its record, and compacts all.
func TestCompactionKeepsTheLastCheckpoint(t *testing.T) {
	torn := append(numbered(0, 20000, ""), numbered(20000, 20000, "torn")...)
	dir := t.TempDir()
	s := open(t, dir, testConfig())
	apply(t, s, "1", numbered(0, 60000, "one"))
	closeStore(t, s, true)
	tear(t, dir, "record", torn)
	s = open(t, dir, testConfig())
	wantValues(t, s, map[string]int{"one": 60000})
	if err := s.db.Flatten(2); err != nil {
		t.Fatal(err)
	}
	wantValues(t, s, map[string]int{"one": 60000})

	// The same between an apply and the switch of the reads.
	if err := s.Apply([]state.Batch{{Slot: 1, Rows: torn}}, []byte("2")); err != nil {
		t.Fatal(err)
	}
	if err := s.db.Flatten(2); err != nil {
		t.Fatal(err)
	}
	wantValues(t, s, map[string]int{"one": 60000})
	s.Switch()
	wantValues(t, s, map[string]int{"one": 20000, "torn": 20000})
	closeStore(t, s, true)

	// The check bites: with a discard mark ahead of the record, compaction takes the last checkpoint's rows.
	dir = t.TempDir()
	s = open(t, dir, testConfig())
	apply(t, s, "1", numbered(0, 60000, "one"))
	s.cfg.fault = func(at string) error {
		if at == "record" {
			s.db.SetDiscardTs(s.last)
			return errDied
		}
		return nil
	}
	if err := s.Apply([]state.Batch{{Slot: 1, Rows: torn}}, nil); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	s.db.Close()
	db, err := openDB(s.cfg.badgerOptions(s.rowsDir(), s.cfg.memtable, 0))
	if err != nil {
		t.Fatal(err)
	}
	db.SetDiscardTs(s.last)
	if err := db.Flatten(2); err != nil {
		t.Fatal(err)
	}
	left := 0
	if err := scan(db.NewTransactionAt(s.rec.number, false), slotPrefix(nil, 1), nil, nil, false, func(_, _ []byte) bool { left++; return true }); err != nil {
		t.Fatal(err)
	}
	if left == 60000 {
		t.Error("a discard mark ahead of the record lost nothing: the test proves nothing")
	}
	db.Close()
	s.lock.Close()
}

// TestDeletedStaysDeleted is for badger issue 2143: deleted keys came back after compactions.
func TestDeletedStaysDeleted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, testConfig())
	apply(t, s, "1", numbered(0, 30000, "one"))
	for i := range 6 {
		apply(t, s, "2", numbered(i*4000, 4000, ""))
		if err := s.db.Flatten(2); err != nil {
			t.Fatal(err)
		}
	}
	wantValues(t, s, map[string]int{"one": 6000})
	closeStore(t, s, true)
	s = open(t, dir, testConfig())
	if err := s.db.Flatten(2); err != nil {
		t.Fatal(err)
	}
	wantValues(t, s, map[string]int{"one": 6000})
	closeStore(t, s, true)
}

// TestEmptyLogFiles is for badger issue 2207: a process killed between making a log file and giving it a size.
func TestEmptyLogFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, testConfig())
	apply(t, s, "1", numbered(0, 5000, "one"))
	closeStore(t, s, false)
	for _, name := range []string{"00990.mem", "000990.vlog"} {
		if err := os.WriteFile(filepath.Join(dir, rowsName, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir, testConfig())
	wantValues(t, s, map[string]int{"one": 5000})
	closeStore(t, s, true)
}

func TestFirstCheckpointTorn(t *testing.T) {
	dir := t.TempDir()
	tear(t, dir, "record", numbered(0, 3000, "torn"))
	s := open(t, dir, testConfig())
	if got := s.Opened(); !got.Wiped || got.Reason == "" {
		t.Fatalf("opened: %+v", got)
	}
	if s.Data() != nil {
		t.Fatalf("data %q", s.Data())
	}
	wantValues(t, s, map[string]int{})
	apply(t, s, "1", numbered(0, 3000, "one"))
	wantValues(t, s, map[string]int{"one": 3000})
	closeStore(t, s, true)
}

func TestMachineCrash(t *testing.T) {
	for _, c := range []struct {
		name        string
		clean       bool
		first, then string
		wiped       bool
	}{
		{"closed clean, same boot", true, "a", "a", false},
		{"closed clean, next boot", true, "a", "b", false},
		{"not closed clean, same boot", false, "a", "a", false},
		{"not closed clean, next boot", false, "a", "b", true},
		{"not closed clean, boots unknown", false, "", "", true},
		{"closed clean, boots unknown", true, "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := testConfig()
			cfg.BootID = func() string { return c.first }
			s := open(t, dir, cfg)
			apply(t, s, "1", numbered(0, 2000, "one"))
			closeStore(t, s, c.clean)
			cfg.BootID = func() string { return c.then }
			s = open(t, dir, cfg)
			if got := s.Opened(); got.Wiped != c.wiped || (got.Reason != "") != c.wiped {
				t.Fatalf("opened: %+v", got)
			}
			want := map[string]int{"one": 2000}
			if c.wiped {
				want = map[string]int{}
			}
			wantValues(t, s, want)
			closeStore(t, s, true)
		})
	}
}

func TestMarkIsUnreadable(t *testing.T) {
	for name, content := range map[string]string{"garbage": "{", "later format": `{"format":3,"state":"CLEAN"}`, "earlier format": `{"format":1,"state":"CLEAN"}`, "empty": ""} {
		dir := t.TempDir()
		s := open(t, dir, testConfig())
		apply(t, s, "1", numbered(0, 10, "one"))
		closeStore(t, s, true)
		if err := os.WriteFile(filepath.Join(dir, markName), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, testConfig())
		if got := s.Opened(); !got.Wiped {
			t.Errorf("%s: opened: %+v", name, got)
		}
		wantValues(t, s, map[string]int{})
		closeStore(t, s, true)
	}
}
