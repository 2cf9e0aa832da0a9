package chaos

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

// How many words there are: few, so that a row is updated often and a wrong one is met again, or as many as make a store large.
const (
	countKeys = 2000
	wideKeys  = 1_000_000
)

// count counts words that arrive under other keys: each crosses a repartition topic.
//
//	in -> by word -> count -> out
type count struct {
	app    string
	keys   int
	random *rand.Rand // nil: words come in turn
	sent   int64
	want   map[Row]Value
}

func newCount(application string, seed uint64) (Job, error) {
	return &count{app: application, keys: countKeys, random: rand.New(rand.NewPCG(seed, 1)), want: make(map[Row]Value)}, nil
}

func newWide(application string, _ uint64) (Job, error) {
	return &count{app: application, keys: wideKeys, want: make(map[Row]Value)}, nil
}

func (c *count) in() string  { return c.app + "-in" }
func (c *count) out() string { return c.app + "-out" }

func (c *count) Inputs() []string { return []string{c.in()} }

func (c *count) Outputs() map[string]Output {
	return map[string]Output{c.out(): {Counted, c.app + "-counts-changelog"}}
}

func (c *count) Internal() []string { return []string{c.app + "-by-word-repartition"} }

func (c *count) Tasks(partitions int32) int { return 2 * int(partitions) }

func (c *count) Topology(m Meter) (*topology.Topology, error) {
	b := topology.New()
	b.Stream(topology.NewTopic(c.in(), serde.String(), serde.String())).
		SelectKey(func(_, word string) string { return word }).
		Repartition("by-word").
		ProcessValues("meter", func() *metered { return &metered{m: m, keys: c.keys} }).
		GroupByKey().
		Count("counts", store.FiniteKeys(int64(c.keys))).
		To(topology.NewTopic(c.out(), serde.String(), serde.Int64()))
	return b.Build()
}

// metered tells the meter of the records that pass.
type metered struct {
	m    Meter
	keys int
	told bool
}

// Process implements processor.FixedKeyProcessor.
func (p *metered) Process(ctx *processor.FixedKeyContext[string, string], r processor.FixedKeyRecord[string, string]) error {
	key, err := wordNumber(r.Key(), p.keys)
	if err != nil {
		return err
	}
	if !p.told {
		p.told = true
		p.m.First(ctx.TaskID())
	}
	p.m.Seen(key)
	ctx.Forward(r)
	return nil
}

func word(n int) string { return "w" + strconv.Itoa(n) }

func wordNumber(word string, keys int) (int, error) {
	if len(word) < 2 {
		return 0, fmt.Errorf("word %q has no number", word)
	}
	n, err := strconv.Atoi(word[1:])
	if err == nil && (n < 0 || n >= keys) {
		err = fmt.Errorf("word %q is not one of %d", word, keys)
	}
	return n, err
}

func (c *count) First() []*kgo.Record { return nil }

func (c *count) Next() *kgo.Record {
	n := int(c.sent) % c.keys
	if c.random != nil {
		n = c.random.IntN(c.keys)
	}
	return c.record(word(n))
}

func (c *count) record(word string) *kgo.Record {
	c.sent++
	return &kgo.Record{Topic: c.in(), Key: strconv.AppendInt(nil, c.sent, 10), Value: []byte(word), Timestamp: time.Now()}
}

func (c *count) Touch() (all []*kgo.Record) {
	for n := range c.keys {
		all = append(all, c.record(word(n)))
	}
	return all
}

func (c *count) Add(r *kgo.Record) error {
	row := Row{c.out(), string(r.Value)}
	c.want[row] = Value{N: c.want[row].N + 1}
	return nil
}

func (c *count) Last() []*kgo.Record { return nil }

func (c *count) Sent() int64 { return c.sent }

func (c *count) Want() map[Row]Value { return c.want }

func (c *count) Row(output string, key, value []byte) (Row, Value, error) {
	if len(value) != 8 {
		return Row{}, Value{}, fmt.Errorf("count of %q has %d bytes", key, len(value))
	}
	return Row{output, string(key)}, Value{N: int64(binary.BigEndian.Uint64(value))}, nil
}

func (c *count) Slots() int { return c.keys }

func (c *count) Slot(r Row) int {
	n, err := wordNumber(r.Key, c.keys)
	if err != nil {
		return 0 // such a row is wrong anyway, and said to be
	}
	return n
}
