package operator

import (
	"fmt"
	"runtime/debug"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// A foreign-key join goes twice through a topic. A row of the left table subscribes, by its foreign key, at the task that has the row of the
// right table; that answers now and at each change, to the partition of the left row. There the answer is joined with the left row, unless
// the row has changed since it subscribed, which its hash tells.
//
// Such a stale answer is dropped, as a newer one is on its way; in an inner join with one exception. There, like in Kafka Streams, a
// subscription that changes no foreign key is not answered if there is no row on the right: nothing was joined before, or a null has been
// answered already. But that null may be the one that was dropped, and the result would keep a row that it should not. So a null that comes
// too late makes the left side ask again, which it does so that it is answered in any case.

// Registration is how the left side of a foreign-key join subscribes.
type Registration[K comparable, V any, K2 comparable] struct {
	Topic   string       // the registration topic's full name
	Sink    *engine.Node // that writes it
	Key     serde.Serde[K]
	Foreign serde.Serde[K2]
	Hash    Digest[K, V]
	// Partition is the partition, of n, of the right table in which a key lies; nil if that goes by hash. Tail is how many bytes at the end of a
	// key, its window, have no part in the hash.
	Partition func(key K2, n int) int
	Tail      int
	Of        func(K, V) (K2, bool) // the row's foreign key
	Left      bool                  // rows without a partner are kept
}

// Digest makes the hash of a row's value.
type Digest[K comparable, V any] struct {
	// Rows has the bytes of the value as they are stored, whatever code wrote them; nil if the table is not stored.
	Rows state.Encoder[K]
	// Value encodes the value if Rows is nil.
	Value serde.Serde[V]
	buf   []byte
}

func (d *Digest[K, V]) of(k K, v V) (hash128, error) {
	if d.Rows != nil {
		if b, ok := d.Rows.Encoded(k); ok {
			return murmur3(b), nil
		}
	}
	b, err := d.Value.Encode(d.buf[:0], v)
	if err != nil {
		return hash128{}, fmt.Errorf("encode the row for its hash: %w", err)
	}
	d.buf = b[:0]
	return murmur3(b), nil
}

// lenient calls f, which is code of the user's such as a serde. With on, a panic is an error.
func lenient(on bool, f func() error) (err error) {
	if on {
		defer func() {
			if p := recover(); p != nil {
				err = &engine.PanicError{Value: p, Stack: debug.Stack()}
			}
		}()
	}
	return f()
}

// foreignKey is a row's foreign key, encoded, if it has one.
type foreignKey struct {
	bytes     []byte
	has       bool
	partition int32
}

// Registrar makes the subscriptions of the rows of a left table.
type Registrar[K comparable, V any, K2 comparable] struct {
	Registration[K, V, K2]
	task     *engine.Task
	node     *engine.Node
	count    int32
	goesOn   bool           // the policy for records that cannot be written lets the task go on
	noKeys   *engine.Misses // rows without a foreign key
	extract  func(*engine.Rec, K, V) (extracted[K2], bool)
	key      []byte
	value    []byte
	new, old []byte // foreign keys
}

// NewRegistrar makes a Registrar.
func NewRegistrar[K comparable, V any, K2 comparable](t *engine.Task, n *engine.Node, x Registration[K, V, K2]) (*Registrar[K, V, K2], error) {
	s := &Registrar[K, V, K2]{Registration: x, task: t, node: n, count: t.Env().Partitions(x.Topic), goesOn: t.ErrorPolicy(x.Sink, "produce").Kind != engine.Stop,
		noKeys: t.Misses(n, string(processor.NullKey), "")}
	if !x.Left {
		s.noKeys = t.Misses(n, string(processor.NullKey), string(processor.NullKey))
	}
	if s.count <= 0 {
		return nil, fmt.Errorf("sink %q: the number of partitions of topic %q is not known", x.Sink.Name, x.Topic)
	}
	s.extract = call2(t, n, func(k K, v V) extracted[K2] {
		key, ok := x.Of(k, v)
		return extracted[K2]{key, ok}
	})
	return s, nil
}

// extracted is what a row's foreign key is, if it has one.
type extracted[K2 comparable] struct {
	key K2
	has bool
}

// Receive takes the updates of the table, whose old values must be known.
func (s *Registrar[K, V, K2]) Receive(r *engine.Rec, k K, c Change[V]) {
	if !c.HasOld && !c.HasNew {
		return // there was no row, and there is none
	}
	var old, new foreignKey
	done := true
	if c.HasNew {
		new, done = s.is(r, k, c.New)
	}
	if c.HasOld {
		old, _ = s.was(r, k, c.Old)
	}
	s.subscribe(r, k, c, old, new, !done)
}

// Again subscribes once more for a row, so that it is answered in any case. gone says that there is no need to: it has no partner for sure.
func (s *Registrar[K, V, K2]) Again(r *engine.Rec, k K, row Side[V]) (gone bool) {
	if !row.Has {
		return true
	}
	key, done := s.was(r, k, row.Value)
	if !done || !key.has {
		return done
	}
	if sub, ok := s.subscription(r, k, row); ok {
		s.send(r, key, sub, answer)
	}
	return false
}

// is the foreign key of a new value. done is false if the record has failed.
func (s *Registrar[K, V, K2]) is(r *engine.Rec, k K, v V) (f foreignKey, done bool) {
	key, done := s.extract(r, k, v)
	if !done || !key.has {
		return f, done
	}
	s.task.At(s.Sink)
	if err := lenient(s.goesOn, func() (err error) { f, err = s.encode(key.key, &s.new); return err }); err != nil {
		s.task.Fail("produce", s.Sink, r, err)
		return f, false
	}
	return f, true
}

func (s *Registrar[K, V, K2]) encode(key K2, buf *[]byte) (f foreignKey, err error) {
	b, err := s.Foreign.Encode((*buf)[:0], key)
	if err != nil {
		return f, fmt.Errorf("encode foreign key for topic %q: %w", s.Topic, err)
	}
	if b == nil {
		return f, nil
	}
	*buf = b
	f = foreignKey{bytes: b, has: true}
	if s.Partition == nil {
		f.partition = engine.Partition(b[:max(0, len(b)-s.Tail)], s.count)
		return f, nil
	}
	p := s.Partition(key, int(s.count))
	if p < 0 || p >= int(s.count) {
		return foreignKey{}, fmt.Errorf("the right table's PartitionedByKey chose partition %d for a foreign key: its topic has the partitions 0 to %d", p, s.count-1)
	}
	f.partition = int32(p)
	return f, nil
}

// was is the foreign key of a value that has come before. If it cannot be told, the record that brought the value has failed in its time, and
// there is no subscription for it: so this is no reason for the present record to fail too.
func (s *Registrar[K, V, K2]) was(r *engine.Rec, k K, v V) (f foreignKey, done bool) {
	s.task.At(s.node)
	goesOn := s.task.Guarded(s.node)
	err := lenient(goesOn, func() (err error) {
		if key, ok := s.Of(k, v); ok {
			f, err = s.encode(key, &s.old)
		}
		return err
	})
	if err != nil && !goesOn && !s.goesOn {
		s.task.Fail("produce", s.Sink, r, err)
	}
	return f, err == nil
}

// subscription is what a row subscribes with, but for the instruction. ok is false if the record has failed.
func (s *Registrar[K, V, K2]) subscription(r *engine.Rec, k K, row Side[V]) (sub Subscription, ok bool) {
	s.task.At(s.Sink)
	err := lenient(s.goesOn, func() (err error) {
		b, err := s.Key.Encode(s.key[:0], k)
		if err != nil {
			return fmt.Errorf("encode key for topic %q: %w", s.Topic, err)
		}
		s.key, sub.key, sub.partition = b, b, s.task.Partition
		if sub.hasHash = row.Has; row.Has {
			sub.hash, err = s.Hash.of(k, row.Value)
		}
		return err
	})
	if err != nil {
		s.task.Fail("produce", s.Sink, r, err)
	}
	return sub, err == nil
}

// subscribe sends what the change of a row asks for.
func (s *Registrar[K, V, K2]) subscribe(r *engine.Rec, k K, c Change[V], old, new foreignKey, failed bool) {
	sub, ok := s.subscription(r, k, Side[V]{c.New, c.HasNew})
	if !ok {
		return
	}
	same := old.has && new.has && string(old.bytes) == string(new.bytes)
	if !failed && c.HasNew && !new.has {
		s.task.Miss(s.noKeys, r)
	}
	switch {
	case failed:
		// The row is as good as not there until it changes again. Its result stays, but the old subscription must not.
		if old.has {
			s.send(r, old, sub, forget)
		}
	case s.Left:
		if old.has && !same {
			s.send(r, old, sub, forget)
		}
		s.send(r, new, sub, answer)
	case !new.has:
		if old.has {
			s.send(r, old, sub, forgetAndTell)
		}
	case old.has && !same:
		s.send(r, old, sub, forget)
		s.send(r, new, sub, answer)
	default:
		s.send(r, new, sub, answerIfExists)
	}
}

// send writes one subscription. A row without a foreign key goes to any partition: all it wants is to be told that there is no partner.
func (s *Registrar[K, V, K2]) send(r *engine.Rec, at foreignKey, sub Subscription, do instruction) {
	sub.do = do
	s.value = sub.append(s.value[:0])
	partition := int32(-1)
	if at.has {
		partition = at.partition
	}
	s.task.Emit(s.Topic, partition, at.bytes, s.value, r.Time, r.Headers)
}

// Responder writes the answers of the right side.
type Responder[V any] struct {
	Topic string       // the response topic's full name
	Sink  *engine.Node // that writes it
	Value serde.Serde[V]

	task   *engine.Task
	count  int32
	goesOn bool
	row    []byte
	buf    []byte
}

// Open completes a Responder for a task.
func (x *Responder[V]) Open(t *engine.Task) error {
	x.task, x.count, x.goesOn = t, t.Env().Partitions(x.Topic), t.ErrorPolicy(x.Sink, "produce").Kind != engine.Stop
	if x.count <= 0 {
		return fmt.Errorf("sink %q: the number of partitions of topic %q is not known", x.Sink.Name, x.Topic)
	}
	return nil
}

// encode is the bytes of a row, nil if it is null. done is false if the record has failed.
func (x *Responder[V]) encode(r *engine.Rec, v V) (b []byte, done bool) {
	x.task.At(x.Sink)
	err := lenient(x.goesOn, func() (err error) { b, err = x.Value.Encode(x.row[:0], v); return err })
	if err != nil {
		x.task.Fail("produce", x.Sink, r, fmt.Errorf("encode value for topic %q: %w", x.Topic, err))
		return nil, false
	}
	if b != nil {
		x.row = b
	}
	return b, true
}

// send answers a subscription with a row, or nil.
func (x *Responder[V]) send(r *engine.Rec, s Subscription, row []byte, at int64) {
	partition := s.partition
	if partition == -1 {
		partition = engine.Partition(s.key, x.count)
	}
	if partition < 0 || partition >= x.count {
		x.task.Fail("produce", x.Sink, r, fmt.Errorf("a row subscribed from partition %d, but topic %q has %d partitions", partition, x.Topic, x.count))
		return
	}
	x.buf = appendResponse(x.buf[:0], s, row)
	x.task.Emit(x.Topic, partition, s.key, x.buf, at, r.Headers)
}

// SubscriptionRows is the subscription store of a task.
type SubscriptionRows interface {
	state.Table[string, Subscription]
	store.KeyValue[string, Subscription]
}

// OpenSubscriptions opens it.
func OpenSubscriptions(t *engine.Task, name string) (SubscriptionRows, error) {
	rows, ok := t.StoreNamed(name).(SubscriptionRows)
	if !ok {
		return nil, fmt.Errorf("store %q is not one of the task's subscription stores", name)
	}
	return rows, nil
}

// Subscribe takes the subscriptions: it keeps or ends them, and answers from the rows of the right table.
func Subscribe[K2 comparable, V2 any](t *engine.Task, keeps, joins *engine.Node, rows SubscriptionRows, right Lookup[K2, V2], to *Responder[V2]) Take[K2, Subscription] {
	noKeys, nulls, noRow := t.Counter(keeps, string(processor.NullKey)), t.Counter(keeps, string(processor.NullValue)), t.Misses(joins, string(processor.NoRow), "")
	var (
		sub Subscription
		key []byte
		at  int64
	)
	step := func(Subscription, int64, bool) (Subscription, int64, bool) {
		return sub, at, sub.do == answer || sub.do == answerIfExists
	}
	keep := guarded(t, keeps, func() { rows.Modify(string(key), step) })
	return func(r *engine.Rec, k K2, s Subscription, null bool) {
		switch {
		case null:
			t.Drop(nulls, r)
			return
		case r.NullKey && s.do != answer:
			t.Drop(noKeys, r)
			return
		case !r.NullKey:
			sub, at = s, r.Time
			key = append(appendPrefix(key[:0], r.RawKey), s.key...)
			if !keep(r) {
				return
			}
		}
		if s.do == forget {
			return
		}
		var row []byte
		ts := r.Time
		if !r.NullKey {
			t.At(joins)
			v, rowAt, ok, done := right(r, k)
			if done && !ok && s.do != forgetAndTell {
				t.Miss(noRow, r)
			}
			switch {
			case !done:
				return
			case ok:
				ts = max(ts, rowAt)
			case s.do == answerIfExists:
				return
			}
			if ok && s.do != forgetAndTell {
				if row, done = to.encode(r, v); !done {
					return
				}
			}
		}
		to.send(r, s, row, ts)
	}
}

// Republish takes the updates of the right table and answers all who have subscribed to the row.
func Republish[K2 comparable, V2 any](t *engine.Task, n *engine.Node, rows SubscriptionRows, foreign serde.Serde[K2], to *Responder[V2]) engine.Receive[K2, Change[V2]] {
	var kb, prefix []byte
	goesOn := t.Guarded(n)
	return OnlyNewest(t, n, func(r *engine.Rec, k K2, c Change[V2]) {
		t.At(n)
		err := lenient(goesOn, func() (err error) { kb, err = foreign.Encode(kb[:0], k); return err })
		if err != nil {
			t.Fail("process", n, r, fmt.Errorf("encode key to look for subscriptions: %w", err))
			return
		}
		prefix = appendPrefix(prefix[:0], kb)
		var row []byte
		encoded := !c.HasNew
		for _, s := range rows.Prefix(prefix) {
			if !encoded {
				var done bool
				if row, done = to.encode(r, c.New); !done {
					return
				}
				encoded = true
			}
			to.send(r, s, row, r.Time)
		}
	})
}

// Resolve takes the answers and joins those that are not stale with the row of the left table. again asks again; it is nil if every subscription is
// answered.
func Resolve[K comparable, V, V2, R any](t *engine.Task, n *engine.Node, pair Pair[V, V2, R], left Lookup[K, V], hash Digest[K, V], again func(*engine.Rec, K, Side[V]) (gone bool), next engine.Receive[K, Change[R]]) Take[K, Response[V2]] {
	noKeys, nulls, stale := t.Counter(n, string(processor.NullKey)), t.Counter(n, string(processor.NullValue)), t.Counter(n, string(processor.Stale))
	call, isNull, goesOn := call2(t, n, pair.Make()), IsNull[R](), t.Guarded(n)
	return func(r *engine.Rec, k K, answer Response[V2], null bool) {
		switch {
		case null:
			t.Drop(nulls, r)
			return
		case r.NullKey:
			t.Drop(noKeys, r)
			return
		}
		t.At(n)
		v, at, ok, done := left(r, k)
		if !done {
			return
		}
		var now hash128
		if ok {
			err := lenient(goesOn, func() (err error) { now, err = hash.of(k, v); return err })
			if err != nil {
				t.Fail("process", n, r, err)
				return
			}
		}
		if ok != answer.hasHash || now != answer.hash {
			t.Drop(stale, r)
			if again == nil || answer.row.Has {
				return
			}
			ts := r.Time
			r.Time = at
			gone := again(r, k, Side[V]{v, ok})
			r.Time = ts
			if gone {
				next(r, k, Change[R]{})
			}
			return
		}
		var c Change[R]
		if ok && (answer.row.Has || pair.KeepLeft) {
			if c.New, done = call(r, Side[V]{v, true}, answer.row); !done {
				return
			}
			c.HasNew = isNull == nil || !isNull(c.New)
		}
		next(r, k, c)
	}
}
