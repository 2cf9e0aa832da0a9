package parity

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

// errUnsupported is for operators that kolk, or this runner, does not have yet.
var errUnsupported = errors.New("not supported yet")

// bound is that of every store: the vectors have few keys.
var bound = store.FiniteKeys(1000)

// A nullable text is a pointer: nil is Kafka's null.
var (
	optional  = serde.Optional(serde.String())
	optionals = serde.Optional(serde.Int64())
)

func topicOf(name string) topology.Topic[string, *string] {
	return topology.NewTopic(name, serde.String(), optional)
}

type (
	texts  = topology.Stream[string, *string]
	counts = topology.Stream[string, *int64]
	record = processor.Record[string, *string]
)

// stream is a stream of a case. rekeyed says that its keys were changed since it was last partitioned by them.
type stream struct {
	texts
	rekeyed bool
}

// graph is a case being built.
type graph struct {
	b       *topology.Builder
	topics  []string
	streams map[string]stream
	counts  map[string]counts
	tables  map[string]topology.Table[string, *string]
	sums    map[string]topology.Table[string, string] // aggregates
	numbers map[string]topology.Table[string, int64]
	groups  map[string]topology.Grouped[string, *string]
	regroup map[string]topology.GroupedTable[string, *string]
	frames  map[string]frame
	windows map[string]inWindows
	sinks   map[string]func(topic string) // of streams of windows
	// versioned are the tables with history, histories how far that goes, ms, by store.
	versioned map[string]versioned
	histories map[string]int64
	asOf      map[string]bool // joins with them, by name
	buffers   map[string]bool // of records that wait for a join
	globals   map[string]topology.GlobalTable[string, *string]
	// stored are readers of the stores, by name, for after the run.
	stored map[string]func(*topologytest.Driver) ([]Stored, error)
}

// build makes the topology of a case.
func build(c *Case) (*graph, *topology.Topology, error) {
	g := &graph{b: topology.New(), versioned: make(map[string]versioned), histories: make(map[string]int64), asOf: make(map[string]bool), buffers: make(map[string]bool), globals: make(map[string]topology.GlobalTable[string, *string]), streams: make(map[string]stream), counts: make(map[string]counts),
		tables: make(map[string]topology.Table[string, *string]), sums: make(map[string]topology.Table[string, string]),
		numbers: make(map[string]topology.Table[string, int64]), groups: make(map[string]topology.Grouped[string, *string]),
		regroup: make(map[string]topology.GroupedTable[string, *string]), frames: make(map[string]frame), windows: make(map[string]inWindows),
		sinks: make(map[string]func(string)), stored: make(map[string]func(*topologytest.Driver) ([]Stored, error))}
	g.b.Default(optional)
	g.b.Default(optionals)
	for _, n := range c.Topology {
		if err := g.node(n); err != nil {
			return nil, nil, fmt.Errorf("node %s (%s): %w", n.ID, n.Op, err)
		}
	}
	top, err := g.b.Build()
	return g, top, err
}

func (g *graph) node(n Node) error {
	switch n.Op {
	case "stream":
		var all []texts
		for _, t := range n.Topics {
			all = append(all, g.b.Stream(topicOf(t)))
		}
		s := all[0]
		if len(all) > 1 {
			s = s.Merge(all[1:]...)
		}
		g.streams[n.ID] = stream{texts: s}
		return nil
	case "table":
		if n.StoreType == "versioned" {
			g.versionedTable(n)
			return nil
		}
		g.table(n.ID, n.Store, g.b.Table(n.Store, topicOf(n.Topic), bound))
		return nil
	case "globalTable":
		g.globals[n.ID] = g.b.GlobalTable(n.Store, topicOf(n.Topic), bound)
		g.stored[n.Store] = reader(g.globals[n.ID].Store(), func(v *string) any { return *v })
		return nil
	case "cogroup":
		return g.cogroup(n)
	case "to":
		return g.to(n)
	case "toStream":
		return g.toStream(n)
	case "join", "leftJoin", "outerJoin":
		return g.join(n)
	}
	if from, ok := g.streams[n.From]; ok {
		return g.streamNode(n, from)
	}
	if from, ok := g.tables[n.From]; ok {
		return g.tableNode(n, from)
	}
	if from, ok := g.groups[n.From]; ok {
		return g.aggregate(n, from)
	}
	if from, ok := g.regroup[n.From]; ok {
		return g.regrouped(n, from)
	}
	if from, ok := g.frames[n.From]; ok {
		return g.framed(n, from)
	}
	if from, ok := g.windows[n.From]; ok && n.Op == "suppress" {
		g.windows[n.ID] = from.suppress(n.Name)
		return nil
	}
	return errUnsupported
}

// table keeps a table, and a reader of its store if it has one.
func (g *graph) table(id, name string, t topology.Table[string, *string]) {
	g.tables[id] = t
	if name != "" {
		g.stored[name] = reader(t.Store(), func(v *string) any { return *v })
	}
}

func (g *graph) to(n Node) error {
	g.topics = append(g.topics, n.Topic)
	switch {
	case g.streams[n.From] != (stream{}):
		g.streams[n.From].To(topicOf(n.Topic))
	case g.counts[n.From] != (counts{}):
		g.counts[n.From].To(topology.NewTopic(n.Topic, serde.String(), optionals))
	case g.sinks[n.From] != nil:
		g.sinks[n.From](n.Topic)
	default:
		return errUnsupported
	}
	return nil
}

// toStream shows deletes, as Kafka Streams does.
func (g *graph) toStream(n Node) error {
	if t, ok := g.tables[n.From]; ok {
		g.streams[n.ID] = stream{texts: t.Changes(func(_ string, c topology.Change[*string]) *string {
			if c.New == nil {
				return nil
			}
			return *c.New
		})}
	} else if t, ok := g.sums[n.From]; ok {
		g.streams[n.ID] = stream{texts: t.Changes(func(_ string, c topology.Change[string]) *string { return c.New })}
	} else if t, ok := g.numbers[n.From]; ok {
		g.counts[n.ID] = t.Changes(func(_ string, c topology.Change[int64]) *int64 { return c.New })
	} else if t, ok := g.windows[n.From]; ok {
		g.sinks[n.ID] = t.stream()
	} else {
		return errUnsupported
	}
	return nil
}

// keyOf is a record's key, nil if it is null.
func keyOf(r record) *string {
	if r.NullKey {
		return nil
	}
	return &r.Key
}

// rekey makes new keys and values of records; a nil function leaves what it would make.
func rekey(s texts, key, value function) stream {
	return stream{rekeyed: true, texts: s.MapRecord(func(r record) record {
		out := r
		if value != nil {
			out.Value = value(keyOf(r), r.Value)
		}
		if key == nil {
			return out
		}
		k := key(keyOf(r), r.Value)
		out.Key, out.NullKey = "", k == nil
		if k != nil {
			out.Key = *k
		}
		return out
	})}
}

func (g *graph) streamNode(n Node, from stream) error {
	switch n.Op {
	case "filter", "filterNot":
		p, err := predicateOf(n.Fn)
		if err != nil {
			return err
		}
		keep := n.Op == "filter"
		g.streams[n.ID] = stream{from.FilterRecord(func(r record) bool { return p(keyOf(r), r.Value) == keep }), from.rekeyed}
	case "mapValues":
		f, err := functionOf(n.Fn)
		if err != nil {
			return err
		}
		type fixed = processor.FixedKeyRecord[string, *string]
		g.streams[n.ID] = stream{from.MapRecordValues(func(r fixed) fixed {
			key := r.Key()
			if r.NullKey() {
				return r.WithValue(f(nil, r.Value))
			}
			return r.WithValue(f(&key, r.Value))
		}), from.rekeyed}
	case "flatMapValues":
		g.streams[n.ID] = stream{from.FlatMapValues(words), from.rekeyed}
	case "selectKey":
		f, err := functionOf(n.Fn)
		if err != nil {
			return err
		}
		g.streams[n.ID] = rekey(from.texts, f, nil)
	case "map":
		k, kerr := functionOf(n.KeyFn)
		v, verr := functionOf(n.ValueFn)
		if err := errors.Join(kerr, verr); err != nil {
			return err
		}
		g.streams[n.ID] = rekey(from.texts, k, v)
	case "merge":
		with, ok := g.streams[n.With]
		if !ok {
			return errUnsupported
		}
		g.streams[n.ID] = stream{from.Merge(with.texts), from.rekeyed || with.rekeyed}
	case "repartition":
		g.streams[n.ID] = stream{texts: from.Repartition(n.Name)}
	case "branch":
		split := from.Split()
		for i, name := range n.Preds {
			p, err := predicateOf(name)
			if err != nil {
				return err
			}
			branch := fmt.Sprintf("%s-%d", n.ID, i)
			g.streams[branch] = stream{split.Branch(branch, func(k string, v *string) bool { return p(&k, v) }), from.rekeyed}
		}
		g.streams[n.ID+"-default"] = stream{split.Rest(), from.rekeyed}
	case "toTable":
		g.table(n.ID, n.Store, from.ToTable(n.Store, bound))
	case "groupByKey":
		g.groups[n.ID] = from.GroupByKey()
	case "groupBy":
		f, err := functionOf(n.Fn)
		if err != nil {
			return err
		}
		g.groups[n.ID] = rekey(from.texts, f, nil).GroupByKey()
	default:
		return errUnsupported
	}
	return nil
}

func (g *graph) tableNode(n Node, from topology.Table[string, *string]) error {
	switch n.Op {
	case "filter", "filterNot":
		p, err := predicateOf(n.Fn)
		if err != nil {
			return err
		}
		keep := n.Op == "filter"
		g.keep(n, from.Filter(func(k string, v *string) bool { return p(&k, v) == keep }))
	case "mapValues":
		f, err := functionOf(n.Fn)
		if err != nil {
			return err
		}
		g.keep(n, from.MapWithKey(func(k string, v *string) *string { return f(&k, v) }))
	case "suppress":
		g.table(n.ID, "", suppressTable(n, from))
	case "groupBy":
		k, kerr := functionOf(n.KeyFn)
		v, verr := functionOf(n.ValueFn)
		if err := errors.Join(kerr, verr); err != nil {
			return err
		}
		g.regroup[n.ID] = from.GroupBy(func(key string, value *string) (string, *string) {
			group := k(&key, value)
			if group == nil {
				return "", nil // a row without a group is left out, as one without a value is
			}
			return *group, v(&key, value)
		})
	default:
		return errUnsupported
	}
	return nil
}

// keep keeps a table that may be stored.
func (g *graph) keep(n Node, t topology.Table[string, *string]) {
	if n.Store != "" {
		t = t.Stored(n.Store)
	}
	g.table(n.ID, n.Store, t)
}

func plus(sum, v *string) *string {
	s := text(sum) + "+" + text(v)
	return &s
}

func minus(sum, v *string) *string {
	s := text(sum) + "-" + text(v)
	return &s
}

func (g *graph) aggregate(n Node, from topology.Grouped[string, *string]) error {
	switch n.Op {
	case "count":
		g.number(n, from.Count(n.Store, bound))
	case "reduce":
		g.table(n.ID, n.Store, from.Reduce(n.Store, bound, plus))
	case "aggregate":
		g.sum(n, from.Aggregate(n.Store, serde.String(), bound, func(_ string, v *string, sum string) string { return sum + "+" + text(v) }))
	case "tumbling", "hopping", "sliding", "session":
		g.frame(n, from)
	default:
		return errUnsupported
	}
	return nil
}

func (g *graph) regrouped(n Node, from topology.GroupedTable[string, *string]) error {
	switch n.Op {
	case "count":
		g.number(n, from.Count(n.Store, bound))
	case "reduce":
		g.table(n.ID, n.Store, from.Reduce(n.Store, bound, plus, minus))
	case "aggregate":
		g.sum(n, from.Aggregate(n.Store, serde.String(), bound, func(_ string, v *string, sum string) string { return sum + "+" + text(v) },
			func(_ string, v *string, sum string) string { return sum + "-" + text(v) }))
	default:
		return errUnsupported
	}
	return nil
}

func (g *graph) number(n Node, t topology.Table[string, int64]) {
	g.numbers[n.ID] = t
	g.stored[n.Store] = reader(t.Store(), func(v int64) any { return float64(v) })
}

func (g *graph) sum(n Node, t topology.Table[string, string]) {
	g.sums[n.ID] = t
	g.stored[n.Store] = reader(t.Store(), func(v string) any { return v })
}

func (g *graph) join(n Node) error {
	if right, ok := g.versioned[n.With]; ok {
		from, ok := g.streams[n.From]
		if !ok {
			return errUnsupported
		}
		return g.joinAsOf(n, from, right)
	}
	if right, ok := g.globals[n.With]; ok {
		from, ok := g.streams[n.From]
		if !ok {
			return errUnsupported
		}
		return g.joinGlobal(n, from, right)
	}
	if right, ok := g.streams[n.With]; ok {
		left, ok := g.streams[n.From]
		if !ok {
			return errUnsupported
		}
		return g.joinStreams(n, left, right)
	}
	right, ok := g.tables[n.With]
	if !ok {
		return errUnsupported
	}
	if left, ok := g.tables[n.From]; ok {
		return g.joinTables(n, left, right)
	}
	if n.Fn != "" {
		return errUnsupported
	}
	if left, ok := g.streams[n.From]; ok {
		s := left.texts
		if left.rekeyed {
			s = s.Repartition(n.Name)
		}
		switch n.Op {
		case "join":
			g.streams[n.ID] = stream{texts: s.JoinTable(right, joined, topology.Named(n.Name))}
		case "leftJoin":
			g.streams[n.ID] = stream{texts: s.LeftJoinTable(right, func(l *string, r **string) *string { return joined(l, side(r)) }, topology.Named(n.Name))}
		default:
			return errUnsupported
		}
		return nil
	}
	return errUnsupported
}

// joinStreams joins two streams, with the moments of Kafka Streams.
func (g *graph) joinStreams(n Node, left, right stream) error {
	within := window.Following(ms(n.After)).Before(ms(n.Before)).Grace(ms(n.Grace))
	opts := []topology.StateOption{topology.Named(n.Name), topology.UnmatchedLate()}
	switch n.Op {
	case "join":
		g.streams[n.ID] = stream{texts: left.Join(n.Name, right.texts, within, joined, opts...)}
	case "leftJoin":
		g.streams[n.ID] = stream{texts: left.LeftJoin(n.Name, right.texts, within, func(l *string, r **string) *string { return joined(l, side(r)) }, opts...)}
	case "outerJoin":
		g.streams[n.ID] = stream{texts: left.OuterJoin(n.Name, right.texts, within, func(l, r **string) *string { return joined(side(l), side(r)) }, opts...)}
	}
	return nil
}

func (g *graph) joinTables(n Node, left, right topology.Table[string, *string]) error {
	leftJoined := func(l *string, r **string) *string { return joined(l, side(r)) }
	if n.Fn != "" {
		f, err := functionOf(n.Fn)
		if err != nil {
			return err
		}
		key := func(k string, v *string) (string, bool) {
			foreign := f(&k, v)
			if foreign == nil {
				return "", false
			}
			return *foreign, true
		}
		switch n.Op {
		case "join":
			g.keep(n, left.JoinForeign(n.Name, right, key, joined))
		case "leftJoin":
			g.keep(n, left.LeftJoinForeign(n.Name, right, key, leftJoined))
		default:
			return errUnsupported
		}
		return nil
	}
	switch n.Op {
	case "join":
		g.keep(n, left.Join(right, joined))
	case "leftJoin":
		g.keep(n, left.LeftJoin(right, leftJoined))
	case "outerJoin":
		g.keep(n, left.OuterJoin(right, func(l, r **string) *string { return joined(side(l), side(r)) }))
	}
	return nil
}

// side is one side of a join, nil if it is missing.
func side(v **string) *string {
	if v == nil {
		return nil
	}
	return *v
}

// reader reads all rows of a store, in order of key.
func reader[V any](h store.KeyValueHandle[string, V], show func(V) any) func(*topologytest.Driver) ([]Stored, error) {
	return func(d *topologytest.Driver) (rows []Stored, err error) {
		for e, err := range d.Store(h).All(ctx) {
			if err != nil {
				return nil, err
			}
			rows = append(rows, Stored{Key: e.Key, Value: show(e.Value), Time: e.Time.UnixMilli()})
		}
		slices.SortFunc(rows, byKey)
		return rows, nil
	}
}
