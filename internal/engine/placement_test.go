package engine_test

import (
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
)

// places of a key, by who writes it.
func byJava(key []byte, n int32) int32 { return engine.Partition(key, n) }
func byLibrdkafka(key []byte, n int32) int32 {
	return int32(crc32.ChecksumIEEE(key) % uint32(n))
}
func bySarama(key []byte, n int32) int32 {
	h := fnv.New32a()
	h.Write(key)
	p := int32(h.Sum32()) % n
	return max(p, -p)
}

// The partitions of cases.md are those that the three hashes give.
func TestPT01Hashes(t *testing.T) {
	for _, c := range []struct {
		key                    string
		n, java, rdkafka, goka int32
	}{{"alice", 6, 3, 5, 5}, {"order-42", 6, 0, 4, 2}, {"user-1", 6, 2, 2, 0}, {"TT0124", 15, 10, 9, 2}} {
		k := []byte(c.key)
		if j, r, g := byJava(k, c.n), byLibrdkafka(k, c.n), bySarama(k, c.n); j != c.java || r != c.rdkafka || g != c.goka {
			t.Errorf("%s/%d: %d|%d|%d, want %d|%d|%d", c.key, c.n, j, r, g, c.java, c.rdkafka, c.goka)
		}
	}
}

// The sign is cleared, not negated and not left.
func TestPT02SignBit(t *testing.T) {
	for _, c := range []struct {
		key     string
		hash, n int32
		want    int32
	}{{"TT0124", -1442328778, 15, 10}, {"\x00\x00\x00\x01", -173113808, 6, 0}, {"", 275646681, 6, 275646681 % 6}} {
		if h := int32(engine.Murmur2([]byte(c.key))); h != c.hash {
			t.Errorf("hash of %q: %d, not %d", c.key, h, c.hash)
		}
		if p := engine.Partition([]byte(c.key), c.n); p != c.want {
			t.Errorf("%q of %d: %d, not %d", c.key, c.n, p, c.want)
		}
	}
}

// look shows n keys to a placement, each where by puts it.
func look(p *engine.Placement, n int, by func([]byte, int32) int32) {
	for i := range n {
		key := fmt.Appendf(nil, "key-%d", i)
		if p.Due() {
			p.Saw(key, 6, by(key, 6), engine.Partition(key, 6), int64(i), func() string { return engine.Readable(string(key)) })
		}
	}
}

func TestPlacement(t *testing.T) {
	for _, c := range []struct {
		by     func([]byte, int32) int32
		own    bool
		n      int
		remedy string
	}{
		{byJava, false, 1000, ""},
		{byLibrdkafka, false, 1000, "librdkafka"},
		{bySarama, false, 1000, "sarama"},
		{func(key []byte, n int32) int32 { return (engine.Partition(key, n) + 1) % n }, false, 1000, "let its producers hash keys"},
		{byLibrdkafka, true, 1000, "PartitionedBy"},
		{byLibrdkafka, false, 4, "let its producers hash keys"}, // too few to say
	} {
		p := &engine.Placement{Topic: "in", Own: c.own}
		look(p, c.n, c.by)
		want := int64(min(c.n, 500))
		if c.n > 500 {
			want += int64((c.n - 500) / 97)
		}
		if p.Sampled != want {
			t.Errorf("%d of %d were looked at, want %d", p.Sampled, c.n, want)
		}
		if c.remedy == "" {
			if p.Elsewhere != 0 {
				t.Errorf("%d lie elsewhere", p.Elsewhere)
			}
			continue
		}
		e := p.Example
		if p.Elsewhere == 0 || e.Partition == e.Wanted || e.Key != fmt.Sprintf("%q", fmt.Sprint("key-", e.Offset)) || !strings.Contains(p.Remedy(), c.remedy) || !strings.Contains(p.Remedy(), `Repartition("name")`) {
			t.Errorf("%+v: %s", p, p.Remedy())
		}
		if text := p.Problem(); !strings.Contains(text, fmt.Sprintf("key %s lies at in/%d@%d and belongs to partition %d", e.Key, e.Partition, e.Offset, e.Wanted)) {
			t.Error(text)
		}
		var none engine.Placement
		if sum := none.Add(*p).Add(*p); sum.Elsewhere != 2*p.Elsewhere || sum.Example != e || (c.n > 4 && !c.own && sum.Remedy() != p.Remedy()) {
			t.Errorf("the sum is %+v", sum)
		}
		p.Stop()
		if was := p.Sampled; p.Due() || p.Sampled != was {
			t.Error("it goes on")
		}
	}
}

func TestReadable(t *testing.T) {
	type pair struct{ A, B int }
	if got := engine.Readable("a\x00é"); got != `"a\x00é"` {
		t.Error(got)
	}
	if got := engine.Readable(pair{1, 2}); got != "{1 2}" {
		t.Error(got)
	}
	if got := engine.Readable(strings.Repeat("x", 5000)); len(got) > 110 || !strings.HasPrefix(got, `"xxx`) {
		t.Error(got)
	}
}

func BenchmarkPlacement(b *testing.B) {
	p := &engine.Placement{Topic: "in"}
	key := []byte("customer-1234567")
	for b.Loop() {
		if p.Due() {
			p.Saw(key, 6, 0, engine.Partition(key, 6), 0, func() string { return "" })
		}
	}
}
