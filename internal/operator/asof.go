package operator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// Delay is where and how long records wait before they are joined.
type Delay[K comparable, V any] struct {
	Store string
	Wait  int64 // ms
	Key   serde.Serde[K]
	Value serde.Serde[V]
}

// delayed holds records back until stream time is far enough past them. They lie in a store, in order of time, as in Kafka Streams:
//
//	key    0 (1) | time (8) | key | number (4)
//	value  a row of a suppression that has only a new value
//
// The number tells records of one key and time apart, in the order in which they came. It goes on after a restart.
type delayed[K comparable, V any] struct {
	Delay[K, V]
	task   *engine.Task
	node   *engine.Node
	rows   store.KeyValue[string, []byte]
	isNull func(V) bool
	next   engine.Receive[K, V]

	observed *int64 // the largest time the join has seen
	number   *int64 // of the last record that was held back
	first    int64  // no record that waits is older
	kb, vb   []byte
}

// Delayed holds records back before next, which joins them. Records that are late already go on at once, and so do those without a key or value,
// whose time does not count. As in Kafka Streams, waiting ends for others when a record has begun to wait.
func Delayed[K comparable, V any](t *engine.Task, n *engine.Node, d Delay[K, V], next engine.Receive[K, V]) (engine.Receive[K, V], error) {
	rows, ok := t.StoreNamed(d.Store).(store.KeyValue[string, []byte])
	if !ok {
		return nil, fmt.Errorf("store %q is not one of the task's buffers", d.Store)
	}
	// Neither name can be that of another store: it has a character that names have not.
	w := &delayed[K, V]{Delay: d, task: t, node: n, rows: rows, isNull: IsNull[V](), next: next, observed: t.Clock(d.Store + "/time"), number: t.Clock(d.Store + "/number")}
	t.Pace(engine.Pace{Node: n, Clock: w.observed, Due: w.due, Run: func(r *engine.Rec) { w.release(r, *w.observed-w.Wait) }})
	return w.receive, nil
}

// due is when the oldest record has waited long enough.
func (w *delayed[K, V]) due() int64 {
	if w.first == 0 { // it was not looked at since the start
		w.first = never
		for key, value := range w.rows.Range("\x00", "\x01") {
			_, row, err := w.parse(key, value)
			if err != nil {
				w.task.Abort(fmt.Errorf("buffer %q: row %x: %w", w.Store, key, err))
			}
			w.first = row.time
			break
		}
	}
	return span.Add(w.first, w.Wait)
}

func (w *delayed[K, V]) receive(r *engine.Rec, k K, v V) {
	if r.NullKey || w.isNull != nil && w.isNull(v) {
		w.next(r, k, v)
		return
	}
	*w.observed = max(*w.observed, r.Time)
	passed := *w.observed - w.Wait
	if r.Time < passed {
		w.next(r, k, v)
		return
	}
	w.task.At(w.node)
	key, value, err := w.encode(r, k, v)
	if err != nil {
		w.task.Fail("process", w.node, r, err)
		return
	}
	w.rows.PutAt(string(key), value, time.UnixMilli(r.Time))
	w.first = min(w.first, r.Time)
	w.release(r, passed)
}

func (w *delayed[K, V]) encode(r *engine.Rec, k K, v V) (key, value []byte, err error) {
	number := max(*w.number, 0) + 1
	key = binary.BigEndian.AppendUint64(append(w.kb[:0], 0), uint64(r.Time))
	if key, err = w.Key.Encode(key, k); err != nil {
		return nil, nil, fmt.Errorf("encode the key for buffer %q: %w", w.Store, err)
	}
	key = binary.BigEndian.AppendUint32(key, uint32(number)&math.MaxInt32)
	w.kb = key
	row := waiting{time: r.Time, offset: r.Offset, topic: w.task.Topic(r), partition: w.task.Partition, headers: r.Headers}
	if row.new, err = w.Value.Encode(w.vb[:0], v); err != nil {
		return nil, nil, fmt.Errorf("encode the value for buffer %q: %w", w.Store, err)
	}
	w.vb = row.new
	*w.number = number
	return key, row.encode(nil), nil
}

// release joins what has waited long enough, in order of time.
func (w *delayed[K, V]) release(r *engine.Rec, passed int64) {
	if w.first > passed {
		return
	}
	from := binary.BigEndian.AppendUint64([]byte{0}, uint64(max(w.first, 0)))
	w.first = math.MaxInt64
	for key, value := range w.rows.Range(string(from), "\x01") {
		k, row, err := w.parse(key, value)
		if err != nil {
			w.task.Abort(fmt.Errorf("buffer %q: row %x: %w", w.Store, key, err))
		}
		if row.time > passed {
			w.first = row.time
			return
		}
		v, err := w.Value.Decode(row.new)
		if err != nil {
			w.task.Abort(fmt.Errorf("buffer %q: row %x: decode the value: %w", w.Store, key, err))
		}
		w.rows.Delete(key)
		was := r.Keep(row.time, row.headers)
		w.next(r, k, v)
		*r = was
	}
}

func (w *delayed[K, V]) parse(key string, value []byte) (k K, row waiting, err error) {
	const around = 1 + 8 + 4
	if len(key) < around || key[0] != 0 {
		return k, row, errors.New("it is not a key of a buffer")
	}
	if row, err = parseWaiting(value); err != nil {
		return k, row, err
	}
	if row.new == nil {
		return k, row, errors.New("it has no value")
	}
	row.time = int64(binary.BigEndian.Uint64([]byte(key[1:9])))
	if k, err = w.Key.Decode([]byte(key[9 : len(key)-4])); err != nil {
		return k, row, fmt.Errorf("decode the key: %w", err)
	}
	return k, row, nil
}

// BufferSerde is the serde of a part of a buffer's rows, which are bytes already. of is the serde of the records' part, for the fingerprint.
func BufferSerde[T string | []byte](of any) serde.Serde[T] { return bufferSerde[T]{serde.Name(of)} }

type bufferSerde[T string | []byte] struct{ of string }

func (s bufferSerde[T]) String() string                         { return "buffer(" + s.of + ")" }
func (s bufferSerde[T]) Encode(dst []byte, v T) ([]byte, error) { return append(dst, v...), nil }
func (s bufferSerde[T]) Decode(src []byte) (T, error)           { return T(append([]byte{}, src...)), nil }
