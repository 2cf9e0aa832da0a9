package topology

import (
	"fmt"
	"slices"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
)

type kind uint8

const (
	inner kind = iota
	source
	sinkNode
)

// node is a place in the graph, without its types.
type node struct {
	b       *Builder
	id      int // in order of declaration
	kind    kind
	run     *engine.Node
	parents []*node
	stores  []*state.Decl

	// Of sources and sinks.
	topic      *engine.Topic
	dynamic    bool // a sink whose records name their topic
	start      engine.Start
	partitions int            // wanted, of the source of a repartition topic
	reader     func(*wiring)  // of a source
	ownWay     bool           // of a source: its topic is not partitioned by key as Java's producers do it
	byKey      any            // of such a source: the func(K, int) int that its topic is partitioned by, if it goes by the key alone
	from       *node          // of the source of a repartition topic: the sink that writes it
	like       *node          // of such a source: the one whose number of partitions it takes; nil if it goes by the rules
	owner      *state.Decl    // of a repartition topic: the store it is versioned with
	tables     []*state.Decl  // stores that are restored from the source
	looksUp    []*tableInfo   // tables whose rows the node reads
	alike      [][]*node      // nodes whose sources must be partitioned alike
	nullKeys   bool           // takes records without a key, so that none may be filtered out on the way here
	passNulls  bool           // of a filter before a repartition topic: settled by Build from nullKeys
	outputs    map[string]any // of a processor: places by name of output
}

// place is a node with the types of what it sends on.
type place[K comparable, V any] struct {
	*node
	children []func(*wiring) engine.Receive[K, V]
}

// wiring is the making of one task's operators.
type wiring struct {
	task   *engine.Task
	made   map[any]any // Receives by place
	inputs []*node     // sources by number of input
	holds  []hold
	told   bool // look-ups that are made now are to see a row until its delete has been sent on
	err    error
}

// read registers the reader of a source.
func (w *wiring) read(n *node, r engine.Reader) {
	w.task.Read(slices.Index(w.inputs, n), r)
}

// hold is what an operator does before a commit.
type hold struct {
	id    int
	flush func()
}

func (w *wiring) fail(err error) {
	if w.err == nil {
		w.err = err // which may be nil
	}
}

// number makes the name of a node that was given none. A name that was given burns a number too, so that later ones do not move.
func (b *Builder) number(prefix string, o settings) string {
	n := b.count
	b.count++
	if o.named {
		return o.name
	}
	return fmt.Sprintf("%s%010d", prefix, n)
}

// add makes a node.
func add[K comparable, V any](b *Builder, name string, o settings, parents ...*node) *place[K, V] {
	p := &place[K, V]{node: &node{b: b, id: len(b.nodes), parents: parents,
		run: &engine.Node{Name: name, Place: o.place, OnError: o.onError, OnDrop: o.onDrop}}}
	if b.built {
		b.faults.add(p.id, name, "it was declared after Build", "declare everything first, then call Build", o.place)
	}
	if problem := badName(name); problem != "" {
		p.fault(problem, nameRemedy)
	} else if first := b.names[name]; first != nil && !o.derived {
		p.fault("the name is taken by the node at "+first.run.Place, "give one of them another name")
	} else {
		b.names[name] = p.node
	}
	if problem, remedy := badKey[K](); problem != "" {
		p.fault(problem, remedy)
	}
	b.nodes = append(b.nodes, p.node)
	return p
}

func (n *node) fault(problem, remedy string) {
	n.b.faults.add(n.id, n.run.Name, problem, remedy, n.run.Place)
}

// needs is a fault unless a function was given.
func (n *node) needs(given bool) {
	if !given {
		n.fault("the function is nil", "give a function")
	}
}

// attach adds a child, which is made once per task by make.
func (p *place[K, V]) attach(make func(*wiring) engine.Receive[K, V]) {
	if !p.b.built {
		p.children = append(p.children, make)
	}
}

// receive is what the parents of p call, once it was made for the task: merged streams share it.
func (p *place[K, V]) receive(w *wiring) engine.Receive[K, V] {
	if r, ok := w.made[p]; ok {
		return r.(engine.Receive[K, V])
	}
	kids := make([]engine.Receive[K, V], len(p.children))
	for i, child := range p.children {
		kids[i] = child(w)
	}
	r := engine.FanOut(kids)
	w.made[p] = r
	return r
}

// then adds an operator without state behind a place.
func then[K comparable, V any, K2 comparable, V2 any](from *place[K, V], prefix string, o settings, given bool, make func(*engine.Task, *engine.Node, engine.Receive[K2, V2]) engine.Receive[K, V]) *place[K2, V2] {
	out := add[K2, V2](from.b, from.b.number(prefix, o), o, from.node)
	out.needs(given)
	from.attach(func(w *wiring) engine.Receive[K, V] { return make(w.task, out.run, out.receive(w)) })
	return out
}

// sources are the source nodes that n's records come from without going through a topic.
func (n *node) sources() []*node {
	var out []*node
	seen := make(map[*node]bool)
	var walk func(*node)
	walk = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		if n.kind == source {
			out = append(out, n)
			return
		}
		for _, p := range n.parents {
			walk(p)
		}
	}
	walk(n)
	slices.SortFunc(out, func(a, b *node) int { return a.id - b.id })
	return out
}
