package topology

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kolkstreams/kolk/internal/engine"
)

// Describe is the text Kafka Streams prints for a topology, so that its viewers can draw ours.
func (t *Topology) Describe() string {
	var b strings.Builder
	b.WriteString("Topologies:\n")
	for i, p := range t.parts {
		if p.global {
			fmt.Fprintf(&b, "  Sub-topology: %d for global store (will not generate tasks)\n", i)
		} else {
			fmt.Fprintf(&b, "   Sub-topology: %d\n", i)
		}
		for _, n := range p.nodes {
			switch n.kind {
			case source:
				fmt.Fprintf(&b, "    Source: %s (topics: [%s])\n", n.run.Name, topicName(n.topic))
			case sinkNode:
				fmt.Fprintf(&b, "    Sink: %s (topic: %s)\n", n.run.Name, n.target())
			case inner:
				fmt.Fprintf(&b, "    Processor: %s (stores: [%s])\n", n.run.Name, strings.Join(n.storeNames(), ", "))
			}
			if n.kind != sinkNode {
				fmt.Fprintf(&b, "      --> %s\n", runNames(p.children(n)))
			}
			if n.kind != source {
				fmt.Fprintf(&b, "      <-- %s\n", runNames(n.parents))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// topicName is a topic's name without the application's.
func topicName(t *engine.Topic) string { return strings.TrimPrefix(t.Full(""), "-") }

func (n *node) target() string {
	if n.dynamic {
		return "<chosen by record>"
	}
	return topicName(n.topic)
}

func (n *node) storeNames() (names []string) {
	for _, d := range n.stores {
		names = append(names, d.Name)
	}
	return names
}

func (p part) children(n *node) (out []*node) {
	for _, c := range p.nodes {
		if slices.Contains(c.parents, n) {
			out = append(out, c)
		}
	}
	return out
}

func runNames(nodes []*node) string {
	if len(nodes) == 0 {
		return "none"
	}
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.run.Name
	}
	return strings.Join(names, ", ")
}

// picture is what a drawing of a topology consists of.
type picture struct {
	parts  []drawnPart
	topics []drawn // outside all sub-topologies
	arrows [][2]string
}

type drawnPart struct{ nodes, stores []drawn }

// drawn is a box: an id that every drawing language takes, and its text.
type drawn struct{ id, text string }

func (t *Topology) draw() picture {
	var pic picture
	topics := make(map[string]string)
	topic := func(name string) string {
		if topics[name] == "" {
			topics[name] = fmt.Sprintf("t%d", len(topics))
			pic.topics = append(pic.topics, drawn{topics[name], name})
		}
		return topics[name]
	}
	ids, stores := make(map[*node]string), make(map[string]string)
	for _, p := range t.parts {
		var part drawnPart
		for _, d := range p.stores {
			stores[d.Name] = fmt.Sprintf("s%d", len(stores))
			part.stores = append(part.stores, drawn{stores[d.Name], d.Name})
		}
		for _, n := range p.nodes {
			ids[n] = fmt.Sprintf("n%d", n.id)
			part.nodes = append(part.nodes, drawn{ids[n], n.run.Name})
			for _, parent := range n.parents {
				pic.arrows = append(pic.arrows, [2]string{ids[parent], ids[n]})
			}
			switch n.kind {
			case source:
				pic.arrows = append(pic.arrows, [2]string{topic(topicName(n.topic)), ids[n]})
			case sinkNode:
				pic.arrows = append(pic.arrows, [2]string{ids[n], topic(n.target())})
			}
			for _, d := range n.stores {
				pic.arrows = append(pic.arrows, [2]string{ids[n], stores[d.Name]})
			}
		}
		pic.parts = append(pic.parts, part)
	}
	return pic
}

// DOT is the graph in the language of Graphviz: topics as ellipses, stores as cylinders, sub-topologies as frames.
func (t *Topology) DOT() string {
	pic := t.draw()
	var b strings.Builder
	b.WriteString("digraph topology {\n\trankdir=TB\n\tnode [shape=box]\n")
	for _, x := range pic.topics {
		fmt.Fprintf(&b, "\t%s [shape=ellipse label=%q]\n", x.id, x.text)
	}
	for i, p := range pic.parts {
		fmt.Fprintf(&b, "\tsubgraph cluster_%d {\n\t\tlabel=\"sub-topology %d\"\n", i, i)
		for _, x := range p.nodes {
			fmt.Fprintf(&b, "\t\t%s [label=%q]\n", x.id, x.text)
		}
		for _, x := range p.stores {
			fmt.Fprintf(&b, "\t\t%s [shape=cylinder label=%q]\n", x.id, x.text)
		}
		b.WriteString("\t}\n")
	}
	for _, a := range pic.arrows {
		fmt.Fprintf(&b, "\t%s -> %s\n", a[0], a[1])
	}
	b.WriteString("}\n")
	return b.String()
}

// Mermaid is the graph as a Mermaid flow chart.
func (t *Topology) Mermaid() string {
	pic := t.draw()
	var b strings.Builder
	b.WriteString("flowchart TB\n")
	for _, x := range pic.topics {
		fmt.Fprintf(&b, "  %s([\"%s\"])\n", x.id, mermaidText(x.text))
	}
	for i, p := range pic.parts {
		fmt.Fprintf(&b, "  subgraph sub%d[\"sub-topology %d\"]\n", i, i)
		for _, x := range p.nodes {
			fmt.Fprintf(&b, "    %s[\"%s\"]\n", x.id, mermaidText(x.text))
		}
		for _, x := range p.stores {
			fmt.Fprintf(&b, "    %s[(\"%s\")]\n", x.id, mermaidText(x.text))
		}
		b.WriteString("  end\n")
	}
	for _, a := range pic.arrows {
		fmt.Fprintf(&b, "  %s --> %s\n", a[0], a[1])
	}
	return b.String()
}

// mermaidText keeps what Mermaid would take for its own. Names have no quotes in them.
func mermaidText(s string) string {
	return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(s)
}
