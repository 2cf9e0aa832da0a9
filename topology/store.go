package topology

import (
	"fmt"
	"strings"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store"
)

// storeRef is a store that an operator owns.
type storeRef struct {
	decl   *state.Decl
	node   *node       // its owner
	source *node       // whose topic serves as changelog; nil if it has a changelog
	bounds []*storeRef // whose rows bound its own; nil if it has a bound itself
	ready  func()
	in     bool // it is part of the topology
}

// rowsOf is a storeRef with the handle for the users of its rows.
type rowsOf[K comparable, V any] struct {
	*storeRef
	handle store.KeyValueHandle[K, V]
	bound  store.Bound
	o      settings
}

// declare makes the store of an operator. It is completed by a call of belongs.
func declare[K comparable, V any](b *Builder, name string, bound store.Bound, o settings) *rowsOf[K, V] {
	h := store.NewKeyValue[K, V](name, nil, nil, bound, o.store...)
	d := state.Of(h)
	d.Place = o.place
	ref := &storeRef{decl: d}
	b.stores = append(b.stores, ref)
	return &rowsOf[K, V]{ref, h, bound, o}
}

// belongs says whose store it is, and with which serdes. They may be known only at Build; the declaration behind the handle is completed then.
func (r *rowsOf[K, V]) belongs(n *node, key codec[K], value codec[V]) {
	refused, _ := badKey[K]()
	r.node = n
	r.ready = func() {
		ks, ok := key.need(n, "key")
		vs, ok2 := value.need(n, "value")
		if !ok || !ok2 {
			return
		}
		name, fault := r.decl.Name, func(problem, remedy string) { n.b.faults.add(n.id, r.decl.Name, problem, remedy, r.o.place) }
		fresh := state.Of(store.NewKeyValue(name, ks, vs, r.bound, r.o.store...))
		for _, f := range fresh.Faults {
			if refused == "" || !strings.HasPrefix(f.Problem, "keys of type") { // the node has that fault already
				fault(f.Problem, f.Remedy)
			}
		}
		fresh.Place = r.o.place
		if fresh.Version == 0 {
			fresh.Version = n.b.version
		}
		if r.bounds != nil {
			fresh.Expected, fresh.TTL = 0, 0
			for _, x := range r.bounds {
				fresh.Expected += x.decl.Expected
			}
		}
		if r.source != nil {
			fresh.Source = r.source.topic.Name
			if fresh.TTL > 0 {
				fault("a TTL and SourceIsChangelog: what expired would come back from the source topic", "use store.FiniteKeys, or leave SourceIsChangelog out")
			}
		}
		*r.decl = *fresh
	}
}

// checkStores completes the stores of operators that are part of the topology, and looks for names that are given twice.
func (b *Builder) checkStores() {
	for _, s := range b.stores {
		if s.in {
			s.ready()
		}
	}
	// Neither the plain name, by which a store is asked for, nor that of its changelog may be given twice.
	first := make(map[string]*state.Decl)
	claim := func(d *state.Decl, at int) {
		for _, name := range []string{"name " + d.Name, "topic " + d.Full()} {
			if was := first[name]; was == nil {
				first[name] = d
			} else if was != d {
				b.faults.add(at, d.Name, fmt.Sprintf("two stores have this name; the other is declared at %s", was.Place), "give one of them another name, or use one handle in both places", d.Place)
				return
			}
		}
	}
	for _, s := range b.stores {
		claim(s.decl, s.node.id)
	}
	for _, n := range b.nodes {
		for _, d := range n.stores {
			claim(d, n.id)
		}
	}
}
