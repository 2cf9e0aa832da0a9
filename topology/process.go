package topology

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
)

// Process runs a processor of yours on each record. make is called once per task, and again after an aborted transaction. opts are the stores it opens and the policy for
// its errors; see processor.Processor for what a failed record leaves behind. As a processor may change keys, what groups or joins the result by key goes through a
// repartition topic: see ProcessValues.
func (s Stream[K, V]) Process[P processor.Processor[K, V, K2, V2], K2 comparable, V2 any](name string, make func() P, opts ...ProcessOption) Processed[K2, V2] {
	if s.s == nil {
		return Processed[K2, V2]{}
	}
	out := stage[K2, V2](s.s.at.node, name, make != nil, gather(s.s.at.b, opts))
	s.s.at.attach(func(w *wiring) engine.Receive[K, V] {
		r, err := operator.Process(w.task, out.run, make, out.receive(w), out.named(w))
		w.fail(err)
		return r
	})
	return Processed[K2, V2]{Stream[K2, V2]{rekeyed(s.s, out)}}
}

// ProcessValues is Process by a processor that keeps the key, so no repartition follows.
func (s Stream[K, V]) ProcessValues[P processor.FixedKeyProcessor[K, V, V2], V2 any](name string, make func() P, opts ...ProcessOption) Processed[K, V2] {
	if s.s == nil {
		return Processed[K, V2]{}
	}
	out := stage[K, V2](s.s.at.node, name, make != nil, gather(s.s.at.b, opts))
	s.s.at.attach(func(w *wiring) engine.Receive[K, V] {
		r, err := operator.ProcessValues(w.task, out.run, make, check(w, s.s), out.receive(w), out.named(w))
		w.fail(err)
		return r
	})
	after := revalued(s.s, out)
	after.fromKey = nil // a processor may send on what it kept from earlier records
	return Processed[K, V2]{Stream[K, V2]{after}}
}

// stage is the node of a user's processor.
func stage[K comparable, V any](from *node, name string, given bool, o settings) *place[K, V] {
	b := from.b
	b.count++
	out := add[K, V](b, name, o, from)
	out.needs(given)
	out.outputs = make(map[string]any)
	for _, h := range o.handles {
		d := state.Of(h)
		if d == nil {
			out.fault("it was given a store that was never declared", "use a handle made by package store, or a table's Store")
			continue
		}
		out.uses(d)
		out.run.Stores = append(out.run.Stores, d.Name)
		if !b.owns(d) && !b.checked[d] {
			b.checked[d] = true
			b.later = append(b.later, func() { b.checkDeclared(d, out.id) })
		}
	}
	return out
}

// owns says whether a store is that of an operator.
func (b *Builder) owns(d *state.Decl) bool {
	for _, s := range b.stores {
		if s.decl == d {
			return true
		}
	}
	return false
}

// checkDeclared reports what is wrong with a store that the user declared.
func (b *Builder) checkDeclared(d *state.Decl, at int) {
	for _, f := range d.Faults {
		b.faults.add(at, d.Name, f.Problem, f.Remedy, d.Place)
	}
}

// named is the Receives of the named outputs.
func (n *node) named(w *wiring) map[string]any {
	out := make(map[string]any, len(n.outputs))
	for _, name := range slices.Sorted(maps.Keys(n.outputs)) { // in an order that makes timers further down fire alike each time
		out[name] = n.outputs[name].(output).receiver(w)
	}
	return out
}

// output is a place that a named output leads to.
type output interface{ receiver(*wiring) any }

func (p *place[K, V]) receiver(w *wiring) any { return p.receive(w) }

// check says whether a key belongs to a task; nil if that cannot be told.
func check[K comparable, V any](w *wiring, s *stream[K, V]) func(K) error {
	key, ok := s.key.find(s.at.b)
	sources := s.at.sources()
	if !ok || s.rekeyed != nil {
		return nil
	}
	for _, src := range sources {
		if src.ownWay {
			return nil
		}
	}
	topic := sources[0].topic.Full(w.task.Env().App)
	key, err := operator.Bound(w.task, key, topic, true)
	w.fail(err)
	return belongs(w.task, key, topic)
}

func belongs[K comparable](t *engine.Task, key serde.Serde[K], topic string) func(K) error {
	count := t.Env().Partitions(topic)
	var buf []byte
	tail := span.TailOf(key) // the window in a key has no part in it
	return func(k K) error {
		b, err := key.Encode(buf[:0], k)
		if err != nil {
			return fmt.Errorf("encode key: %w", err)
		}
		buf = b
		if p := engine.Partition(b[:max(0, len(b)-tail)], count); count > 0 && p != t.Partition {
			return fmt.Errorf("a record was made for a key of partition %d in task %s: use keys that this task has received, or Process, which may change keys", p, t.ID)
		}
		return nil
	}
}

// Processed is the main output of a processor.
type Processed[K comparable, V any] struct{ Stream[K, V] }

// Output is the stream of a further output of the processor. Its keys count as new ones. Asked for twice, it is the same stream.
func (p Processed[K, V]) Output[K2 comparable, V2 any](out processor.Output[K2, V2]) Stream[K2, V2] {
	if p.s == nil {
		return Stream[K2, V2]{}
	}
	n, o := p.s.at.node, gather(p.s.at.b, []NodeOption(nil))
	if was, ok := n.outputs[out.Name()]; ok {
		if at, ok := was.(*place[K2, V2]); ok {
			return Stream[K2, V2]{&stream[K2, V2]{at: at, key: codec[K2]{from: at.node}, value: codec[V2]{from: at.node}, rekeyed: at.node}}
		}
		n.b.faults.add(len(n.b.nodes), n.run.Name, "two outputs are named "+out.Name()+" and have different types", "give one of them another name", o.place)
		return Stream[K2, V2]{}
	}
	at := add[K2, V2](n.b, n.run.Name+"-"+out.Name(), o, n)
	if out.Name() == "" {
		at.fault("the output has no name", "make outputs with processor.NewOutput, and name them")
	}
	if !n.b.built {
		n.outputs[out.Name()] = at
	}
	return Stream[K2, V2]{&stream[K2, V2]{at: at, key: codec[K2]{from: at.node}, value: codec[V2]{from: at.node}, rekeyed: at.node}}
}
