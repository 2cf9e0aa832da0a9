package topology

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
)

// Split is a stream being cut into branches. Records no branch takes are dropped and counted under "unmatched", unless Rest is called.
type Split[K comparable, V any] struct {
	s    *stream[K, V]
	at   *node
	ways []way[K, V]
	rest *place[K, V]
}

// way is one branch: take is nil for what is left over.
type way[K comparable, V any] struct {
	take func(K, V) bool
	out  *place[K, V]
}

// Split sends each record into the first branch that takes it.
func (s Stream[K, V]) Split() *Split[K, V] {
	if s.s == nil {
		return &Split[K, V]{}
	}
	b := s.s.at.b
	o := gather(b, []NodeOption(nil))
	at := add[K, V](b, b.number("KSTREAM-BRANCH-", o), o, s.s.at.node)
	split := &Split[K, V]{s: s.s, at: at.node}
	s.s.at.attach(func(w *wiring) engine.Receive[K, V] {
		branches := make([]operator.Branch[K, V], len(split.ways))
		for i, way := range split.ways {
			branches[i] = operator.Branch[K, V]{Node: way.out.run, Take: way.take, Next: way.out.receive(w)}
		}
		return operator.Split(w.task, at.run, branches)
	})
	return split
}

// Branch takes the records for which take is true and no earlier branch was.
func (s *Split[K, V]) Branch(name string, take func(K, V) bool) Stream[K, V] {
	if s.s == nil {
		return Stream[K, V]{}
	}
	out := s.branch(name, take)
	out.needs(take != nil)
	return Stream[K, V]{s.s.moved(out)}
}

// Rest takes what is left over, wherever it is called among the branches.
func (s *Split[K, V]) Rest() Stream[K, V] {
	if s.s == nil {
		return Stream[K, V]{}
	}
	if s.rest != nil {
		s.at.b.faults.add(len(s.at.b.nodes), s.at.run.Name, "Rest was called twice", "keep the stream that the first call returned, and use it twice", caller())
	} else {
		s.rest = s.branch("default", nil)
	}
	return Stream[K, V]{s.s.moved(s.rest)}
}

func (s *Split[K, V]) branch(name string, take func(K, V) bool) *place[K, V] {
	o := gather(s.at.b, []NodeOption(nil))
	full := s.at.run.Name + "-" + name
	s.at.b.count++
	out := add[K, V](s.at.b, full, o, s.at)
	if name == "" {
		out.fault("the branch has no name", "name it; the name shows in descriptions and errors")
	}
	if !s.at.b.built {
		s.ways = append(s.ways, way[K, V]{take, out})
	}
	return out
}
