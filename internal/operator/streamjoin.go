package operator

import (
	"fmt"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
)

// Meeting is a join of two streams in one task: what both sides have in common.
type Meeting[K comparable, R any] struct {
	// Store names the left side's store, after which the clocks are named.
	Store string
	Spec  span.Join
	Key   serde.Serde[K]
	// Lone is the store of the records without a partner, of a join that keeps them; else nil.
	Lone *Unmatched
	// Late says that they are sent as late as by Kafka Streams.
	Late bool
	// Next takes the results.
	Next engine.Receive[K, R]

	task  *engine.Task
	time  own
	least *int64                                    // with Late: from when on Kafka Streams looks for records to send; -1 is never
	alone [2]func(r *engine.Rec, k K, value []byte) // sends a record of a side without a partner
	nodes [2]*engine.Node                           // by side
	open  [2]int64                                  // how long a side's records wait, without grace
}

// NewMeeting completes m for a task. n is the node of the results.
func NewMeeting[K comparable, R any](t *engine.Task, n *engine.Node, m Meeting[K, R]) *Meeting[K, R] {
	m.task, m.time = t, ownTime(t, m.Store)
	m.open[leftSide], m.open[rightSide] = m.Spec.After(), m.Spec.Before()
	if m.Late {
		m.least = t.Clock(m.Store + ":least")
	}
	if m.Lone == nil {
		m.time.pace(t, n, nil, nil)
	} else {
		m.time.pace(t, n, m.due, m.release)
	}
	return &m
}

// due is when the time of the first record that waits is over.
func (m *Meeting[K, R]) due() int64 {
	due := int64(never)
	for _, side := range []int{leftSide, rightSide} {
		if row := m.Lone.first(side); row != nil {
			due = min(due, span.Add(span.Add(span.Add(row.at, m.open[side]), m.Spec.Grace()), 1))
		}
	}
	return due
}

// Arrival is one side of a join of two streams.
type Arrival[V any] struct {
	Own   *JoinRows
	Value serde.Serde[V]
	// RawKey and RawValue say that the key or value is as the source read it, in the bytes that the store is to have.
	RawKey, RawValue bool
	// Left says which side it is, and Keep that its records are sent without a partner too.
	Left, Keep bool
}

// Arrive is how the records of one side are joined with those of the other. pair and alone make the results.
func Arrive[K comparable, V, V2, R any](m *Meeting[K, R], n *engine.Node, a Arrival[V], other Arrival[V2], pair func(V, V2) R, alone func(V) R) engine.Receive[K, V] {
	t := m.task
	side, otherSide := byte(rightSide), byte(leftSide)
	back, ahead := m.Spec.After(), m.Spec.Before() // partners are at most so much older, and younger
	if a.Left {
		side, otherSide, back, ahead = leftSide, rightSide, ahead, back
	}
	nullValues, expired := t.Counter(n, string(processor.NullValue)), t.Counter(n, string(processor.Expired))
	miss := func(cause processor.Reason) *engine.Misses {
		if a.Keep {
			return t.Misses(n, string(cause), "")
		}
		return t.Misses(n, string(cause), string(cause))
	}
	noKeys, closed := miss(processor.NullKey), miss(processor.Closed)
	isNull, join := IsNull[V](), call2(t, n, pair)
	var single func(*engine.Rec, V) (R, bool)
	m.nodes[side] = n
	if a.Keep {
		single = call1(t, n, alone)
		m.alone[side] = func(r *engine.Rec, k K, value []byte) {
			v, err := a.Value.Decode(value)
			if err != nil {
				t.Abort(fmt.Errorf("store %q: decode a value: %w", m.Lone.name, err))
			}
			t.Miss(closed, r)
			if out, done := single(r, v); done {
				m.Next(r, k, out)
			}
		}
	}
	var kb, vb []byte
	// encode makes the bytes that the stores are to have.
	encode := func(r *engine.Rec, k K, v V, null bool) (key, value []byte, err error) {
		raw := r.Input >= 0 && !r.Kept
		if key = r.RawKey; !a.RawKey || !raw {
			if kb, err = m.Key.Encode(kb[:0], k); err != nil {
				return nil, nil, fmt.Errorf("encode the key for store %q: %w", a.Own.name, err)
			}
			key = kb
		}
		if value = r.RawValue; !null && (!a.RawValue || !raw) {
			if vb, err = a.Value.Encode(vb[:0], v); err != nil {
				return nil, nil, fmt.Errorf("encode the value for store %q: %w", a.Own.name, err)
			}
			value = vb
		}
		return key, value, state.CheckRow(key, value)
	}
	return func(r *engine.Rec, k K, v V) {
		t.At(n)
		moved := m.time.observe(r.Time)
		if moved && m.Lone != nil && !m.Late {
			m.release(r)
			t.At(n)
		}
		null := isNull != nil && isNull(v)
		if r.NullKey {
			switch {
			case null:
				t.Drop(nullValues, r)
			case !a.Keep:
				t.Miss(noKeys, r)
			default:
				t.Miss(noKeys, r)
				if out, done := single(r, v); done {
					m.Next(r, k, out)
				}
			}
			return
		}
		key, value, err := encode(r, k, v, null)
		if err != nil {
			t.Fail("process", n, r, err)
			return
		}
		if null {
			a.Own.skip(key, r.Time)
			t.Drop(nullValues, r)
			return
		}
		if m.Late && m.Lone != nil && r.Time == *m.time.at {
			m.releaseLate(r, ahead)
			t.At(n)
		}

		at, found := r.Time, false
		for _, hit := range other.Own.find(key, span.Sub(at, back), span.Add(at, ahead)) {
			found = true
			if m.Lone != nil {
				m.Lone.take(hit.at, otherSide, key, at)
			}
			partner, err := other.Value.Decode(hit.value)
			if err != nil {
				t.Abort(fmt.Errorf("store %q: decode a value: %w", other.Own.name, err))
			}
			out, done := join(r, v, partner)
			if !done {
				return
			}
			r.Time = max(at, hit.at)
			m.Next(r, k, out)
			r.Time = at
			t.At(n)
		}
		over := span.Add(span.Add(at, ahead), m.Spec.Grace()) < *m.time.at
		switch {
		case found || !a.Keep:
		case over:
			t.Miss(closed, r)
			out, done := single(r, v)
			if !done {
				return
			}
			m.Next(r, k, out)
			t.At(n)
		default:
			m.Lone.add(at, side, key, value, at)
			if m.Late && (*m.least < 0 || at < *m.least) {
				*m.least = at
			}
		}
		switch _, gone := a.Own.put(key, value, at); {
		case gone:
			t.Drop(expired, r)
		case over && !found && !a.Keep:
			t.Miss(closed, r)
		}
	}
}

// release sends the records whose time is over without a partner, in order of time, of equal times those of the right side first, then in order of key.
func (m *Meeting[K, R]) release(r *engine.Rec) {
	now := *m.time.at
	over := func(row *loneRow) bool {
		return row != nil && span.Add(span.Add(row.at, m.open[row.side()]), m.Spec.Grace()) < now
	}
	for {
		row, left := m.Lone.first(rightSide), m.Lone.first(leftSide)
		switch {
		case !over(row) && !over(left):
			return
		case !over(row), over(left) && left.at < row.at:
			row = left
		}
		m.send(r, row)
	}
}

// send sends the records of a row, and deletes it.
func (m *Meeting[K, R]) send(r *engine.Rec, row *loneRow) {
	side := row.side()
	m.task.At(m.nodes[side])
	k, err := m.Key.Decode([]byte(row.key()))
	if err != nil {
		m.task.Abort(fmt.Errorf("store %q: decode the key of row %x: %w", m.Lone.name, row.name, err))
	}
	list, trigger := row.value, r.Time
	m.Lone.change(row, nil, trigger)
	was := r.Keep(row.at, r.Headers)
	for value, err := range loneValues(list) {
		if err != nil {
			m.task.Abort(fmt.Errorf("store %q: row %x: %w", m.Lone.name, row.name, err))
		}
		m.alone[side](r, k, value)
	}
	*r = was
}

// releaseLate is release at the moments at which Kafka Streams does it. It does not always know the first record that waits, so that some wait up to twice as long.
func (m *Meeting[K, R]) releaseLate(r *engine.Rec, ahead int64) {
	now, grace := *m.time.at, m.Spec.Grace()
	if *m.least < 0 || span.Add(span.Add(*m.least, ahead), grace) >= now {
		return
	}
	*m.least = -1
	var waiting [2]bool
	for _, row := range m.Lone.sorted() {
		*m.least = row.at
		if waiting[leftSide] && waiting[rightSide] {
			return
		}
		if span.Add(span.Add(row.at, m.open[row.side()]), grace) >= now {
			waiting[row.side()] = true
			continue
		}
		m.send(r, row)
	}
}

// JoinSide opens the store of one side of a join.
func JoinSide(t *engine.Task, name string) (*JoinRows, error) {
	rows, ok := t.StoreNamed(name).(*JoinRows)
	if !ok {
		return nil, fmt.Errorf("store %q is not that of a side of a join", name)
	}
	return rows, nil
}

// JoinLone opens the store of a join's records without a partner.
func JoinLone(t *engine.Task, name string) (*Unmatched, error) {
	rows, ok := t.StoreNamed(name).(*Unmatched)
	if !ok {
		return nil, fmt.Errorf("store %q is not that of a join's records without a partner", name)
	}
	return rows, nil
}

// Kinds of the stores of a join of two streams.
const (
	JoinKind = "join"
	LoneKind = "unmatched"
)

// DeclareJoinSide completes the declaration of the store of one side of a join.
func DeclareJoinSide(d *state.Decl, spec span.Join) {
	d.Segmented = true
	d.Kind, d.Retention, d.Ends, d.Read = JoinKind, spec.Retention(), nil, nil
	d.Beyond = 1 // what is the retention old is there to the last
	d.Open = func(env state.Env) state.Live { return openJoinRows(d, env) }
}

// DeclareLone completes the declaration of the store of a join's records without a partner.
func DeclareLone(d *state.Decl) {
	d.Kind, d.Expected, d.Read = LoneKind, 0, nil
	d.Open = func(env state.Env) state.Live { return openUnmatched(d, env) }
}

// Copies makes copies of values that whoever gets them may keep.
type Copies[V any] struct{ slab[V] }

// Of is a pointer to a copy of a value.
func (c *Copies[V]) Of(v V) *V { return c.put(v) }
