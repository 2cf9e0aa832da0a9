package topology

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// Builder collects a topology. It is not for use by many goroutines. Mistakes do not panic: they are kept and returned by Build. Make one with New.
type Builder struct {
	nodes    []*node
	names    map[string]*node
	count    int // next number of a node's name
	version  int
	defaults map[reflect.Type]registered
	topics   map[string]*known
	sources  map[string]any // *origin by topic
	tables   []*tableInfo
	stores   []*storeRef
	globals  []*global
	checked  map[*state.Decl]bool // stores of the user whose declaration is looked at
	later    []func()             // checks that need the whole graph
	faults   faults
	built    bool
}

type registered struct {
	serde any
	place string
}

// New returns an empty Builder.
func New() *Builder {
	return &Builder{names: make(map[string]*node), defaults: make(map[reflect.Type]registered), topics: make(map[string]*known), sources: make(map[string]any), checked: make(map[*state.Decl]bool)}
}

// Version says that the meaning of the whole topology has changed: it holds for every store without a store.Version of its own, and for repartition topics that belong to
// no store. It is part of the fingerprint. n is at least 1.
func (b *Builder) Version(n int) {
	b.open("Version")
	if n < 1 {
		b.faults.add(len(b.nodes), "Version", fmt.Sprintf("version %d", n), "count versions from 1; leave Version out for names without a suffix", caller())
		return
	}
	b.version = n
}

// Default registers the serde for streams whose type came from a function. It may be called before or after their declaration. Two different ones for one type are a fault.
func (b *Builder) Default[T any](s serde.Serde[T]) {
	b.open("Default")
	t, place := reflect.TypeFor[T](), caller()
	if s == nil {
		b.faults.add(len(b.nodes), "Default", fmt.Sprintf("the serde for %v is nil", t), "give a serde", place)
		return
	}
	if first, ok := b.defaults[t]; ok && !serde.Same(first.serde, s) {
		b.faults.add(len(b.nodes), "Default", fmt.Sprintf("a second serde for %v; the first is registered at %s", t, first.place), "register one, and set the other with WithKey or WithValue where it is wanted", place)
		return
	}
	b.defaults[t] = registered{s, place}
}

// open is a fault after Build.
func (b *Builder) open(method string) {
	if b.built {
		b.faults.add(len(b.nodes), method, "it was called after Build", "declare everything first, then call Build", caller())
	}
}

// origin is the one source of a topic.
type origin[K comparable, V any] struct {
	*node
	topic  Topic[K, V]
	opts   settings
	takes  []func(*wiring, serde.Serde[V]) operator.Take[K, V]
	events bool // a stream reads it already
}

// sourceOf is the source of a topic, made when the topic is first read. It is nil if the topic is read with other types already, which is a fault.
func sourceOf[K comparable, V any](b *Builder, t Topic[K, V], o settings) *origin[K, V] {
	at := len(b.nodes)
	use(b, at, t, o.place)
	if was, ok := b.sources[t.name]; ok {
		b.count++
		src, ok := was.(*origin[K, V])
		if ok && !src.opts.same(o) {
			b.faults.add(at, t.name, "the topic is read with other options than at "+src.run.Place, "it is read once for all its readers: give all of them the same From, FillTime, OnError, OnDrop and Named", o.place)
		}
		return src
	}
	p := add[K, V](b, b.number("KSTREAM-SOURCE-", o), o)
	p.kind, p.start, p.topic, p.ownWay = source, o.start, &engine.Topic{Name: t.name}, t.partition != nil
	if t.byKey != nil {
		p.byKey = t.byKey
	}
	src := &origin[K, V]{node: p.node, topic: t, opts: o}
	p.reader = src.wire
	b.sources[t.name] = src
	return src
}

func (s *origin[K, V]) wire(w *wiring) {
	full := s.node.topic.Full(w.task.Env().App)
	key, err := operator.Bound(w.task, s.topic.key, full, true)
	if err != nil {
		w.fail(err)
		return
	}
	value, err := operator.Bound(w.task, s.topic.value, full, false)
	if err != nil {
		w.fail(err)
		return
	}
	takes := make([]operator.Take[K, V], len(s.takes))
	for i, take := range s.takes {
		takes[i] = take(w, value)
	}
	reader := operator.NewSource(w.task, s.run, key, value, s.topic.timeOf(), takes)
	if s.opts.fillTime {
		reader.FillTime()
	}
	reader.CheckPlaces(w.task.Placement(slices.Index(w.inputs, s.node)), span.TailOf(s.topic.key), s.topic.partitionOf())
	w.read(s.node, reader)
}

// Stream reads a topic as a stream of events. Null-valued records are dropped and counted under "null_value", unless the topic's serde is
// serde.Optional. For the types a key may have see the package comment.
//
// A topic is read once, however often it is asked for: each record goes to its readers, streams and tables, in the order of their declaration. So a stream joined with a
// table of its own topic sees its own record if the table was declared first. Nulls delete from the table and stay out of the stream. Options that differ are a
// fault.
func (b *Builder) Stream[K comparable, V any](t Topic[K, V], opts ...SourceOption) Stream[K, V] {
	src := sourceOf(b, t, gather(b, opts))
	if src == nil {
		return Stream[K, V]{}
	}
	out := &place[K, V]{node: src.node}
	counts := !src.events
	src.events = true
	src.takes = append(src.takes, func(w *wiring, value serde.Serde[V]) operator.Take[K, V] {
		return operator.Events(w.task, src.run, value, counts, out.receive(w))
	})
	c, v := codec[K]{s: t.key, from: src.node}, codec[V]{s: t.value, from: src.node}
	return Stream[K, V]{&stream[K, V]{at: out, key: c, value: v, fromKey: &c, fromValue: &v}}
}

// Table reads a topic as a table: the latest value of each key; null deletes. Records with a null key are dropped and counted. The topic may be read as a stream too, see
// Stream. The rows are stored, under name, only if something needs them stored: a join, a grouping, Changes, Store, a TTL, whose deletes must reach what follows.
func (b *Builder) Table[K comparable, V any](name string, t Topic[K, V], bound store.Bound, opts ...TableOption) Table[K, V] {
	o := gather(b, opts)
	forSource := o
	forSource.name, forSource.named = "", false // the name is the table's
	src := sourceOf(b, t, forSource)
	if src == nil {
		return Table[K, V]{}
	}
	out := add[K, operator.Change[V]](b, b.number("KTABLE-SOURCE-", o), o, src.node)
	key, value := codec[K]{s: t.key, from: src.node}, codec[V]{s: t.value, from: src.node}
	rows := declare[K, V](b, name, bound, o)
	rows.belongs(out.node, key, value)
	if o.sourceChangelog {
		rows.source = src.node
	}
	tab := sourceTable(out, key, value, rows)
	src.takes = append(src.takes, func(w *wiring, _ serde.Serde[V]) operator.Take[K, V] { return tab.take(w) })
	tab.fromKey, tab.fromValue = &key, &value
	return Table[K, V]{tab}
}
