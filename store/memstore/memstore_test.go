package memstore

import (
	"errors"
	"sync"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/storetest"
)

func TestBackend(t *testing.T) {
	var mu sync.Mutex
	disks := map[string]*Disk{}
	storetest.Backend(t, func(dir string, fault func(string) error) (state.Backend, error) {
		mu.Lock()
		defer mu.Unlock()
		if disks[dir] == nil {
			disks[dir] = NewDisk()
		}
		disks[dir].Fault(fault)
		return disks[dir].Open(), nil
	})
}

func batch(keyvalues ...string) []state.Batch {
	b := state.Batch{Slot: 1}
	for i := 0; i < len(keyvalues); i += 2 {
		b.Rows = append(b.Rows, state.Row{Key: []byte(keyvalues[i]), Value: []byte(keyvalues[i+1])})
	}
	return []state.Batch{b}
}

func TestCrashBeforeAndAfterApply(t *testing.T) {
	disk := NewDisk()
	s := disk.Open()
	if err := s.Apply(batch("a", "1"), []byte("one")); err != nil {
		t.Fatal(err)
	}
	died := errors.New("died")
	for _, c := range []struct{ step, want string }{{"rows", "1"}, {"record", "1"}, {"return", "2"}} {
		disk.Fault(func(step string) error {
			if step == c.step {
				return died
			}
			return nil
		})
		s = disk.Open()
		if err := s.Apply(batch("a", "2"), []byte("two")); !errors.Is(err, died) {
			t.Fatalf("apply that dies at %s: %v", c.step, err)
		}
		s = disk.Open()
		if v, ok, err := s.Get(1, []byte("a"), nil); err != nil || !ok || string(v) != c.want {
			t.Fatalf("after a death at %s: %q, %v, %v; want %s", c.step, v, ok, err, c.want)
		}
	}
}

func TestOnlyTheLastOpenWrites(t *testing.T) {
	disk := NewDisk()
	old := disk.Open()
	if err := old.Apply(batch("a", "1"), nil); err != nil {
		t.Fatal(err)
	}
	old.Switch()
	disk.Open()
	if err := old.Apply(batch("a", "2"), nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("apply of a store whose disk was opened again: %v", err)
	}
	if v, _, _ := old.Get(1, []byte("a"), nil); string(v) != "1" {
		t.Fatalf("the old store reads %q", v)
	}
	s := New()
	s.Close(true)
	if err := s.Apply(nil, nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("apply after close: %v", err)
	}
}

func TestBytesAreCopied(t *testing.T) {
	s := New()
	key, value := []byte("key"), []byte("value")
	if err := s.Apply([]state.Batch{{Rows: []state.Row{{Key: key, Value: value}}}}, nil); err != nil {
		t.Fatal(err)
	}
	s.Switch()
	clear(key)
	clear(value)
	if v, ok, _ := s.Get(0, []byte("key"), nil); !ok || string(v) != "value" {
		t.Fatalf("the row changed with the caller's bytes: %q, %v", v, ok)
	}
}
