package badgerstore

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// sorter sorts more rows than memory holds: it writes sorted runs to files and merges them. Of a key's rows the last one wins.
type sorter struct {
	dir   string
	limit int64
	room  func(bytes int64) error
	fault func(step string) error

	arena []byte
	items []sortItem
	runs  []run
	made  int   // files so far, for their names
	bytes int64 // in runs
}

// sortItem is a row in the arena.
type sortItem struct {
	head  uint64 // the key's first bytes, which decide most comparisons
	at    int
	klen  int
	value int // length; -1 is a delete
}

// run is a sorted file. Runs of a level are merged into one of the next when there are many, as files cannot all be open.
type run struct {
	path  string
	level int
}

const mergeRuns = 32

func (s *sorter) key(i sortItem) []byte { return s.arena[i.at : i.at+i.klen] }

func (s *sorter) value(i sortItem) []byte {
	if i.value < 0 {
		return nil
	}
	return s.arena[i.at+i.klen : i.at+i.klen+i.value : i.at+i.klen+i.value]
}

// add takes a row, whose key is prefix and key. A nil value is a delete.
func (s *sorter) add(prefix, key, value []byte) error {
	n := len(prefix) + len(key) + len(value)
	if used := int64(len(s.arena) + len(s.items)*32); used > 0 && used+int64(n+32) > s.limit {
		if err := s.flush(); err != nil {
			return err
		}
	}
	it := sortItem{at: len(s.arena), klen: len(prefix) + len(key), value: len(value)}
	if value == nil {
		it.value = -1
	}
	s.arena = append(append(append(s.arena, prefix...), key...), value...)
	var head [8]byte
	copy(head[:], s.key(it))
	it.head = binary.BigEndian.Uint64(head[:])
	s.items = append(s.items, it)
	return nil
}

func (s *sorter) sort() {
	slices.SortFunc(s.items, func(a, b sortItem) int {
		if c := cmp.Compare(a.head, b.head); c != 0 {
			return c
		}
		if c := bytes.Compare(s.key(a), s.key(b)); c != 0 {
			return c
		}
		return cmp.Compare(a.at, b.at)
	})
}

// flush writes what is in memory as a run.
func (s *sorter) flush() error {
	s.sort()
	if err := s.write(0, &memoryRun{s: s}, int64(len(s.arena))); err != nil {
		return err
	}
	s.arena, s.items = s.arena[:0], s.items[:0]
	for {
		n := len(s.runs)
		level := s.runs[n-1].level
		first := n
		for first > 0 && s.runs[first-1].level == level {
			first--
		}
		if n-first < mergeRuns {
			return nil
		}
		if err := s.mergeInto(first, level+1); err != nil {
			return err
		}
	}
}

// mergeInto replaces the runs from first on by one.
func (s *sorter) mergeInto(first, level int) error {
	old := slices.Clone(s.runs[first:])
	m, err := openRuns(old)
	if err != nil {
		return err
	}
	s.runs = s.runs[:first]
	var size int64
	for _, r := range old {
		info, err := os.Stat(r.path)
		if err != nil {
			return errors.Join(err, m.close())
		}
		size += info.Size()
	}
	if err := errors.Join(s.write(level, &m, size), m.close()); err != nil {
		return err
	}
	for _, r := range old {
		if err := os.Remove(r.path); err != nil {
			return err
		}
	}
	s.bytes -= size
	return nil
}

// source gives rows in ascending order of key, each key once. What it returns is valid until the next call.
type source interface {
	next() (key, value []byte, ok bool, err error)
}

// write writes a source, of about size bytes, to a new run.
func (s *sorter) write(level int, from source, size int64) error {
	if err := s.room(size); err != nil {
		return err
	}
	if err := s.fault("run"); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return fmt.Errorf("sort rows: %w", err)
	}
	s.made++
	path := filepath.Join(s.dir, fmt.Sprintf("run%06d", s.made))
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("sort rows: %w", err)
	}
	w := bufio.NewWriterSize(f, 256<<10)
	var head [2 * binary.MaxVarintLen64]byte
	err = func() error {
		for {
			key, value, ok, err := from.next()
			if err != nil || !ok {
				return err
			}
			h := binary.AppendUvarint(head[:0], uint64(len(key)))
			if value == nil {
				h = append(h, 0)
			} else {
				h = binary.AppendUvarint(h, uint64(len(value))+1)
			}
			// A buffered writer keeps its first error for Flush.
			w.Write(h)
			w.Write(key)
			n, err := w.Write(value)
			if err != nil {
				return err
			}
			s.bytes += int64(len(h) + len(key) + n)
		}
	}()
	if err := errors.Join(err, w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("sort rows: write %s: %w", path, err)
	}
	s.runs = append(s.runs, run{path, level})
	return nil
}

// rows returns all rows in order. Deletes are among them, as nil values.
func (s *sorter) rows() (merged, error) {
	s.sort()
	m, err := openRuns(s.runs)
	if err != nil {
		return m, err
	}
	if err := m.add(&memoryRun{s: s}); err != nil {
		return m, errors.Join(err, m.close())
	}
	return m, nil
}

// discard removes the files.
func (s *sorter) discard() error {
	s.arena, s.items, s.runs = nil, nil, nil
	return os.RemoveAll(s.dir)
}

// memoryRun is what is in a sorter's memory, after sort.
type memoryRun struct {
	s *sorter
	i int
}

func (r *memoryRun) next() (key, value []byte, ok bool, err error) {
	items := r.s.items
	if r.i == len(items) {
		return nil, nil, false, nil
	}
	for r.i+1 < len(items) && bytes.Equal(r.s.key(items[r.i]), r.s.key(items[r.i+1])) {
		r.i++
	}
	it := items[r.i]
	r.i++
	return r.s.key(it), r.s.value(it), true, nil
}

// fileRun is a run that is read.
type fileRun struct {
	f          *os.File
	r          *bufio.Reader
	key, value []byte
}

func (r *fileRun) next() (key, value []byte, ok bool, err error) {
	klen, err := binary.ReadUvarint(r.r)
	if err == io.EOF {
		return nil, nil, false, nil
	}
	var vlen uint64
	if err == nil {
		vlen, err = binary.ReadUvarint(r.r)
	}
	if err == nil {
		r.key = slices.Grow(r.key[:0], int(klen))[:klen]
		_, err = io.ReadFull(r.r, r.key)
	}
	if err == nil && vlen > 0 {
		r.value = slices.Grow(r.value[:0], int(vlen-1))[:vlen-1]
		_, err = io.ReadFull(r.r, r.value)
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("sort rows: read %s: %w", r.f.Name(), err)
	}
	if vlen == 0 {
		return r.key, nil, true, nil
	}
	if r.value == nil {
		r.value = []byte{}
	}
	return r.key, r.value, true, nil
}

// merged merges sources, of which later ones win.
type merged struct {
	heap  []*head // the smallest key on top, of equal ones the latest source
	files []*os.File
	last  []byte // the key that was given out last
	given bool   // whether there was one
}

type head struct {
	from       source
	order      int
	key, value []byte
}

func openRuns(runs []run) (merged, error) {
	var m merged
	buffer := min(256<<10, max(32<<10, (8<<20)/max(len(runs), 1)))
	for _, r := range runs {
		f, err := os.Open(r.path)
		if err == nil {
			m.files = append(m.files, f)
			err = m.add(&fileRun{f: f, r: bufio.NewReaderSize(f, buffer)})
		}
		if err != nil {
			return m, errors.Join(fmt.Errorf("sort rows: %w", err), m.close())
		}
	}
	return m, nil
}

// add puts a source last.
func (m *merged) add(from source) error {
	h := &head{from: from, order: len(m.heap)}
	for _, o := range m.heap {
		h.order = max(h.order, o.order+1)
	}
	var ok bool
	var err error
	if h.key, h.value, ok, err = from.next(); err != nil || !ok {
		return err
	}
	m.heap = append(m.heap, h)
	for i := len(m.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !m.less(i, up) {
			break
		}
		m.heap[i], m.heap[up] = m.heap[up], m.heap[i]
		i = up
	}
	return nil
}

func (m *merged) less(a, b int) bool {
	if c := bytes.Compare(m.heap[a].key, m.heap[b].key); c != 0 {
		return c < 0
	}
	return m.heap[a].order > m.heap[b].order
}

// advance moves the top source to its next row.
func (m *merged) advance() error {
	h := m.heap[0]
	var ok bool
	var err error
	if h.key, h.value, ok, err = h.from.next(); err != nil {
		return err
	}
	if !ok {
		n := len(m.heap) - 1
		m.heap[0] = m.heap[n]
		m.heap = m.heap[:n]
	}
	for i := 0; ; {
		small := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(m.heap); c++ {
			if m.less(c, small) {
				small = c
			}
		}
		if small == i {
			return nil
		}
		m.heap[i], m.heap[small] = m.heap[small], m.heap[i]
		i = small
	}
}

func (m *merged) next() (key, value []byte, ok bool, err error) {
	for len(m.heap) > 0 {
		top := m.heap[0]
		if m.given {
			// The top was given out, or is an older row of the same key.
			if !bytes.Equal(top.key, m.last) {
				m.given = false
				continue
			}
			if err := m.advance(); err != nil {
				return nil, nil, false, err
			}
			continue
		}
		m.given = true
		m.last = append(m.last[:0], top.key...)
		return top.key, top.value, true, nil
	}
	return nil, nil, false, nil
}

func (m *merged) close() error {
	var err error
	for _, f := range m.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
