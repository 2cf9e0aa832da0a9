package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

var totals = store.NewKeyValue("totals", serde.String(), serde.Int64(), few)

// totaler counts letters per key, sends totals on, long words to a further output, and all totals each 10 ms of stream time.
type totaler struct {
	totals store.KeyValue[string, int64]
	ended  *int
}

var long = processor.NewOutput[string, string]("long")

func (p *totaler) Init(ctx *processor.Context[string, int64]) error {
	p.totals = ctx.Store(totals)
	ctx.Every(10*time.Millisecond, processor.StreamTime, func(now time.Time) error {
		for k, n := range p.totals.All() {
			ctx.Forward(processor.Record[string, int64]{Key: k, Value: -n, Time: now})
		}
		return nil
	})
	return nil
}

func (p *totaler) Process(ctx *processor.Context[string, int64], r processor.Record[string, string]) error {
	if r.Value == "bad" {
		return errors.New("bad word")
	}
	n, _ := p.totals.Get(r.Key)
	n += int64(len(r.Value))
	p.totals.Put(r.Key, n)
	ctx.Forward(r.WithValue(n))
	if len(r.Value) > 3 {
		m, ok := ctx.Metadata()
		ctx.ForwardTo(long, r.WithKey(fmt.Sprintf("%s/%d@%d %v", m.Topic, m.Partition, m.Offset, ok)))
	}
	return nil
}

func (p *totaler) Close() error { *p.ended++; return nil }

func TestProcess(t *testing.T) {
	ended := 0
	w := run(t, func(b *topology.Builder) {
		p := b.Stream(words).Process("total", func() *totaler { return &totaler{ended: &ended} }, totals, topology.OnError(topology.Skip))
		p.Filter(func(string, int64) bool { return true }).To(counts)
		p.Output(long).To(more)
		p.Output(long).MapValues(upper).To(joined)
	})
	w.send("words", "k=ab@5", "k=bad@6", "k=abcd@12")
	w.wants("counts", "k=2@5 k=-2@5 k=6@12 k=-6@12")
	w.wants("more", "words/0@2 true=abcd@12")
	w.wants("joined", "words/0@2 true=ABCD@12")
	w.dropped("total skipped")
	w.commit()
	w.logged("totals", "k=6@12")
	if err := w.tasks[0].Rewind(); err != nil {
		t.Fatal(err)
	}
	if ended != 1 {
		t.Errorf("closed %d times", ended)
	}
}

// doubler keeps the key, and sends what is due from a timer.
type doubler struct{ key string }

func (p *doubler) Init(ctx *processor.FixedKeyContext[string, int64]) error {
	ctx.Every(time.Second, processor.WallTime, func(now time.Time) error {
		ctx.Forward(ctx.Record(p.key, 7, now))
		return nil
	})
	return nil
}

func (p *doubler) Process(ctx *processor.FixedKeyContext[string, int64], r processor.FixedKeyRecord[string, string]) error {
	p.key = r.Key()
	switch r.Value {
	case "literal":
		ctx.Forward(processor.FixedKeyRecord[string, int64]{Value: 1, Time: r.Time})
	case "old":
		r.Time = time.UnixMilli(-1)
	case "other":
		p.key = "elsewhere"
	}
	ctx.Forward(r.WithValue(int64(2 * len(r.Value))))
	return nil
}

func TestProcessValues(t *testing.T) {
	start := func(partitions int32) *world {
		return run(t, func(b *topology.Builder) {
			b.Stream(words).ProcessValues("double", func() *doubler { return new(doubler) }).GroupByKey().Count("c", few).To(counts)
		}, func(w *world) {
			w.counts = map[string]int32{"words": partitions}
			w.partition = engine.Partition([]byte("k"), partitions)
		})
	}
	w := start(6)
	w.send("words", "k=ab@5")
	if err := w.tasks[0].Punctuate(1000); err != nil {
		t.Fatal(err)
	}
	w.wants("counts", "k=1@5 k=2@1000")
	if n := len(w.graph.Subs); n != 1 {
		t.Errorf("%d sub-topologies: the key was kept", n)
	}

	for record, want := range map[string]string{"k=literal@5": "without a key", "k=old@5": "before 1970"} {
		err := start(6).try("words", record)
		failed, ok := errors.AsType[*engine.RecordError](err)
		if !ok || failed.Node != "double" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", record, err)
		}
	}

	w = start(6)
	w.send("words", "k=other@5")
	if err := w.tasks[0].Punctuate(1000); err == nil || !strings.Contains(err.Error(), "a key of partition") {
		t.Errorf("a key of another partition: %v", err)
	}
}

// opener opens a store that it was not given, or was given under other types.
type opener struct {
	open func(ctx *processor.Context[string, string])
}

func (p opener) Init(ctx *processor.Context[string, string]) error { p.open(ctx); return nil }
func (opener) Process(*processor.Context[string, string], processor.Record[string, string]) error {
	return nil
}

func TestStoresOfProcessors(t *testing.T) {
	other := store.NewKeyValue("totals", serde.String(), serde.String(), few)
	for _, c := range []struct {
		name string
		open func(ctx *processor.Context[string, string])
		opts []topology.ProcessOption
		want string
	}{
		{"not connected", func(ctx *processor.Context[string, string]) { ctx.Store(totals) }, nil, `processor "p"`},
		{"other types", func(ctx *processor.Context[string, string]) { ctx.Store(other) }, []topology.ProcessOption{totals}, "other types"},
		{"never declared", func(ctx *processor.Context[string, string]) {
			ctx.Store(store.KeyValueHandle[string, string]{})
		}, nil, "never declared"},
		{"an interval of nothing", func(ctx *processor.Context[string, string]) {
			ctx.Every(0, processor.WallTime, func(time.Time) error { return nil })
		}, nil, "at least 1 ms"},
		{"a panic", func(ctx *processor.Context[string, string]) { panic("oh") }, nil, "oh"},
	} {
		g := engine.GraphOf(build(t, func(b *topology.Builder) {
			b.Stream(words).Process("p", func() opener { return opener{c.open} }, c.opts...)
		}))
		_, err := engine.Open(g.Subs[0], 0, engine.Env{App: "app"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

// reader reads the rows of a table.
type reader struct {
	rows store.KeyValue[string, string]
}

var rowsOf store.KeyValueHandle[string, string]

func (p *reader) Init(ctx *processor.Context[string, string]) error {
	p.rows = ctx.Store(rowsOf)
	return nil
}

func (p *reader) Process(ctx *processor.Context[string, string], r processor.Record[string, string]) error {
	v, _ := p.rows.Get(r.Key)
	ctx.Forward(r.WithValue(r.Value + v))
	return nil
}

// A processor may open the store of a table; both are then in one sub-topology.
func TestTableInProcessor(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		rowsOf = b.Table("rows", more, few).Store()
		b.Stream(words).Process("read", func() *reader { return new(reader) }, rowsOf).To(joined)
	}, func(w *world) { w.env.MaxIdle = -1 })
	w.send("more", "k=row@1")
	w.send("words", "k=v@2")
	w.wants("joined", "k=vrow@2")
	if n := len(w.graph.Subs); n != 1 {
		t.Errorf("%d sub-topologies", n)
	}
}
