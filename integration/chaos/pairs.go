package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
	"github.com/twmb/franz-go/pkg/kgo"
)

// pairs joins two streams with an outer join: each pair must come once, and each record that has found no partner.
//
//	left, right -> join -> pairs
//
// Event time is not the time of the clock: it begins a day ago, as brokers take no times of the future, and each record is a millisecond younger than the one before, give or take the jitter. So it stands still when the brokers do, and the grace can be
// so short that unmatched records come out all the while, and so long that nothing is late.
type pairs struct {
	app     string
	random  *rand.Rand
	began   time.Time
	sent    int64 // records; each has its number as value
	touches int

	left, right map[string][]moment // the batch, by key
}

// moment is a record: its number, and when it was, in milliseconds.
type moment struct {
	n  string
	at int64
}

const (
	pairsKeys   = 500
	pairsBefore = 300 // milliseconds of event time
	pairsAfter  = 600
	pairsJitter = 500
	pairsGrace  = 8000 // for the jitter and what the feeder is ahead of the brokers, twice and more
	// closers are the keys of the records that close the windows of all others: so many that each partition gets some.
	closers = 64
)

var pairsWithin = window.Within(0).Before(pairsBefore * time.Millisecond).After(pairsAfter * time.Millisecond).Grace(pairsGrace * time.Millisecond)

func newPairs(application string, seed uint64) (Job, error) {
	return &pairs{app: application, random: rand.New(rand.NewPCG(seed, 4)), began: time.Now().Add(-24 * time.Hour).Truncate(time.Second),
		left: make(map[string][]moment), right: make(map[string][]moment)}, nil
}

func (p *pairs) topic(name string) string { return p.app + "-" + name }

func (p *pairs) Inputs() []string { return []string{p.topic("left"), p.topic("right")} }

func (p *pairs) Outputs() map[string]Output {
	return map[string]Output{p.topic("pairs"): {Rule: Events}}
}

func (p *pairs) Internal() []string { return nil }

func (p *pairs) Tasks(partitions int32) int { return int(partitions) }

func (p *pairs) Topology(m Meter) (*topology.Topology, error) {
	text := serde.String()
	b := topology.New()
	right := b.Stream(topology.NewTopic(p.topic("right"), text, text))
	b.Stream(topology.NewTopic(p.topic("left"), text, text)).
		OuterJoin("pairs", right, pairsWithin, func(l, r *string) string { return pair(orNone(l), orNone(r)) }).
		To(output(p.topic("pairs"), text, text, m, 0))
	return b.Build()
}

func orNone(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

func pair(left, right string) string { return left + "+" + right }

func (p *pairs) First() []*kgo.Record { return nil }

func (p *pairs) Next() *kgo.Record {
	return p.record(p.random.IntN(2) == 0, p.random.IntN(pairsKeys), p.sent+p.random.Int64N(2*pairsJitter)-pairsJitter)
}

// record makes one of a key, so many milliseconds after the first.
func (p *pairs) record(left bool, key int, at int64) *kgo.Record {
	p.sent++
	name := "right"
	if left {
		name = "left"
	}
	return &kgo.Record{Topic: p.topic(name), Key: []byte("k" + strconv.Itoa(key)), Value: strconv.AppendInt(nil, p.sent, 10), Timestamp: p.began.Add(time.Duration(at) * time.Millisecond)}
}

// Touch sends a record of each key to one of the sides, the first time and the second time not to the same: whoever takes those of the second must remember those of the first. All are of one time,
// which is still that of records before.
func (p *pairs) Touch() (all []*kgo.Record) {
	now := p.sent
	if p.touches > 0 {
		now -= pairsKeys
	}
	for key := range pairsKeys {
		all = append(all, p.record((key+p.touches)%2 == 0, key, now))
	}
	p.touches++
	return all
}

// Last is two more records for each partition, each much younger: they close the windows of all, but for the last of themselves. An instance that saw them while the other side's
// records are still on their way to the broker would be right to call those late.
func (p *pairs) Last() (all []*kgo.Record) {
	now := p.sent
	for n := range 2 {
		for key := range closers {
			all = append(all, p.record(true, pairsKeys+key, now+int64(n+1)*int64(time.Hour/time.Millisecond)))
		}
	}
	return all
}

func (p *pairs) Sent() int64 { return p.sent }

func (p *pairs) Add(r *kgo.Record) error {
	if len(r.Value) == 0 {
		return errors.New("a record has no number")
	}
	side := p.right
	if r.Topic == p.topic("left") {
		side = p.left
	}
	side[string(r.Key)] = append(side[string(r.Key)], moment{string(r.Value), r.Timestamp.UnixMilli()})
	return nil
}

func (p *pairs) Want() map[Row]Value {
	want := make(map[Row]Value)
	add := func(key, left, right string) {
		row := p.row(key, pair(left, right))
		want[row] = Value{N: want[row].N + 1}
	}
	last := int64(0)
	for _, side := range []map[string][]moment{p.left, p.right} {
		for _, all := range side {
			for _, m := range all {
				last = max(last, m.at)
			}
		}
	}
	closed := func(m moment, d int64) bool { return m.at+d+pairsGrace < last }
	for key, lefts := range p.left {
		for _, l := range lefts {
			found := false
			for _, r := range p.right[key] {
				if l.at-pairsBefore <= r.at && r.at <= l.at+pairsAfter {
					found = true
					add(key, l.n, r.n)
				}
			}
			if !found && closed(l, pairsAfter) {
				add(key, l.n, "none")
			}
		}
	}
	for key, rights := range p.right {
		for _, r := range rights {
			found := false
			for _, l := range p.left[key] {
				found = found || (l.at-pairsBefore <= r.at && r.at <= l.at+pairsAfter)
			}
			if !found && closed(r, pairsBefore) {
				add(key, "none", r.n)
			}
		}
	}
	return want
}

func (p *pairs) row(key, pair string) Row { return Row{p.topic("pairs"), key + " " + pair} }

func (p *pairs) Row(_ string, key, value []byte) (Row, Value, error) {
	if value == nil {
		return Row{}, Value{}, fmt.Errorf("a pair of key %s was deleted", key)
	}
	return p.row(string(key), string(value)), Value{N: 1}, nil
}

func (p *pairs) Slots() int { return 1 }

func (p *pairs) Slot(Row) int { return 0 }
