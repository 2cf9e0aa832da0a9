package memstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tidwall/btree"

	"github.com/kolkstreams/kolk/internal/state"
)

// ErrClosed is the error of a Store that was closed, or whose Disk was opened again.
var ErrClosed = errors.New("memory store is closed")

// Disk keeps the checkpoints of a Store, as a disk does: they survive the Store, which may be dropped without a word, as at a crash.
type Disk struct {
	mu    sync.Mutex
	image *image
	owner *Store // the one that may write
	fault func(step string) error
}

// NewDisk makes an empty disk.
func NewDisk() *Disk { return &Disk{image: &image{}} }

// Open opens the disk with the rows and data of the last finished checkpoint. A Store that was open before can no longer write, like a process
// that lost its lock.
func (d *Disk) Open() *Store {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &Store{disk: d, view: d.image}
	d.owner = s
	return s
}

// Fault sets a function that is called before each step of a write ("rows", then "record"), and once when all is written but the caller does
// not know it yet ("return"). If it returns an error, the write ends there with that error. nil takes it away.
func (d *Disk) Fault(at func(step string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = at
}

// Store is a state.Segmented whose rows are in memory.
type Store struct {
	disk   *Disk
	view   *image // what reads see
	failed error  // why nothing may be written any more
}

var _ state.Segmented = (*Store)(nil)

// New makes a Store on a disk of its own: what it holds is gone with it.
func New() *Store { return NewDisk().Open() }

// image is all rows as of a checkpoint. It is never changed.
type image struct {
	stores   map[uint16]*rows
	segments map[state.Segment]*rows
	data     []byte
}

func (m *image) next(data []byte) *image {
	n := &image{stores: make(map[uint16]*rows, len(m.stores)), segments: make(map[state.Segment]*rows, len(m.segments)), data: bytes.Clone(data)}
	if data != nil && n.data == nil {
		n.data = []byte{}
	}
	for k, v := range m.stores {
		n.stores[k] = v
	}
	for k, v := range m.segments {
		n.segments[k] = v
	}
	return n
}

type item struct{ key, value []byte }

func less(a, b item) bool { return bytes.Compare(a.key, b.key) < 0 }

// rows is one store or segment. Copying a tree marks the tree that is copied, so readers have one of their own, which is never copied.
type rows struct {
	write *btree.BTreeG[item]
	read  *btree.BTreeG[item]
	bytes int64
}

func (r *rows) len() int64 {
	if r == nil {
		return 0
	}
	return int64(r.read.Len())
}

// apply makes what r becomes with the given changes; r may be nil.
func (r *rows) apply(changes []state.Row) *rows {
	n := &rows{}
	if r == nil {
		n.write = btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
	} else {
		n.write, n.bytes = r.write.Copy(), r.bytes
	}
	for _, c := range changes {
		var old item
		var had bool
		if c.Value == nil {
			old, had = n.write.Delete(item{key: c.Key})
		} else {
			one := make([]byte, len(c.Key)+len(c.Value))
			copy(one, c.Key)
			copy(one[len(c.Key):], c.Value)
			old, had = n.write.Set(item{key: one[:len(c.Key):len(c.Key)], value: one[len(c.Key):]})
			n.bytes += int64(len(one))
		}
		if had {
			n.bytes -= int64(len(old.key) + len(old.value))
		}
	}
	n.read = n.write.Copy()
	return n
}

func (r *rows) get(key, dst []byte) ([]byte, bool, error) {
	if r == nil {
		return dst, false, nil
	}
	it, ok := r.read.Get(item{key: key})
	if !ok {
		return dst, false, nil
	}
	return append(dst, it.value...), true, nil
}

func (r *rows) scan(from, to []byte, reverse bool, visit func(key, value []byte) bool) {
	if r == nil {
		return
	}
	if !reverse {
		r.read.Ascend(item{key: from}, func(it item) bool {
			return (to == nil || bytes.Compare(it.key, to) < 0) && visit(it.key, it.value)
		})
		return
	}
	each := func(it item) bool {
		if to != nil && bytes.Compare(it.key, to) >= 0 {
			return true // the bound itself
		}
		return bytes.Compare(it.key, from) >= 0 && visit(it.key, it.value)
	}
	if to == nil {
		r.read.Reverse(each)
	} else {
		r.read.Descend(item{key: to}, each)
	}
}

// Data is what was handed to the last finished checkpoint.
func (s *Store) Data() []byte {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	return s.disk.image.data
}

// Get appends the row's value to dst.
func (s *Store) Get(slot uint16, key, dst []byte) ([]byte, bool, error) {
	return s.view.stores[slot].get(key, dst)
}

// Scan visits a range of a store's rows.
func (s *Store) Scan(slot uint16, from, to []byte, reverse bool, visit func(key, value []byte) bool) error {
	s.view.stores[slot].scan(from, to, reverse, visit)
	return nil
}

// GetSegment is Get within a segment.
func (s *Store) GetSegment(seg state.Segment, key, dst []byte) ([]byte, bool, error) {
	return s.view.segments[seg].get(key, dst)
}

// ScanSegment is Scan within a segment.
func (s *Store) ScanSegment(seg state.Segment, from, to []byte, reverse bool, visit func(key, value []byte) bool) error {
	s.view.segments[seg].scan(from, to, reverse, visit)
	return nil
}

// Segments lists a store's segments.
func (s *Store) Segments(slot uint16) []int64 {
	var list []int64
	for seg := range s.view.segments {
		if seg.Slot == slot {
			list = append(list, seg.Number)
		}
	}
	slices.Sort(list)
	return list
}

// Count is the number of rows of a store, segments included, and their bytes.
func (s *Store) Count(slot uint16) (n, size int64) {
	if r := s.view.stores[slot]; r != nil {
		n, size = r.len(), r.bytes
	}
	for seg, r := range s.view.segments {
		if seg.Slot == slot {
			n, size = n+r.len(), size+r.bytes
		}
	}
	return n, size
}

// Apply makes the batches a checkpoint. It copies the rows' bytes.
func (s *Store) Apply(batches []state.Batch, data []byte) error {
	return s.ApplySegments(batches, nil, nil, data)
}

// ApplySegments is Apply with rows of segments, and segments to drop.
func (s *Store) ApplySegments(batches []state.Batch, segments []state.SegmentBatch, drop []state.Segment, data []byte) error {
	if err := state.CheckBatches(batches, segments); err != nil {
		return s.fail(fmt.Errorf("apply a checkpoint in memory: %w", err))
	}
	return s.write(func(old *image) *image {
		m := old.next(data)
		for _, b := range batches {
			m.stores[b.Slot] = m.stores[b.Slot].apply(b.Rows)
		}
		for _, seg := range drop {
			delete(m.segments, seg)
		}
		for _, b := range segments {
			r := m.segments[b.Segment].apply(b.Rows)
			if r.len() == 0 {
				delete(m.segments, b.Segment)
			} else {
				m.segments[b.Segment] = r
			}
		}
		return m
	})
}

// write replaces the disk's image, with the faults a test asked for.
func (s *Store) write(change func(*image) *image) error {
	d := s.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	if d.owner != s {
		return s.fail(ErrClosed)
	}
	step := func(name string) error {
		if d.fault == nil {
			return nil
		}
		if err := d.fault(name); err != nil {
			return s.fail(fmt.Errorf("write a checkpoint in memory, before %q: %w", name, err))
		}
		return nil
	}
	if err := step("rows"); err != nil {
		return err
	}
	m := change(d.image)
	if err := step("record"); err != nil {
		return err
	}
	d.image = m
	return step("return")
}

func (s *Store) fail(err error) error {
	s.failed = err
	return err
}

// Switch makes reads see the last Apply.
func (s *Store) Switch() {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if s.disk.owner == s {
		s.view = s.disk.image
	}
}

// Close ends the use. A later write fails with ErrClosed.
func (s *Store) Close(bool) error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if s.disk.owner == s {
		s.disk.owner = nil
	}
	s.view = &image{}
	return nil
}
