package operator

import (
	"errors"
	"fmt"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/serde"
)

// Suppression is how Suppress holds back the updates of a table.
type Suppression[K comparable, V any] struct {
	Store      string
	Key        serde.Serde[K]
	Value      serde.Serde[V]
	Wait       int64         // ms that a row waits
	Since      func(K) int64 // when a row begins to wait; nil is the time of its first update
	Deletes    bool          // deletes are sent on
	Seen       bool          // the table further down has seen what a row was before it began to wait
	Sessions   bool          // the rows are sessions, whose values have no old ones but for deletes
	MaxRecords int64         // 0 means no limit
	MaxBytes   int64         // 0 means no limit
	StopFull   bool          // a full buffer ends the application; else the oldest rows are sent early
}

type suppressor[K comparable, V any] struct {
	Suppression[K, V]
	task   *engine.Task
	node   *engine.Node
	rows   *Waiting
	time   own
	next   engine.Receive[K, Change[V]]
	isNull func(V) bool
	kb     []byte
}

// Suppress sends on at most one update of each row at a time, the last one, after it has waited.
func Suppress[K comparable, V any](t *engine.Task, n *engine.Node, s Suppression[K, V], next engine.Receive[K, Change[V]]) (engine.Receive[K, Change[V]], error) {
	rows, ok := t.StoreNamed(s.Store).(*Waiting)
	if !ok {
		return nil, fmt.Errorf("store %q is not that of a suppression", s.Store)
	}
	x := &suppressor[K, V]{Suppression: s, task: t, node: n, rows: rows, time: ownTime(t, s.Store), next: next, isNull: IsNull[V]()}
	var (
		rec    *engine.Rec
		key    K
		change Change[V]
	)
	run := guarded(t, n, func() { x.wait(rec, key, change) })
	x.time.pace(t, n, x.due, x.release)
	return func(r *engine.Rec, k K, c Change[V]) {
		rec, key, change = r, k, c
		x.time.observe(r.Time)
		if run(r) {
			x.release(r)
		}
	}, nil
}

// wait puts an update into the buffer, in the place of the one before.
func (s *suppressor[K, V]) wait(r *engine.Rec, k K, c Change[V]) {
	key, err := s.Key.Encode(s.kb[:0], k)
	if err == nil && key == nil {
		err = errNullKey
	}
	if err != nil {
		s.task.Throw(fmt.Errorf("suppression %q: encode the key: %w", s.Store, err))
	}
	s.kb = key
	w := waiting{time: r.Time, offset: r.Offset, topic: s.task.Topic(r), partition: s.task.Partition, headers: r.Headers}
	if w.topic == "" {
		w.offset, w.partition = -1, -1
	}
	w.old = s.bytes(c.Old, (c.HasOld || c.Began) && !(s.Sessions && c.HasNew))
	w.new = s.bytes(c.New, c.HasNew)
	if was, ok := s.rows.find(key); ok {
		w.prior, w.since = was.prior, was.since
	} else if w.prior, w.since = w.old, r.Time; s.Since != nil {
		w.since = s.Since(k)
	}
	s.rows.write(key, &w)
}

var errNullKey = errors.New("its serde made null of it")

func (s *suppressor[K, V]) bytes(v V, has bool) []byte {
	if !has || s.isNull != nil && s.isNull(v) {
		return nil
	}
	b, err := s.Value.Encode(nil, v)
	if err != nil {
		s.task.Throw(fmt.Errorf("suppression %q: encode the value: %w", s.Store, err))
	}
	return b
}

// due is when the oldest row has waited long enough.
func (s *suppressor[K, V]) due() int64 {
	if row := s.rows.oldest(); row != nil {
		return span.Add(row.since, s.Wait)
	}
	return never
}

// release sends on what has waited long enough, and what there is no room for.
func (s *suppressor[K, V]) release(r *engine.Rec) {
	for {
		row := s.rows.oldest()
		if row == nil {
			return
		}
		if row.since > span.Sub(*s.time.at, s.Wait) { // so that the end of all time is never past
			if !s.full() {
				return
			}
			if s.StopFull {
				s.task.Abort(fmt.Errorf("suppression %q (%s) is full: %d rows of %d bytes wait, at most %s are allowed; raise the limit, or use Final, which needs no buffer",
					s.Store, s.node.Place, len(s.rows.rows), s.rows.bytes, s.limits()))
			}
		}
		s.send(r, row)
	}
}

func (s *suppressor[K, V]) full() bool {
	return s.MaxRecords > 0 && int64(len(s.rows.rows)) > s.MaxRecords || s.MaxBytes > 0 && s.rows.bytes > s.MaxBytes
}

func (s *suppressor[K, V]) limits() string {
	switch {
	case s.MaxRecords > 0 && s.MaxBytes > 0:
		return fmt.Sprintf("%d rows and %d bytes", s.MaxRecords, s.MaxBytes)
	case s.MaxBytes > 0:
		return fmt.Sprintf("%d bytes", s.MaxBytes)
	}
	return fmt.Sprintf("%d rows", s.MaxRecords)
}

// send takes a row out and sends it on, with the time and headers of its last update.
func (s *suppressor[K, V]) send(r *engine.Rec, row *waitingRow) {
	w, err := parseWaiting(row.value)
	if err != nil {
		s.rows.fail("key %x: %w", row.key, err)
	}
	s.rows.drop(row)
	if w.new == nil && !s.Deletes {
		return
	}
	k, err := s.Key.Decode([]byte(row.key))
	if err != nil {
		s.rows.fail("decode key %x: %w", row.key, err)
	}
	var c Change[V]
	c.New, c.HasNew = s.value(row, w.new)
	if s.Seen {
		c.Old, c.HasOld = s.value(row, w.prior)
	}
	was := r.Keep(w.time, w.headers)
	s.next(r, k, c)
	*r = was
	s.task.At(s.node)
}

func (s *suppressor[K, V]) value(row *waitingRow, b []byte) (v V, has bool) {
	if b == nil {
		return v, false
	}
	v, err := s.Value.Decode(b)
	if err != nil {
		s.rows.fail("decode the value of key %x: %w", row.key, err)
	}
	return v, true
}
