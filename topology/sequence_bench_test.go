package topology_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/topology"
)

// sequencing finds, per key, a number that is 0 modulo 4, two that are 1, and one that is 3.
func sequencing(b *topology.Builder) {
	rest := func(n int64) func(int64) bool { return func(v int64) bool { return v&3 == n } }
	p := topology.First("begin", rest(0)).Then("twice", rest(1)).Times(2).Then("end", rest(3)).Within(ms(1 << 40))
	b.Stream(numbers).Sequence("seek", p, func(_ int64, m topology.Match[int64]) int64 { return m.At("begin") + m.At("end") }).To(sums)
}

// follow makes records whose values for each of n keys go 0, 1, 1, 2, 3 for ever, so that every fifth record of a key completes a match.
func (p *pipe) follow(n int) {
	p.prepare(n)
	for i := range p.recs {
		binary.BigEndian.PutUint64(p.recs[i].Value, uint64([]int{0, 1, 1, 2, 3}[i/n%5]))
	}
}

// A record that a partial match takes, and one that none takes, allocate nothing. A match has two slices, and the rows of the next one are new.
func TestSequenceAllocations(t *testing.T) {
	for _, policy := range []engine.PolicyKind{engine.Stop, engine.Skip} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			p := newPipe(t, engine.Policy{Kind: policy}, sequencing)
			p.follow(20)
			for range 3 {
				p.process(t)
				p.commit(t)
			}
			matched := float64(4 * batch / 5)
			if n := testing.AllocsPerRun(10, func() { p.process(t) }); n > matched+20 {
				t.Errorf("%v allocations for %d records, %v are those of the matches", n, batch, matched)
			}
		})
	}
}

// One record: a step of a sequence, or one that no partial match takes; a commit every 500 records.
func BenchmarkSequence(b *testing.B) {
	for _, c := range []struct {
		name    string
		declare func(*topology.Builder)
		set     func(*pipe)
	}{
		{"steps", sequencing, func(p *pipe) { p.follow(100) }},
		{"nothing fits", sequencing, func(p *pipe) {
			p.prepare(100)
			for i := range p.recs {
				binary.BigEndian.PutUint64(p.recs[i].Value, 2)
			}
		}},
		{"100 partial matches a key", func(b *topology.Builder) {
			p := topology.First("any", func(int64) bool { return true }).Then("never", func(v int64) bool { return v < 0 }).Within(ms(1 << 40))
			in := b.Stream(numbers).Sequence("seek", p, func(int64, topology.Match[int64]) int64 { return 0 })
			in.To(sums)
		}, func(p *pipe) { p.follow(100) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newPipe(b, engine.Policy{}, c.declare)
			c.set(p)
			b.ReportAllocs()
			for i := 0; i < b.N; i += batch {
				p.process(b)
				p.commit(b)
			}
		})
	}
}

// Each key begins a match with each of its records and time ends it: rows by time come and go.
func BenchmarkSequenceTime(b *testing.B) {
	p := newPipe(b, engine.Policy{}, func(b *topology.Builder) {
		p := topology.First("any", func(int64) bool { return true }).ThenNot("never", func(v int64) bool { return v < 0 }).Within(ms(1000))
		b.Stream(numbers).Sequence("seek", p, func(int64, topology.Match[int64]) int64 { return 0 }).To(sums)
	})
	p.prepare(250)
	b.ReportAllocs()
	for i := 0; i < b.N; i += batch {
		for j := range p.recs {
			p.recs[j].Time = int64(i + j)
			binary.BigEndian.PutUint64(p.recs[j].Key, uint64(i+j))
		}
		p.process(b)
		p.commit(b)
	}
}
