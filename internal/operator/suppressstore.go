package operator

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"

	"github.com/kolkstreams/kolk/internal/state"
)

// Waiting is the store of a suppression: rows that wait to be sent on, by encoded key. All are in memory, as there are to be few; the backend and the
// changelog have them too. It implements state.Live.
type Waiting struct {
	name string
	env  state.Env
	open bool // what the backend has is in memory

	rows  map[string]*waitingRow
	order waitingOrder

	// before has, for each row that the open transaction wrote, the committed one; nil if there was none.
	before  map[string]*waitingRow
	fresh   []string // written since the last Flush, in order of first write
	isFresh map[string]bool

	pending map[string]bool // committed, not yet in a checkpoint
	frozen  map[string]bool
	loading map[string][]byte // prior values of rows in old formats that a bulk load has seen

	bytes        int64
	share        state.Share
	pendingBytes int64
	frozenBytes  int64
	dirtyBytes   int64
	broken       *state.Broken
}

// waitingRow is a row as its bytes. Rows are never changed, so that a commit and a checkpoint can hold on to them.
type waitingRow struct {
	key   string
	since int64
	value []byte
	pos   int // in the order; -1 if it is not there
}

func (r *waitingRow) size() int64 { return int64(len(r.key) + len(r.value)) }

// rowMemory is about what a row costs beside its bytes: the row, two map cells, a place in the order.
const rowMemory = 160

// waitingOrder is rows in the order in which they are to be sent: by the time since which they wait, then by key.
type waitingOrder []*waitingRow

func (o waitingOrder) Len() int { return len(o) }
func (o waitingOrder) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(o[i].since, o[j].since), cmp.Compare(o[i].key, o[j].key)) < 0
}
func (o waitingOrder) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].pos, o[j].pos = i, j
}
func (o *waitingOrder) Push(x any) {
	r := x.(*waitingRow)
	r.pos = len(*o)
	*o = append(*o, r)
}
func (o *waitingOrder) Pop() any {
	last := len(*o) - 1
	r := (*o)[last]
	(*o)[last] = nil
	*o = (*o)[:last]
	r.pos = -1
	return r
}

var errClosed = errors.New("it is closed")

// SuppressKind is the kind of a suppression's store.
const SuppressKind = "suppress"

// DeclareWaiting completes the declaration of a suppression's store.
func DeclareWaiting(d *state.Decl) {
	d.Kind, d.Format, d.Upgrade = SuppressKind, suppressVersion, upgradeWaiting
	d.Open = func(env state.Env) state.Live {
		return &Waiting{name: d.Name, env: env, rows: map[string]*waitingRow{}, before: map[string]*waitingRow{}, isFresh: map[string]bool{}, pending: map[string]bool{}}
	}
}

func (s *Waiting) check() {
	if s.broken != nil {
		panic(*s.broken)
	}
}

func (s *Waiting) fail(format string, args ...any) {
	s.broken = &state.Broken{Store: s.name, Err: fmt.Errorf(format, args...)}
	panic(*s.broken)
}

// ready brings what the backend has into memory, before anything else is done with the store.
func (s *Waiting) ready() {
	s.check()
	if s.open {
		return
	}
	s.open, s.loading = true, nil
	err := s.env.Backend.Scan(s.env.Slot, nil, nil, false, func(key, value []byte) bool {
		s.set(string(key), slices.Clone(value))
		return true
	})
	if err != nil {
		s.fail("read the rows that wait: %w", err)
	}
	s.account()
}

// set puts a row in memory, in the place of the one before.
func (s *Waiting) set(key string, value []byte) {
	w, err := parseWaiting(value)
	if err != nil {
		s.fail("key %x: %w", key, err)
	}
	s.put(&waitingRow{key: key, since: w.since, value: value})
}

func (s *Waiting) put(r *waitingRow) {
	s.remove(r.key)
	s.rows[r.key] = r
	heap.Push(&s.order, r)
	s.bytes += r.size()
}

func (s *Waiting) remove(key string) {
	if was := s.rows[key]; was != nil {
		heap.Remove(&s.order, was.pos)
		delete(s.rows, key)
		s.bytes -= was.size()
	}
}

// account tells the budget what the store holds.
func (s *Waiting) account() {
	now := s.bytes + s.dirtyBytes + s.pendingBytes + s.frozenBytes + rowMemory*int64(len(s.rows))
	s.share.Hold(s.env.Budget, now)
}

// find is the row of a key.
func (s *Waiting) find(key []byte) (w waiting, ok bool) {
	s.ready()
	r := s.rows[string(key)]
	if r == nil {
		return w, false
	}
	w, err := parseWaiting(r.value)
	if err != nil {
		s.fail("key %x: %w", key, err)
	}
	return w, true
}

// write replaces the row of a key.
func (s *Waiting) write(key []byte, w *waiting) {
	s.ready()
	value := w.encode(nil)
	if err := state.CheckRow(key, value); err != nil {
		panic(state.Failed{Store: s.name, Err: err})
	}
	r := &waitingRow{key: string(key), since: w.since, value: value}
	s.touch(r.key)
	s.put(r)
	s.dirtyBytes += r.size()
	s.account()
}

// touch remembers the committed row of a key that is about to be written.
func (s *Waiting) touch(key string) {
	if _, ok := s.before[key]; !ok {
		s.before[key] = s.rows[key]
	}
	if !s.isFresh[key] {
		s.isFresh[key] = true
		s.fresh = append(s.fresh, key)
	}
}

// oldest is the row that has waited longest.
func (s *Waiting) oldest() *waitingRow {
	s.ready()
	if len(s.order) == 0 {
		return nil
	}
	return s.order[0]
}

// drop takes a row out.
func (s *Waiting) drop(r *waitingRow) {
	s.touch(r.key)
	s.remove(r.key)
	s.dirtyBytes += int64(len(r.key))
	s.account()
}

// Flush is part of state.Live.
func (s *Waiting) Flush(write func(key, value []byte, at int64) error) error {
	s.check()
	for len(s.fresh) > 0 {
		key := s.fresh[0]
		var value []byte
		if r := s.rows[key]; r != nil {
			value = r.value
		}
		if err := write([]byte(key), value, state.NoTime); err != nil {
			return err
		}
		s.fresh = s.fresh[1:]
		delete(s.isFresh, key)
	}
	return nil
}

// Committed is part of state.Live.
func (s *Waiting) Committed() {
	s.check()
	for key := range s.before {
		if !s.pending[key] {
			s.pending[key] = true
			s.pendingBytes += int64(len(key)) + rowMemory
		}
	}
	clear(s.before)
	s.dirtyBytes = 0
	s.account()
}

// Rollback is part of state.Live.
func (s *Waiting) Rollback() {
	if s.broken != nil {
		return
	}
	for key, was := range s.before {
		s.remove(key)
		if was != nil {
			s.put(was)
		}
	}
	clear(s.before)
	clear(s.isFresh)
	s.fresh, s.dirtyBytes = s.fresh[:0], 0
	s.account()
}

// committed is the committed row of a key; nil if there is none.
func (s *Waiting) committed(key string) *waitingRow {
	if was, ok := s.before[key]; ok {
		return was
	}
	return s.rows[key]
}

// Freeze is part of state.Live.
func (s *Waiting) Freeze() []state.Batch {
	s.check()
	if len(s.pending) == 0 {
		return nil
	}
	s.frozen, s.pending = s.pending, map[string]bool{}
	s.frozenBytes, s.pendingBytes = s.pendingBytes, 0
	rows := make([]state.Row, 0, len(s.frozen))
	for key := range s.frozen {
		row := state.Row{Key: []byte(key)}
		if r := s.committed(key); r != nil {
			row.Value = r.value
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b state.Row) int { return cmp.Compare(string(a.Key), string(b.Key)) })
	return []state.Batch{{Slot: s.env.Slot, Rows: rows}}
}

// Applied is part of state.Live.
func (s *Waiting) Applied() {
	s.check()
	s.frozen, s.frozenBytes = nil, 0
	s.account()
}

// Restore is part of state.Live.
func (s *Waiting) Restore(key, value []byte, _ int64) error {
	s.ready()
	name := string(key)
	if value == nil {
		s.remove(name)
	} else {
		var prior []byte
		var known bool
		if was := s.rows[name]; was != nil {
			w, err := parseWaiting(was.value)
			if err != nil {
				return fmt.Errorf("store %q: key %x: %w", s.name, key, err)
			}
			prior, known = w.prior, true
		}
		value, w, _, err := settled(slices.Clone(value), prior, known)
		if err != nil {
			return fmt.Errorf("store %q: key %x: %w", s.name, key, err)
		}
		s.put(&waitingRow{key: name, since: w.since, value: value})
	}
	if !s.pending[name] {
		s.pending[name] = true
		s.pendingBytes += int64(len(name)) + rowMemory
	}
	s.account()
	return nil
}

// settled is a row whose prior value is known: in rows of old versions that of the row before, if there is one.
func settled(value, prior []byte, known bool) (_ []byte, _ waiting, old bool, err error) {
	w, err := parseWaiting(value)
	if err != nil || !w.priorUnknown {
		return value, w, false, err
	}
	w.priorUnknown = false
	if w.prior = w.old; known {
		w.prior = prior
	}
	return w.encode(nil), w, true, nil
}

// Load is part of state.Live.
func (s *Waiting) Load(to state.Loader, key, value []byte, _ int64) error {
	s.check()
	if value == nil {
		delete(s.loading, string(key))
		return to.Put(s.env.Slot, key, nil)
	}
	prior, known := s.loading[string(key)]
	value, w, old, err := settled(value, prior, known)
	if err != nil {
		return fmt.Errorf("store %q: key %x: %w", s.name, key, err)
	}
	if old {
		if s.loading == nil {
			s.loading = make(map[string][]byte)
		}
		s.loading[string(key)] = slices.Clone(w.prior)
	}
	return to.Put(s.env.Slot, key, value)
}

// Expire is part of state.Live: rows leave when they are sent.
func (s *Waiting) Expire(int64, int) bool { return false }

// Stats is part of state.Live.
func (s *Waiting) Stats() state.Stats {
	if !s.open {
		rows, bytes := s.env.Backend.Count(s.env.Slot)
		return state.Stats{Entries: rows, Bytes: bytes}
	}
	return state.Stats{Entries: int64(len(s.rows)), Bytes: s.bytes, Dirty: s.dirtyBytes, Pending: s.pendingBytes + s.frozenBytes, Held: s.pendingBytes + s.frozenBytes, Memory: s.share.Held}
}

// Close is part of state.Live.
func (s *Waiting) Close() {
	s.share.Hold(s.env.Budget, 0)
	s.broken = &state.Broken{Store: s.name, Err: errClosed}
}
