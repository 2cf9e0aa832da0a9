package operator

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
)

// Take is how a source gives a record to one of its readers. null says that the value is null; v is then the serde's value for null, or
// the zero V.
type Take[K comparable, V any] func(r *engine.Rec, k K, v V, null bool)

// Source decodes the records of a topic and gives each to the topic's readers in turn.
type Source[K comparable, V any] struct {
	task   *engine.Task
	node   *engine.Node
	key    serde.Serde[K]
	value  serde.Serde[V]
	null   serde.Nullable[V] // nil if the value's serde has no value for null
	timed  func(K, V) time.Time
	takes  []Take[K, V]
	noTime *engine.Counter
	fills  bool // records without a time get the partition's

	guarded bool // a panic of a serde is a failed record
	extract func(*engine.Rec) bool

	place     *engine.Placement // nil if it does not matter where keys lie
	count     int32
	tail      int
	partition func(K, V, int) int

	k      K
	v      V
	isNull bool
	at     int64
}

// NewSource makes a Source. timed may be nil.
func NewSource[K comparable, V any](t *engine.Task, n *engine.Node, key serde.Serde[K], value serde.Serde[V], timed func(K, V) time.Time, takes []Take[K, V]) *Source[K, V] {
	s := &Source[K, V]{task: t, node: n, key: key, value: value, timed: timed, takes: takes,
		noTime: t.Counter(n, string(processor.NoTime)), guarded: t.ErrorPolicy(n, "decode").Kind != engine.Stop}
	s.null, _ = value.(serde.Nullable[V])
	s.extract = guarded(t, n, func() { s.at = s.timed(s.k, s.v).UnixMilli() })
	return s
}

// CheckPlaces has a sample of the keys compared with where the topic's partitioner puts them, for which see Target. It may be nil.
func (s *Source[K, V]) CheckPlaces(p *engine.Placement, tail int, partition func(K, V, int) int) {
	if p == nil {
		return
	}
	if s.count = s.task.Env().Partitions(p.Topic); s.count > 1 {
		s.place, s.tail, s.partition = p, tail, partition
	}
}

// checkPlace looks where a record's key belongs. It changes nothing: a partitioner that panics here is not asked again.
func (s *Source[K, V]) checkPlace(r *engine.Record) {
	hashed := r.Key[:max(0, len(r.Key)-s.tail)]
	var wanted int32
	if s.partition == nil {
		wanted = engine.Partition(hashed, s.count)
	} else {
		if s.isNull && s.null == nil {
			return // there is no value to ask it about
		}
		defer func() {
			if p := recover(); p != nil {
				s.place.Stop()
				s.task.Env().Log.Warn("it is not checked any more in which partitions keys lie: the topic's PartitionedBy panics", "task", s.task.ID, "topic", s.place.Topic, "panic", fmt.Sprint(p))
			}
		}()
		wanted = int32(s.partition(s.k, s.v, int(s.count)))
	}
	s.place.Saw(hashed, s.count, s.task.Partition, wanted, r.Offset, func() string { return engine.Readable(s.k) })
}

// FillTime gives records without a usable time that of their partition.
func (s *Source[K, V]) FillTime() { s.fills = true }

// Decode is part of engine.Reader.
func (s *Source[K, V]) Decode(r *engine.Record) (at int64, ok bool) {
	rec := s.task.Rec()
	if err := s.decode(r); err != nil {
		s.task.Fail("decode", s.node, rec, err)
		return 0, false
	}
	if s.place != nil && r.Key != nil && s.place.Due() {
		s.checkPlace(r)
	}
	s.at = r.Time
	if s.timed != nil && (!s.isNull || s.null != nil) && !s.extract(rec) {
		return 0, false
	}
	if s.at < 0 && s.fills {
		s.at = s.task.PartitionTime(rec.Input)
	}
	if s.at < 0 {
		s.task.Drop(s.noTime, rec)
		return 0, false
	}
	return s.at, true
}

func (s *Source[K, V]) decode(r *engine.Record) (err error) {
	if s.guarded {
		defer func() {
			if p := recover(); p != nil {
				err = &engine.PanicError{Value: p, Stack: debug.Stack()}
			}
		}()
	}
	var (
		noKey   K
		noValue V
	)
	s.k, s.v, s.isNull = noKey, noValue, r.Value == nil
	if r.Key != nil {
		if s.k, err = s.key.Decode(r.Key); err != nil {
			return fmt.Errorf("decode key: %w", err)
		}
	}
	switch {
	case !s.isNull:
		if s.v, err = s.value.Decode(r.Value); err != nil {
			return fmt.Errorf("decode value: %w", err)
		}
	case s.null != nil:
		s.v = s.null.Null()
	}
	return nil
}

// Process is part of engine.Reader.
func (s *Source[K, V]) Process(r *engine.Rec) {
	for _, take := range s.takes {
		take(r, s.k, s.v, s.isNull)
	}
}

// Events is the reader of a source for a stream. Nulls are left out if the value's serde has no value for them; counts says that this
// reader counts them as dropped, which one of several does.
func Events[K comparable, V any](t *engine.Task, n *engine.Node, value serde.Serde[V], counts bool, next engine.Receive[K, V]) Take[K, V] {
	if _, ok := value.(serde.Nullable[V]); ok {
		return func(r *engine.Rec, k K, v V, _ bool) { next(r, k, v) }
	}
	nulls := t.Counter(n, string(processor.NullValue))
	return func(r *engine.Rec, k K, v V, null bool) {
		switch {
		case !null:
			next(r, k, v)
		case counts:
			t.Drop(nulls, r)
		}
	}
}

// Bound is a serde that knows its topic, if it must.
func Bound[T any](t *engine.Task, s serde.Serde[T], topic string, key bool) (serde.Serde[T], error) {
	b, ok := s.(serde.Binder[T])
	if !ok {
		return s, nil
	}
	bound, err := t.Bound(topic, key, s, serde.Same, func() (any, error) {
		return b.Bind(t.Env().Context, serde.Target{Topic: topic, Key: key})
	})
	if err != nil {
		return nil, err
	}
	return bound.(serde.Serde[T]), nil
}
