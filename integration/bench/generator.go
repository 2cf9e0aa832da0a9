package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The shape of event time: a record per Input.Step, out of order by up to jitter. In the window scenario one in lateOne is so late that its window has closed.
const (
	jitter    = 5 * time.Second
	lateOne   = 1000
	lateBy    = 2 * time.Minute
	valueSize = 100

	windowSize  = time.Minute
	windowGrace = 10 * time.Second
	joinWithin  = 10 * time.Second

	// Of the ids: after ten new ones comes one that is up to so many behind.
	repeatAfter = 10
	repeatFrom  = 100_000
)

// generator makes records, always the same ones for the same input.
type generator struct {
	in         Input
	rnd        *rand.Rand
	zipf       *rand.Zipf
	keys       []string
	partitions []int32 // of each key, as Kafka's default partitioner has it
	filler     []byte
	out        []pending
	ids        bool // the keys in out are ids, all in one partition
}

// pending keeps what makes up a record; the record itself is built while producing.
type pending struct {
	topic string
	key   int
	n     uint64
	at    int64 // ms
}

func newGenerator(in Input) *generator {
	g := &generator{in: in, rnd: rand.New(rand.NewPCG(in.Seed, 1)), filler: make([]byte, 4096)}
	g.zipf = rand.NewZipf(g.rnd, 1.1, 1, uint64(in.Keys-1))
	byKey := kgo.StickyKeyPartitioner(nil).ForTopic("")
	for i := range in.Keys {
		key := fmt.Sprintf("key-%08d", i)
		g.keys = append(g.keys, key)
		g.partitions = append(g.partitions, int32(byKey.Partition(&kgo.Record{Key: []byte(key)}, in.Partitions)))
	}
	for i := range g.filler {
		g.filler[i] = byte(g.rnd.Uint32())
	}
	return g
}

// key is the key of the i-th record of a stream.
func (g *generator) key(i int) int {
	switch g.in.Dist {
	case Zipf:
		return int(g.zipf.Uint64())
	case Each:
		return int(uint64(i) * 7_368_787 % uint64(g.in.Keys)) // a prime: every key once, in no order
	default:
		return g.rnd.IntN(g.in.Keys)
	}
}

func (g *generator) add(topic string, key int, n uint64, at time.Time) {
	g.out = append(g.out, pending{topic, key, n, at.UnixMilli()})
}

// stream adds records to a topic and shows each one.
func (g *generator) stream(topic string, records int, first uint64, late bool, each func(key int, n uint64, at time.Time)) {
	for i := range records {
		key, n := g.key(i), first+uint64(i)
		at := g.in.Base.Add(time.Duration(i)*g.in.Step - time.Duration(g.rnd.Int64N(int64(jitter)))).Truncate(time.Millisecond)
		if late && g.rnd.IntN(lateOne) == 0 {
			at = at.Add(-lateBy)
		}
		g.add(topic, key, n, at)
		each(key, n, at)
	}
}

// windowed follows stream time per partition: a record counts unless its window closed before.
func (g *generator) windowed(topic string, last map[string]uint64) (emitted int64) {
	streamTime := make([]int64, g.in.Partitions)
	g.stream(topic, g.in.Records, 0, true, func(key int, _ uint64, at time.Time) {
		now, ms := &streamTime[g.partitions[key]], at.UnixMilli()
		*now = max(*now, ms)
		start := ms - ms%windowSize.Milliseconds()
		if start+windowSize.Milliseconds() > *now-windowGrace.Milliseconds() {
			last[string(binary.BigEndian.AppendUint64([]byte(g.keys[key]), uint64(start)))]++
			emitted++
		}
	})
	return emitted
}

// joined generates two streams side by side and pairs what is close enough in event time.
func (g *generator) joined(left, right string) (pairs int64, sum uint64) {
	type side struct {
		n  uint64
		at time.Time
	}
	seen := make([][]side, g.in.Keys) // of the left stream
	half := g.in.Records / 2
	g.stream(left, half, 0, false, func(key int, n uint64, at time.Time) { seen[key] = append(seen[key], side{n, at}) })
	g.stream(right, g.in.Records-half, 1<<32, false, func(key int, n uint64, at time.Time) {
		for _, l := range seen[key] {
			if l.at.Sub(at).Abs() <= joinWithin {
				pairs++
				sum += hashOutput([]byte(g.keys[key]), numbers(l.n, n))
			}
		}
	})
	return pairs, sum
}

// identified adds records with an id each, in no order, some of which have been there before.
func (g *generator) identified(topic string) (kept int64, sum uint64) {
	g.ids = true
	g.out = make([]pending, 0, g.in.Records+g.in.Records/repeatAfter)
	add := func(number int) uint64 {
		n := uint64(len(g.out))
		at := g.in.Base.Add(time.Duration(n)*g.in.Step - time.Duration(g.rnd.Int64N(int64(jitter))))
		g.add(topic, number, n, at)
		return n
	}
	for number := range g.in.Records {
		sum += hashOutput(id(number), binary.BigEndian.AppendUint64(nil, add(number)))
		if number%repeatAfter == repeatAfter-1 {
			add(max(0, number-g.rnd.IntN(repeatFrom)))
		}
	}
	return int64(g.in.Records), sum
}

const digits = "0123456789abcdefghijklmnopqrstuv"

// id is 12 characters for a number, others for another, in no order.
func id(number int) []byte {
	x := uint64(number) * 0x9e3779b97f4a7c15 // odd, so that the lowest 60 bits of two products differ
	text := make([]byte, 12)
	for i := range text {
		text[i] = digits[x>>(5*(11-i))&31]
	}
	return text
}
