package badgerstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/kolkstreams/kolk/internal/state"
)

// listed is the keys whose deletes linger.
func listed(s *Store) (keys []string) {
	it := s.db.NewTransactionAt(s.rec.number, false).NewIterator(badger.IteratorOptions{Prefix: gonePrefix})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		_, _, key := splitKey(it.Item().Key()[len(gonePrefix):])
		keys = append(keys, string(key))
	}
	return keys
}

// Rows with values outside of the tables that are deleted stay deleted, whatever the collection of those values moves: it used to bring some of them back.
func TestDeletedValuesStayGone(t *testing.T) {
	cfg := testConfig()
	cfg.valueLog = 1 << 20
	moved := 0
	cfg.fault = func(step string) error {
		if step == "values moved" {
			moved++
		}
		return nil
	}
	dir := t.TempDir()
	s := open(t, dir, cfg)
	defer func() { closeStore(t, s, true) }()
	rng := rand.New(rand.NewPCG(3, 3))
	want := map[string]string{}
	for turn := range 300 {
		var rows []state.Row
		for i := range 300 {
			r := state.Row{Key: fmt.Appendf(nil, "key%05d", i*10+rng.IntN(10))}
			if rng.IntN(2) > 0 {
				value := fmt.Sprint("turn ", turn)
				if rng.IntN(20) == 0 {
					value = string(bytes.Repeat([]byte{byte('a' + turn%26)}, 100_000))
				}
				r.Value = []byte(value)
				want[string(r.Key)] = value
			} else {
				delete(want, string(r.Key))
			}
			rows = append(rows, r)
		}
		apply(t, s, "x", rows)
		if turn%5 > 0 {
			continue
		}
		closeStore(t, s, turn%2 == 0) // what is in memory gets into tables, and those are merged
		s = open(t, dir, cfg)
		n, size := int64(0), int64(0)
		if err := s.Scan(1, nil, nil, turn%20 == 0, func(key, value []byte) bool {
			n++
			size += int64(len(key) + len(value))
			if v, ok := want[string(key)]; !ok || v != string(value) {
				t.Fatalf("turn %d: %s has %d bytes %.9q, want %.9q, %t", turn, key, len(value), value, v, ok)
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if rows, bytes := s.Count(1); n != int64(len(want)) || rows != n || bytes != size {
			t.Fatalf("turn %d: %d rows of %d bytes, counted %d of %d, want %d", turn, n, size, rows, bytes, len(want))
		}
	}
	if moved == 0 {
		t.Error("no values were moved")
	}
}

// The delete of such a row is a row of its own, which nobody sees, until the tables have nothing left that could come back.
func TestDeletesLinger(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, testConfig())
	large := bytes.Repeat([]byte("x"), 100_000)
	one := func(key string, value []byte) { apply(t, s, "x", []state.Row{{Key: []byte(key), Value: value}}) }
	check := func(want string, lingering ...string) {
		t.Helper()
		var got []string
		for _, reverse := range []bool{false, true} {
			if err := s.Scan(1, nil, nil, reverse, func(key, value []byte) bool {
				got = append(got, fmt.Sprintf("%s:%d", key, len(value)))
				return true
			}); err != nil {
				t.Fatal(err)
			}
		}
		if n, _ := s.Count(1); fmt.Sprint(got) != want || 2*n != int64(len(got)) {
			t.Errorf("the store has %v and counts %d, want %s", got, n, want)
		}
		if fmt.Sprint(listed(s)) != fmt.Sprint(lingering) {
			t.Errorf("deletes of %q linger, want %q", listed(s), lingering)
		}
	}
	one("small", []byte("x"))
	one("small", nil)
	check("[]")
	one("a", large)
	one("b", large)
	one("c", []byte("x"))
	one("a", []byte("small")) // its large value is still there
	one("a", nil)
	one("c", nil)
	check("[b:100000 b:100000]", "a")
	if v, ok, err := s.Get(1, []byte("a"), nil); ok || len(v) > 0 || err != nil {
		t.Errorf("a is %q, %t, %v", v, ok, err)
	}
	rows := numbered(0, 3000, "many") // not in one transaction
	rows = append([]state.Row{{Key: []byte("a"), Value: []byte("y")}, {Key: []byte("b")}}, rows...)
	apply(t, s, "x", rows)
	one("a", nil)
	rows = append([]state.Row{{Key: []byte("a")}}, numbered(0, 3000, "")...)
	apply(t, s, "x", rows)
	check("[]", "a", "b")
	closeStore(t, s, true)

	s = open(t, dir, testConfig())
	check("[]", "a", "b")
	if !s.values {
		t.Error("after a start nothing is known of values outside the tables")
	}
	// Once a merge has dropped the values, the deletes are dropped too.
	for range 2 { // the first merge makes a level, and drops nothing
		for range 7 { // tables side by side, as many as are merged
			one("other", []byte("z"))
			closeStore(t, s, true)
			s = open(t, dir, testConfig())
		}
		if err := s.db.Flatten(1); err != nil {
			t.Fatal(err)
		}
		one("other", []byte("zz"))
	}
	check("[other:2 other:2]")
	closeStore(t, s, true)
}

// A store without large values looks for none at any delete.
func TestHasValues(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, testConfig())
	apply(t, s, "x", numbered(0, 100, "x"))
	if s.values {
		t.Error("small values are in the tables")
	}
	closeStore(t, s, true)
	s = open(t, dir, testConfig())
	if s.values {
		t.Error("after a start small values are taken for others")
	}
	closeStore(t, s, true)
}

// A checkpoint of few rows with long keys, all of which are deletes that linger, does not fit into one transaction, nor does what is dropped of them later.
func TestDeletesLingerWithLongKeys(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, testConfig())
	large := bytes.Repeat([]byte("x"), 100_000)
	var rows []state.Row
	for i := range 20 {
		rows = append(rows, state.Row{Key: append(fmt.Appendf(nil, "%05d", i), bytes.Repeat([]byte("k"), 4000)...), Value: large})
	}
	apply(t, s, "x", rows)
	for i := range rows {
		rows[i].Value = nil
	}
	apply(t, s, "x", rows)
	if n := len(listed(s)); n != len(rows) {
		t.Errorf("%d deletes linger", n)
	}
	for round := 0; len(listed(s)) > 0; round++ {
		if round == 40 {
			t.Fatalf("%d deletes still linger", len(listed(s)))
		}
		apply(t, s, "x", numbered(0, 1, fmt.Sprint(round)))
		closeStore(t, s, true)
		s = open(t, dir, testConfig())
		if err := s.db.Flatten(1); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s, true)
}
