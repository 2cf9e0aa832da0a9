package memstore

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tidwall/btree"

	"github.com/kolkstreams/kolk/internal/state"
)

// loader collects rows in trees that become an image at once.
type loader struct {
	store    *Store
	stores   map[uint16]*rows
	segments map[state.Segment]*rows
	done     bool
}

var _ state.SegmentLoader = (*loader)(nil)

// Load starts a bulk load. It fails if the store has rows.
func (s *Store) Load() (state.Loader, error) {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if len(s.disk.image.segments) > 0 {
		return nil, errors.New("load rows in memory: the store has segments")
	}
	for slot, r := range s.disk.image.stores {
		if n := r.len(); n > 0 {
			return nil, fmt.Errorf("load rows in memory: slot %d already has %d rows", slot, n)
		}
	}
	return &loader{store: s, stores: map[uint16]*rows{}, segments: map[state.Segment]*rows{}}, nil
}

func (l *loader) Put(slot uint16, key, value []byte) error {
	return put(l, l.stores, slot, key, value)
}

func (l *loader) PutSegment(s state.Segment, key, value []byte) error {
	return put(l, l.segments, s, key, value)
}

func put[K comparable](l *loader, into map[K]*rows, k K, key, value []byte) error {
	if l.done {
		return errors.New("load rows in memory: the load has ended")
	}
	if err := state.CheckRow(key, value); err != nil {
		return fmt.Errorf("load rows in memory: %w", err)
	}
	r := into[k]
	if r == nil {
		r = &rows{write: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
		into[k] = r
	}
	var old item
	var had bool
	if value == nil {
		old, had = r.write.Delete(item{key: key})
	} else {
		old, had = r.write.Set(item{key: bytes.Clone(key), value: append([]byte{}, value...)})
		r.bytes += int64(len(key) + len(value))
	}
	if had {
		r.bytes -= int64(len(old.key) + len(old.value))
	}
	return nil
}

func (l *loader) Finish(data []byte) error {
	if l.done {
		return errors.New("load rows in memory: the load has ended")
	}
	l.done = true
	err := l.store.write(func(old *image) *image {
		m := (&image{}).next(data)
		for slot, r := range l.stores {
			r.read = r.write.Copy()
			m.stores[slot] = r
		}
		for seg, r := range l.segments {
			if r.write.Len() > 0 {
				r.read = r.write.Copy()
				m.segments[seg] = r
			}
		}
		return m
	})
	if err != nil {
		return err
	}
	l.store.Switch()
	return nil
}

func (l *loader) Abort() error {
	l.done = true
	return nil
}
