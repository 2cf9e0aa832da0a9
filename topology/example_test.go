package topology_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

// Lines in, a running count for each word out.
func Example() {
	lines := topology.NewTopic("lines", serde.String(), serde.String())
	counts := topology.NewTopic("word-counts", serde.String(), serde.Int64())

	b := topology.New()
	b.Stream(lines).
		FlatMapValues(strings.FieldsSeq).
		GroupBy(func(_, word string) string { return word }).
		Count("words", store.FiniteKeys(1_000_000)).
		To(counts)
	top, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(top.Describe())
	// Output:
	// Topologies:
	//    Sub-topology: 0
	//     Source: KSTREAM-SOURCE-0000000000 (topics: [lines])
	//       --> KSTREAM-FLATMAPVALUES-0000000001
	//     Processor: KSTREAM-FLATMAPVALUES-0000000001 (stores: [])
	//       --> KSTREAM-KEY-SELECT-0000000002
	//       <-- KSTREAM-SOURCE-0000000000
	//     Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])
	//       --> words-repartition-filter
	//       <-- KSTREAM-FLATMAPVALUES-0000000001
	//     Processor: words-repartition-filter (stores: [])
	//       --> words-repartition-sink
	//       <-- KSTREAM-KEY-SELECT-0000000002
	//     Sink: words-repartition-sink (topic: words-repartition)
	//       <-- words-repartition-filter
	//
	//    Sub-topology: 1
	//     Source: words-repartition-source (topics: [words-repartition])
	//       --> KSTREAM-AGGREGATE-0000000003
	//     Processor: KSTREAM-AGGREGATE-0000000003 (stores: [words])
	//       --> KTABLE-TOSTREAM-0000000007
	//       <-- words-repartition-source
	//     Processor: KTABLE-TOSTREAM-0000000007 (stores: [])
	//       --> KSTREAM-SINK-0000000008
	//       <-- KSTREAM-AGGREGATE-0000000003
	//     Sink: KSTREAM-SINK-0000000008 (topic: word-counts)
	//       <-- KTABLE-TOSTREAM-0000000007
}

// All that is wrong comes back at once, with what to do.
func ExampleBuilder_Build() {
	clicks := topology.NewTopic("clicks", serde.String(), serde.String())
	users := topology.NewTopic("users", serde.String(), serde.String())

	b := topology.New()
	rows := b.Table("user-rows", users, store.FiniteKeys(10_000))
	b.Stream(clicks).
		SelectKey(func(_, page string) string { return page }).
		JoinTable(rows, func(click, user string) string { return click + user })
	b.Stream(clicks).GroupByKey().Count("clicks", store.Bound{})

	_, err := b.Build()
	for _, f := range err.(topology.Faults) {
		fmt.Printf("%s: %s\n", f.Node, f.Problem)
	}
	// Output:
	// KSTREAM-JOIN-0000000004: the stream was given new keys by KSTREAM-KEY-SELECT-0000000003, so its records may be in other partitions than the rows of the table
	// clicks: the store has no bound
}

// Orders meet the rows of their customers; what no branch takes is dropped and counted, unless Rest takes it.
func ExampleStream_LeftJoinTable() {
	type customer struct{ Name string }
	orders := topology.NewTopic("orders", serde.String(), serde.String())
	customers := topology.NewTopic("customers", serde.String(), serde.JSON[customer]())
	named := topology.NewTopic("named-orders", serde.String(), serde.String())
	unknown := topology.NewTopic("unknown-customers", serde.String(), serde.String())

	b := topology.New()
	rows := b.Table("customer-rows", customers, store.TTL(365*24*time.Hour))
	split := b.Stream(orders).
		LeftJoinTable(rows, func(order string, c *customer) string {
			if c == nil {
				return order
			}
			return order + " for " + c.Name
		}).
		Split()
	split.Branch("named", func(_, order string) bool { return strings.Contains(order, " for ") }).To(named)
	split.Rest().To(unknown)
	_, err := b.Build()
	fmt.Println(err)
	// Output: <nil>
}

var lastSeen = store.NewKeyValue("last-seen", serde.String(), serde.Int64(), store.TTL(24*time.Hour))

// gaps sends on how long a key was silent.
type gaps struct{ seen store.KeyValue[string, int64] }

func (g *gaps) Init(ctx *processor.FixedKeyContext[string, int64]) error {
	g.seen = ctx.Store(lastSeen)
	return nil
}

func (g *gaps) Process(ctx *processor.FixedKeyContext[string, int64], r processor.FixedKeyRecord[string, string]) error {
	now := r.Time.UnixMilli()
	if before, ok := g.seen.Get(r.Key()); ok {
		ctx.Forward(r.WithValue(now - before))
	}
	g.seen.Put(r.Key(), now)
	return nil
}

// A processor that keeps the key, with a store of its own, between operators.
func ExampleStream_ProcessValues() {
	beats := topology.NewTopic("heartbeats", serde.String(), serde.String())
	longest := topology.NewTopic("longest-gaps", serde.String(), serde.Int64())

	b := topology.New()
	b.Stream(beats).
		ProcessValues("gaps", func() *gaps { return new(gaps) }, lastSeen).
		GroupByKey().
		Reduce("longest", store.FiniteKeys(10_000), func(a, b int64) int64 { return max(a, b) }).
		OnCommit().
		To(longest)
	_, err := b.Build()
	fmt.Println(err)
	// Output: <nil>
}
