package topology_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/store/memstore"
	"github.com/kolkstreams/kolk/topology"
)

// discard is a sink that keeps nothing.
type discard struct{}

func (discard) Emit(string, int32, []byte, []byte, int64, []engine.Header) error { return nil }

// pipe is a task that is fed with prepared records.
type pipe struct {
	task *engine.Task
	recs []engine.Record
	next int64
}

func newPipe(tb testing.TB, policy engine.Policy, declare func(b *topology.Builder)) *pipe {
	b := topology.New()
	declare(b)
	top, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	task, err := engine.Open(engine.GraphOf(top).Subs[0], 0, engine.Env{App: "app", Context: context.Background(), Log: slog.New(slog.DiscardHandler), Output: discard{},
		Partitions: func(string) int32 { return 8 }, Disk: memstore.New(), Memory: memstore.New(), Wall: func() int64 { return 0 }, OnProcess: policy, OnProduce: policy})
	if err != nil {
		tb.Fatal(err)
	}
	task.Start(0, 0, 0, engine.Meta{PartitionTime: -1})
	return &pipe{task: task}
}

// batch is how many records a pipe is given at a time.
const batch = 500

// prepare makes records with one of n int64 keys and an int64 value each.
func (p *pipe) prepare(n int) {
	p.recs = make([]engine.Record, batch)
	for i := range p.recs {
		p.recs[i].Key = binary.BigEndian.AppendUint64(nil, uint64(i%n))
		p.recs[i].Value = binary.BigEndian.AppendUint64(nil, uint64(i))
		p.recs[i].Time = int64(i)
	}
}

// process takes one batch through the task.
func (p *pipe) process(tb testing.TB) {
	for i := range p.recs {
		p.recs[i].Offset = p.next
		p.next++
	}
	p.task.Add(0, p.recs, p.next, p.next)
	for {
		did, err := p.task.Process(0)
		if err != nil {
			tb.Fatal(err)
		}
		if !did {
			return
		}
	}
}

func (p *pipe) commit(tb testing.TB) {
	err := p.task.Flush(func(*state.Decl, []byte, []byte, int64) error { return nil })
	if err == nil {
		err = p.task.Committed()
	}
	if err != nil {
		tb.Fatal(err)
	}
}

var (
	numbers = topology.NewTopic("numbers", serde.Int64(), serde.Int64())
	sums    = topology.NewTopic("sums", serde.Int64(), serde.Int64())
)

func counting(b *topology.Builder) {
	b.Stream(numbers).
		Filter(func(_, v int64) bool { return v >= 0 }).
		MapValues(func(v int64) int64 { return v + 1 }).
		GroupByKey().
		Count("count", store.FiniteKeys(1000)).
		To(sums)
}

// A record goes through the operators without an allocation, whatever the policy for failures.
func TestNoAllocations(t *testing.T) {
	for _, c := range []struct {
		name    string
		declare func(b *topology.Builder)
	}{
		{"count", counting},
		{"stateless", func(b *topology.Builder) {
			split := b.Stream(numbers).Peek(func(_, _ int64) {}).SelectKey(func(_, v int64) int64 { return v }).
				Map(func(k, v int64) (int64, int64) { return v, k }).MapWithKey(func(k, v int64) int64 { return k + v }).Split()
			odd := split.Branch("odd", func(_, v int64) bool { return v%2 == 1 })
			odd.Merge(split.Rest()).To(sums)
		}},
		{"aggregate", func(b *topology.Builder) {
			b.Stream(numbers).GroupByKey().Aggregate("sum", serde.Int64(), store.FiniteKeys(1000), func(_, v, sum int64) int64 { return sum + v }).
				Filter(func(_, sum int64) bool { return sum%2 == 0 }).MapValues(func(sum int64) int64 { return -sum }).To(sums)
		}},
		{"table", func(b *topology.Builder) {
			b.Table("t", numbers, store.FiniteKeys(1000)).GroupBy(func(k, v int64) (int64, int64) { return v, k }).Count("by-value", store.FiniteKeys(1000))
		}},
		{"join", func(b *topology.Builder) {
			t := b.Table("t", numbers, store.FiniteKeys(1000))
			b.Stream(numbers).JoinTable(t, func(v, row int64) int64 { return v - row }).To(sums)
		}},
	} {
		for _, policy := range []engine.Policy{{Kind: engine.Stop}, {Kind: engine.Skip}} {
			t.Run(fmt.Sprintf("%s/%d", c.name, policy.Kind), func(t *testing.T) {
				p := newPipe(t, policy, c.declare)
				p.prepare(50)
				p.process(t)
				p.commit(t)
				p.process(t)
				// A few for the batch as a whole are the queue's.
				if n := testing.AllocsPerRun(10, func() { p.process(t) }); n > 5 {
					t.Errorf("%v allocations for %d records", n, batch)
				}
			})
		}
	}
}

// One record: filter, mapValues, count, one sink; a commit every 500 records.
func BenchmarkCount(b *testing.B) {
	for _, keys := range []int{50, 500} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			p := newPipe(b, engine.Policy{}, counting)
			p.prepare(keys)
			b.ReportAllocs()
			for i := 0; i < b.N; i += batch {
				p.process(b)
				p.commit(b)
			}
		})
	}
}
