package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Distributions of keys.
const (
	Uniform = "uniform"
	Zipf    = "zipf" // with exponent 1.1
	Each    = "each" // every key once
)

// Input describes what is processed. Equal inputs give equal bytes.
type Input struct {
	Records    int           `json:"records"` // of both sides of a join together; a table's records, and repeated ids, come on top
	Keys       int           `json:"keys"`    // different ones
	Dist       string        `json:"dist"`    // Uniform, Zipf or Each
	Seed       uint64        `json:"seed"`
	Partitions int           `json:"partitions"` // of every topic
	Base       time.Time     `json:"base"`       // event time of the first record
	Step       time.Duration `json:"step"`       // event time from one record to the next
}

// validate reports all faults.
func (in Input) validate() error {
	var faults []error
	if in.Records < 0 || in.Keys < 2 || in.Partitions < 1 {
		faults = append(faults, fmt.Errorf("%d records, %d keys, %d partitions: want at least 0, 2 and 1", in.Records, in.Keys, in.Partitions))
	}
	if in.Step <= 0 {
		faults = append(faults, fmt.Errorf("%v of event time from one record to the next: want more than nothing", in.Step))
	}
	switch in.Dist {
	case Uniform, Zipf:
	case Each:
		if in.Records > in.Keys {
			faults = append(faults, fmt.Errorf("every key once needs as many keys as records: %d records, %d keys", in.Records, in.Keys))
		}
	default:
		faults = append(faults, fmt.Errorf("unknown distribution %q: want %s, %s or %s", in.Dist, Uniform, Zipf, Each))
	}
	return errors.Join(faults...)
}

// dataset is an input on the broker and what has to come out of it.
type dataset struct {
	topics     []string
	partitions int
	records    int64 // to process, those of a table included
	want       expectation
}

// expectation is the batch result of an input.
type expectation struct {
	last    map[string]uint64 // counts: output key to last value
	records int64             // output records if every update is emitted and nothing twice
	sum     uint64            // joins, ids: sum of the hashes of all output records, whatever their order
}

// generate makes the records of a scenario into topics whose names begin with prefix, and computes the expected result on the way.
func generate(scenario, prefix string, in Input) (*generator, *dataset, error) {
	if scenario == Dedup {
		in.Partitions, in.Step = 1, max(in.Step/10, 1)
	}
	g := newGenerator(in)
	left, right := prefix+"-left", prefix+"-right"
	d := &dataset{topics: []string{left}, partitions: in.Partitions, records: int64(in.Records)}
	switch scenario {
	case Count, CountCached:
		d.want.last = map[string]uint64{}
		g.stream(left, in.Records, 0, false, func(key int, _ uint64, _ time.Time) { d.want.last[g.keys[key]]++ })
		d.want.records = d.records
	case Window:
		d.want.last = map[string]uint64{}
		d.want.records = g.windowed(left, d.want.last)
	case Join:
		d.topics = append(d.topics, right)
		for key := range in.Keys {
			g.add(right, key, uint64(key), in.Base.Add(-time.Hour))
		}
		g.stream(left, in.Records, 0, false, func(key int, n uint64, _ time.Time) {
			d.want.sum += hashOutput([]byte(g.keys[key]), numbers(n, uint64(key)))
		})
		d.want.records = d.records
		d.records += int64(in.Keys)
	case StreamJoin:
		d.topics = append(d.topics, right)
		d.want.records, d.want.sum = g.joined(left, right)
	case Dedup:
		d.want.records, d.want.sum = g.identified(left)
		d.records = int64(len(g.out))
	default:
		return nil, nil, fmt.Errorf("unknown scenario %q", scenario)
	}
	return g, d, nil
}

// produce writes what was generated.
func (g *generator) produce(ctx context.Context, cl *kgo.Client) error {
	var failed error
	for _, p := range g.out {
		value := binary.BigEndian.AppendUint64(make([]byte, 0, valueSize), p.n)
		from := int(p.n*31) % (len(g.filler) - valueSize)
		value = append(value, g.filler[from:from+valueSize-8]...)
		r := &kgo.Record{Topic: p.topic, Value: value, Timestamp: time.UnixMilli(p.at)}
		if g.ids {
			r.Key = id(p.key)
		} else {
			r.Key, r.Partition = []byte(g.keys[p.key]), g.partitions[p.key]
		}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil && failed == nil {
				failed = err // promises run one after another, and Flush is after the last
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	return failed
}

// numbers is the value of a joined record.
func numbers(left, right uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, left), right)
}

// hashOutput is one summand of an order-independent checksum.
func hashOutput(key, value []byte) uint64 {
	h := fnv.New64a()
	h.Write(key)
	h.Write(value)
	return h.Sum64()
}
