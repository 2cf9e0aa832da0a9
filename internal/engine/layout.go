package engine

import "fmt"

// Misfit is a topic whose partition count does not fit the graph.
type Misfit struct{ Topic, Problem, Remedy string }

// Layout works out how many partitions the repartition topics have, from the counts of the user's topics by full name, and checks that what
// must be partitioned alike is. Rules, as in Kafka Streams: a repartition topic has the count its node asked for; else that of the user's
// topics it must match; else the largest count among the sources of the sub-topology that writes it, found step by step along chains of
// repartition topics. An internal topic that Follows another input has its count, and stands for it wherever it must match. The result holds the count of every input of the graph, by full name. Topics that count does not have are left to
// the caller: they are misfits only where nothing can be worked out without them.
func Layout(g *Graph, app string, count map[string]int32) (map[string]int32, []Misfit) {
	l := layout{app: app, g: g, n: make(map[string]int32), explicit: make(map[string]bool), user: make(map[string]bool)}
	for topic, n := range count {
		l.n[topic] = n
	}
	var internal, followers []*Input
	for _, s := range g.Subs {
		for _, in := range s.Inputs {
			if !in.Repartition {
				l.user[in.Full(app)] = true
				continue
			}
			delete(l.n, in.Full(app)) // the topology decides, not what is there
			if in.Follows != nil {
				followers = append(followers, in)
				continue
			}
			internal = append(internal, in)
			if in.Partitions > 0 {
				l.n[in.Full(app)], l.explicit[in.Full(app)] = in.Partitions, true
			}
		}
	}
	for progress := true; progress; {
		progress = false
		for _, in := range internal {
			if name := in.Full(app); l.n[name] == 0 {
				if n := l.wanted(in); n > 0 {
					l.n[name], progress = n, true
				}
			}
		}
	}
	for _, in := range internal {
		if l.n[in.Full(app)] == 0 {
			l.misfit(in.Full(app), "its number of partitions follows from nothing: what writes it reads only repartition topics that depend on it", "give topology.Partitions to one of them")
		}
	}
	l.match()
	for _, in := range followers {
		l.n[in.Full(app)] = l.n[l.root(in)]
	}
	return l.n, l.bad
}

type layout struct {
	app      string
	g        *Graph
	n        map[string]int32
	explicit map[string]bool
	user     map[string]bool // topics of the user's that are read
	bad      []Misfit
}

// root is the name of the topic that decides about an input's count: its own, or that of the input it follows.
func (l *layout) root(in *Input) string {
	for in.Follows != nil {
		in = in.Follows
	}
	return in.Full(l.app)
}

func (l *layout) misfit(topic, problem, remedy string) {
	l.bad = append(l.bad, Misfit{topic, problem, remedy})
}

// wanted is the count of a repartition topic as far as it can be worked out now; 0 if it cannot yet.
func (l *layout) wanted(in *Input) int32 {
	name := in.Full(l.app)
	var peers int32
	for _, s := range l.g.Subs {
		for _, c := range s.Copartitioned {
			names, has := l.names(s, c), false
			for _, other := range names {
				has = has || other == name
			}
			if !has {
				continue
			}
			for _, other := range names {
				if l.user[other] || l.explicit[other] || l.n[other] > 0 {
					return l.n[other]
				}
				peers = max(peers, l.follows(other))
			}
		}
	}
	if peers > 0 {
		return peers
	}
	return l.follows(name)
}

func (l *layout) names(s *Sub, c Copartition) []string {
	out := make([]string, len(c.Inputs))
	for i, in := range c.Inputs {
		out[i] = l.root(s.Inputs[in])
	}
	return out
}

// follows is the largest count among the inputs of the sub-topologies that write a topic; 0 while one of them is not known.
func (l *layout) follows(topic string) (n int32) {
	for _, s := range l.g.Subs {
		for _, out := range s.Outputs {
			if out.Full(l.app) != topic {
				continue
			}
			for _, in := range s.Inputs {
				from := l.root(in)
				if from == topic {
					continue
				}
				if l.n[from] == 0 {
					return 0
				}
				n = max(n, l.n[from])
			}
		}
	}
	return n
}

// match checks the demands for equal counts.
func (l *layout) match() {
	for _, s := range l.g.Subs {
		for _, c := range s.Copartitioned {
			names := l.names(s, c)
			first := names[0]
			for _, name := range names[1:] {
				if l.n[name] == 0 || l.n[first] == 0 || l.n[name] == l.n[first] {
					continue
				}
				where := ""
				if c.Node != nil {
					where = fmt.Sprintf(" at %q (%s)", c.Node.Name, c.Node.Place)
				}
				remedy := "give both the same number, or put Repartition before the join on one side"
				if !l.user[name] {
					remedy = "leave out topology.Partitions there, or give the same number"
				}
				l.misfit(name, fmt.Sprintf("it has %d partitions and %s has %d, but both are brought together by key%s", l.n[name], first, l.n[first], where), remedy)
			}
		}
	}
}

// Tasks is the number of tasks of a sub-topology: the largest partition count among its inputs.
func (s *Sub) Tasks(app string, count map[string]int32) (n int32) {
	for _, in := range s.Inputs {
		n = max(n, count[in.Full(app)])
	}
	return n
}
