package topology

import (
	"fmt"
	"reflect"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/state"
)

// longestHorizon is the longest of a Deduplicate. It leaves room for the store's retention, which is more than twice as long, in a time.Duration.
const longestHorizon = 100 * 365 * 24 * time.Hour

// Deduplicate keeps the first record of each id within horizon of event time, and drops the others, counted under "duplicate". First is the one that arrives first, whatever its
// event time. A record is a duplicate if one with its id was kept whose event time is at most horizon earlier or later, horizon included. Duplicates are not remembered, so they do not
// extend anything:
//
//	horizon 10      a@0 a@10        a@10 is a duplicate
//	                a@0 a@11        both are kept
//	                a@10 a@2        a@2 is a duplicate, though it is the earlier one
//	                a@0 a@6 a@12    a@0 and a@12 are kept: a@6 was not
//
// Records that are older than stream time by more than horizon are late: what they would have to be compared with may be forgotten, so they are dropped, counted under "late". Stream
// time is that of the node itself, the largest event time among the records that have reached it. It is committed, and survives restarts and moves.
//
// Records with one id must have one key, or they are not seen by the same task: to go by an id that is not the key, give the stream the id as its key first, with SelectKey. A stream
// that was given new keys goes through a repartition topic named after the store. Records with a null key are dropped and counted under "null_key".
//
// name names the store, a window store with one small entry for each id that was kept in the last two to three horizons; what is older goes as a whole, from disk and from the changelog.
// The horizon is part of the state's fingerprint, as the state is laid out by it: for another one give a store.Version. It is counted in whole milliseconds, and is at least
// one and at most 100 years. ID is held to the rules for keys. Its serde is that of the stream's keys or values if it has their type, else the one given to Builder.Default, else the
// built-in one.
//
// Under kolk.AtLeastOnce a record that is processed again after a crash is kept again, as its output may have been lost. Those that an operator held back for a while, or that a timer sent, cannot be told from
// duplicates then.
func (s Stream[K, V]) Deduplicate[ID comparable](name string, horizon time.Duration, id func(K, V) ID, opts ...StateOption) Stream[K, V] {
	if s.s == nil {
		return s
	}
	b := s.s.at.b
	o := gather(b, opts)
	nodeName := b.number("KSTREAM-DEDUPLICATE-", o)
	decl := &state.Decl{Name: name, Kind: "window", Place: o.place}
	ref := &storeRef{decl: decl, in: true}
	b.stores = append(b.stores, ref)
	in := s.s
	if in.rekeyed != nil {
		in = repartition(in, name, nil, decl, settings{place: o.place})
	}
	out := add[K, V](b, nodeName, o, in.at.node)
	out.needs(id != nil)
	out.uses(decl)
	out.alike = append(out.alike, []*node{in.at.node})
	ms := horizon.Milliseconds()
	possible := true
	switch {
	case ms < 1:
		possible = false
		out.fault(fmt.Sprintf("the horizon is %v", horizon), "give at least one millisecond")
	case horizon > longestHorizon:
		possible = false
		out.fault(fmt.Sprintf("the horizon is %v", horizon), fmt.Sprintf("give at most %v, which is 100 years", longestHorizon))
	}
	if problem, remedy := badKey[ID](); problem != "" {
		possible = false
		out.fault("its ids: "+problem, remedy)
	}

	ref.node = out.node
	ref.ready = func() {
		if !possible {
			return
		}
		ids, ok := idCodec[K, V, ID](in).find(b)
		if !ok {
			out.fault(fmt.Sprintf("no serde is known for its ids, of type %v", reflect.TypeFor[ID]()), "register one with Builder.Default")
			return
		}
		fresh := operator.DedupStore(name, ms, ids, o.store...)
		for _, f := range fresh.Faults {
			b.faults.add(out.id, name, f.Problem, f.Remedy, o.place)
		}
		fresh.Place = o.place
		if fresh.Version == 0 {
			fresh.Version = b.version
		}
		*decl = *fresh
	}
	in.at.attach(func(w *wiring) engine.Receive[K, V] {
		r, err := operator.Deduplicate(w.task, out.run, name, ms, id, out.receive(w))
		w.fail(err)
		return r
	})
	return Stream[K, V]{in.moved(out)}
}

// idCodec is what is known of the serde of ids that were taken from a stream's records: an id that has the type of the keys, or else of the values, mostly is one.
func idCodec[K comparable, V any, ID comparable](s *stream[K, V]) codec[ID] {
	if same, ok := any(s.key).(codec[ID]); ok && same.s != nil {
		return same
	}
	if same, ok := any(s.value).(codec[ID]); ok && same.s != nil {
		return same
	}
	return codec[ID]{}
}
