package topology

import (
	"fmt"
	"slices"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
)

// Build checks the topology. Its error is of type Faults. It may be called again, but nothing may be declared after a Build without faults.
func (b *Builder) Build() (*Topology, error) {
	declared := slices.Clone(b.faults)
	defer func() { b.faults = declared }()
	if len(b.nodes) == 0 && len(b.faults) == 0 {
		b.faults.add(0, "topology", "nothing was declared", "begin with Builder.Stream or Builder.Table", caller())
	}
	b.decideTables()
	for _, check := range b.later {
		check()
	}
	b.checkStores()
	b.checkGlobals()
	b.checkInternalTopics()
	if len(b.faults) > 0 {
		return nil, b.faults.sorted()
	}
	b.built = true
	t := &Topology{parts: b.parts(), version: b.version}
	g := &engine.Graph{}
	for i, p := range t.parts {
		if x := b.globalOf(p); x != nil {
			t.parts[i].global = true
			g.Globals = append(g.Globals, x.run(i, p))
			continue
		}
		g.Subs = append(g.Subs, b.sub(i, p))
	}
	for _, n := range b.nodes {
		g.DeadLetters = deadLetters(g.DeadLetters, n.run)
	}
	engine.Hold(&t.graph, g)
	return t, nil
}

// checkInternalTopics gives repartition topics their versions and looks for names that are given twice.
func (b *Builder) checkInternalTopics() {
	first := make(map[string]*node)
	for _, n := range b.nodes {
		if n.kind != source || !n.topic.Repartition {
			continue
		}
		n.topic.Version = b.version
		if n.owner != nil {
			n.topic.Version = n.owner.Version
		}
		if problem := badName(n.topic.Name); problem != "" {
			b.faults.add(n.id, n.topic.Name, problem, nameRemedy, n.run.Place)
			continue
		}
		full := n.topic.Full("")
		if was := first[full]; was != nil {
			b.faults.add(n.id, n.topic.Name, "two repartition topics have this name; the other is declared at "+was.run.Place, "give one of them another name", n.run.Place)
			continue
		}
		first[full] = n
	}
	for _, n := range b.nodes {
		for _, group := range n.alike {
			b.checkPartitions(n, group)
			b.checkPartitioners(n, group)
		}
	}
}

// checkPartitions looks for repartition topics that must have equal partition counts and were asked for different ones.
func (b *Builder) checkPartitions(n *node, group []*node) {
	var wants *node
	for _, g := range group {
		for _, s := range g.sources() {
			switch {
			case s.partitions == 0:
			case wants == nil:
				wants = s
			case wants.partitions != s.partitions:
				n.fault(fmt.Sprintf("its inputs must have equal numbers of partitions, but %s is to have %d and %s is to have %d", wants.topic.Name, wants.partitions, s.topic.Name, s.partitions),
					"give both the same Partitions")
			}
		}
	}
}

// checkPartitioners looks for topics of which only some are partitioned by key as Java's producers do it.
func (b *Builder) checkPartitioners(n *node, group []*node) {
	var own, usual *node
	for _, g := range group {
		for _, s := range g.sources() {
			if s.ownWay {
				own = s
			} else {
				usual = s
			}
		}
	}
	if own != nil && usual != nil {
		n.fault(fmt.Sprintf("its inputs must be partitioned alike, but %s has a partitioner of its own and %s is partitioned by hash of the key", own.topic.Name, usual.topic.Name),
			"give both topics PartitionedBy, or put Repartition or RepartitionBy before it on one side")
	}
}

// part is a sub-topology: nodes that are connected without going through a topic.
type part struct {
	nodes  []*node
	stores []*state.Decl
	global bool // it is a global table
}

// parts cuts the graph at topics. Numbers follow the order of declaration, as in Kafka Streams.
func (b *Builder) parts() []part {
	root := make([]int, len(b.nodes))
	for i := range root {
		root[i] = i
	}
	find := func(i int) int {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	user := make(map[*state.Decl]int)
	for _, n := range b.nodes {
		for _, p := range n.parents {
			root[find(n.id)] = find(p.id)
		}
		for _, d := range n.stores {
			if first, ok := user[d]; ok {
				root[find(n.id)] = find(first)
			} else {
				user[d] = n.id
			}
		}
	}
	versioned := make(map[*state.Decl]*state.Decl)
	var parts []part
	index := make(map[int]int)
	for _, n := range b.nodes {
		i, ok := index[find(n.id)]
		if !ok {
			i = len(parts)
			index[find(n.id)] = i
			parts = append(parts, part{})
		}
		p := &parts[i]
		p.nodes = append(p.nodes, n)
		for _, d := range n.stores {
			// A store of a user's own may be part of several topologies, so it is not changed.
			if d.Version == 0 && b.version > 0 {
				if versioned[d] == nil {
					next := *d
					next.Version = b.version
					versioned[d] = &next
				}
				d = versioned[d]
			}
			if !slices.Contains(p.stores, d) {
				p.stores = append(p.stores, d)
			}
		}
	}
	return parts
}

// sub is a part as the engine runs it.
func (b *Builder) sub(id int, p part) *engine.Sub {
	s := &engine.Sub{ID: id, Stores: p.stores}
	input := make(map[*node]int)
	for _, n := range p.nodes {
		if !slices.Contains(s.Nodes, n.run) {
			s.Nodes = append(s.Nodes, n.run)
		}
		n.run.Parents = runs(n)
		switch n.kind {
		case source:
			input[n] = len(s.Inputs)
			s.Inputs = append(s.Inputs, &engine.Input{Topic: *n.topic, Node: n.run, Partitions: int32(n.partitions), Start: n.start, Tables: n.tables})
		case sinkNode:
			s.Outputs = append(s.Outputs, &engine.Output{Topic: *n.topic, Node: n.run, Dynamic: n.dynamic})
		}
	}
	for _, n := range p.nodes {
		for _, group := range n.alike {
			var inputs []int
			for _, g := range group {
				for _, src := range g.sources() {
					if !slices.Contains(inputs, input[src]) {
						inputs = append(inputs, input[src])
					}
				}
			}
			if len(inputs) > 1 {
				s.Copartitioned = append(s.Copartitioned, engine.Copartition{Node: n.run, Inputs: inputs})
			}
		}
	}
	for n, i := range input {
		if n.like != nil {
			s.Inputs[i].Follows = s.Inputs[input[n.like]]
		}
		s.Inputs[i].Own = n.ownWay
		// What kolk writes itself lies where it belongs.
		s.Inputs[i].Placed = !n.topic.Repartition && (s.Stateful() || len(s.Copartitioned) > 0)
	}
	s.Owner = owner(p)
	sources := make([]*node, len(s.Inputs))
	for n, i := range input {
		sources[i] = n
	}
	s.Build = func(t *engine.Task) error { return wire(t, sources) }
	return s
}

// runs are the parents of a node as the engine runs them.
func runs(n *node) (out []*engine.Node) {
	for _, p := range n.parents {
		if p.run != n.run {
			out = append(out, p.run)
		}
	}
	return out
}

// owner is the first name, in the order of the alphabet, of what a part owns: no other part has it, and other parts do not change it.
func owner(p part) string {
	var names []string
	for _, d := range p.stores {
		names = append(names, d.Full())
	}
	if len(names) == 0 {
		for _, n := range p.nodes {
			if n.kind == source {
				names = append(names, n.topic.Full(""))
			}
		}
	}
	return slices.Min(names)
}

// wire makes the operators of a task, from its sources on.
func wire(t *engine.Task, sources []*node) error {
	w := &wiring{task: t, made: make(map[any]any), inputs: sources}
	for _, n := range sources {
		n.reader(w)
	}
	// What is held for a commit may flow into what holds further down, so it is sent on in the order of declaration.
	slices.SortFunc(w.holds, func(a, b hold) int { return a.id - b.id })
	for _, h := range w.holds {
		t.BeforeCommit(h.flush)
	}
	return w.err
}

func deadLetters(all []string, n *engine.Node) []string {
	policies := []engine.Policy{n.OnError}
	for _, rule := range n.OnDrop {
		policies = append(policies, rule.Policy)
	}
	for _, p := range policies {
		if p.Kind == engine.DeadLetter && !slices.Contains(all, p.Topic) {
			all = append(all, p.Topic)
		}
	}
	return all
}
