package operator

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/seen"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// Deduplicate lets the first record of each id through; see Stream.Deduplicate of package topology for the rules. horizon is in ms, at least 1. name is that of
// the store, which DedupStore declared, and of the node's clock.
//
// Time is cut into cells of horizon + 1 ms. Records of one id that were let through lie more than the horizon apart, so no two of them are in one cell: the store has
// at most one entry for an id and a cell, and those within the horizon of a record are found by looking at three places, without a search. Mostly it is two, as
// nothing is later than stream time.
func Deduplicate[K comparable, V any, ID comparable](t *engine.Task, n *engine.Node, name string, horizon int64, id func(K, V) ID, next engine.Receive[K, V]) (engine.Receive[K, V], error) {
	rows, ok := t.StoreNamed(name).(*ids[ID])
	if !ok {
		return nil, fmt.Errorf("store %q is not the store of one of the task's deduplications", name)
	}
	d := &dedup[ID]{rows: rows, horizon: horizon, width: horizon + 1, clock: ownTime(t, name), input: -1}
	d.clock.pace(t, n, nil, nil)
	noKeys, late, again := t.Counter(n, string(processor.NullKey)), t.Counter(n, string(processor.Late)), t.Counter(n, string(processor.Duplicate))
	call := call2(t, n, id)
	return func(r *engine.Rec, k K, v V) {
		if r.NullKey {
			t.Drop(noKeys, r)
			return
		}
		d.clock.observe(r.Time)
		mark := d.turn(r)
		if r.Time < span.Sub(*d.clock.at, horizon) {
			t.Drop(late, r)
			return
		}
		x, done := call(r, k, v)
		if !done {
			return
		}
		if d.seen(x, r.Time, mark) {
			t.Drop(again, r)
			return
		}
		next(r, k, v)
	}, nil
}

// dedup is the Deduplicate of one task.
type dedup[ID comparable] struct {
	rows    *ids[ID]
	horizon int64
	width   int64 // of a cell
	clock   own
	value   []byte // scratch

	// The input record in whose turn the last one came, and how many came in it before the next.
	input  int
	offset int64
	count  uint64
}

// turn is the mark of a record.
func (d *dedup[ID]) turn(r *engine.Rec) mark {
	if r.Input < 0 || r.Kept {
		return mark{} // it comes in another turn when it comes again
	}
	if r.Input != d.input || r.Offset != d.offset {
		d.input, d.offset, d.count = r.Input, r.Offset, 0
	}
	d.count++
	return mark{uint64(r.Input) + 1, uint64(r.Offset), d.count - 1}
}

// seen says whether a record of the id is known that makes the one at a time a duplicate. If there is none, this one is known from now on.
func (d *dedup[ID]) seen(id ID, at int64, m mark) bool {
	cell := at - at%d.width
	d.rows.seek(id)
	if _, value, ok := d.rows.Find(cell); ok {
		// Without transactions the entry may have survived a crash that the record's output has not. So it is let through again.
		return m == mark{} || d.rows.mark(value) != m
	}
	if cell > 0 {
		if first, _, ok := d.rows.Find(cell - d.width); ok && first >= at-d.horizon {
			return true
		}
	}
	if later := span.Add(cell, d.width); later <= *d.clock.at {
		if first, _, ok := d.rows.Find(later); ok && first <= span.Add(at, d.horizon) {
			return true
		}
	}
	// The store refuses nothing that is not late, unless it has survived a crash that the clock has not: then this may be
	// a record whose output was lost, so it is let through, without an entry.
	d.value = m.append(d.value[:0])
	d.rows.Add(cell, at, d.value)
	return false
}

// ids is the store of a task: a set of ids as bytes.
type ids[ID comparable] struct {
	*seen.Set
	serde   serde.Serde[ID]
	scratch []byte
}

func (s *ids[ID]) seek(id ID) {
	b, err := s.serde.Encode(s.scratch[:0], id)
	switch {
	case err != nil:
		s.Refuse("encode key %v: %w", id, err)
	case b == nil:
		s.Refuse("key %v is null to its serde, and a store has no null keys", id)
	}
	s.scratch = b
	s.Seek(b)
}

func (s *ids[ID]) mark(value []byte) mark {
	m, err := parseMark(value)
	if err != nil {
		s.Fail("decode the value of key %x: %w", s.scratch, err)
	}
	return m
}

// mark is the value of an entry: which record was let through. A record that comes again after a crash is told from a duplicate by it. The
// zero mark is a record that has no place in the input.
type mark struct {
	input  uint64 // number of the input, counted from 1
	offset uint64
	nth    uint64 // among those that came of one input record, counted from 0
}

// append writes 0 for the zero mark, else input and offset, and nth if it is not 0, all as varints.
func (m mark) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, m.input)
	if m.input == 0 {
		return dst
	}
	if dst = binary.AppendUvarint(dst, m.offset); m.nth > 0 {
		dst = binary.AppendUvarint(dst, m.nth)
	}
	return dst
}

func parseMark(src []byte) (m mark, err error) {
	parts := [3]*uint64{&m.input, &m.offset, &m.nth}
	rest := src
	for i, part := range parts {
		n := 0
		if *part, n = binary.Uvarint(rest); n <= 0 {
			return mark{}, fmt.Errorf("%x is no entry of a deduplication", src)
		}
		if rest = rest[n:]; len(rest) == 0 && i > 0 || i == 0 && m.input == 0 {
			break
		}
	}
	if len(rest) > 0 {
		return mark{}, fmt.Errorf("%x is no entry of a deduplication: %d bytes too many", src, len(rest))
	}
	return m, nil
}

// marks is the serde of marks, for the declaration.
type marks struct{}

func (marks) String() string { return "seen" }

func (marks) Encode(dst []byte, m mark) ([]byte, error) { return m.append(dst), nil }
func (marks) Decode(src []byte) (mark, error)           { return parseMark(src) }

// DedupStore declares the store of a Deduplicate: to all that see it from outside a window store, whose windows are the cells.
//
// Cells are needed up to two before that of stream time: a record may be late by the horizon, and what it is compared with may be earlier by the horizon. A cell is
// gone once it starts the retention behind the last that has an entry, hence two cells and one more millisecond.
func DedupStore[ID comparable](name string, horizon int64, id serde.Serde[ID], opts ...store.Option) *state.Decl {
	width := time.Duration(horizon+1) * time.Millisecond
	d := state.Of(store.NewWindow[ID, mark](name, id, marks{}, width, 2*width+time.Millisecond, opts...))
	of := *d
	open := func(env state.Env, id serde.Serde[ID]) state.Live {
		return &ids[ID]{Set: seen.Open(&of, env), serde: id}
	}
	d.Read = nil // nobody has its handle
	d.Open = func(env state.Env) state.Live { return open(env, id) }
	if d.Bind != nil {
		d.Bind = func(ctx context.Context, topic string) (func(state.Env) state.Live, error) {
			bound, err := serde.Bind(ctx, id, serde.Target{Topic: topic, Key: true})
			if err != nil {
				return nil, &state.Unbound{Topic: topic, Key: true, Err: err}
			}
			return func(env state.Env) state.Live { return open(env, bound) }, nil
		}
	}
	return d
}
