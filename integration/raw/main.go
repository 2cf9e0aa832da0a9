// Command raw is the ceiling of the benchmark: a plain franz-go loop that consumes, counts in a map, and produces every new count. It keeps no durable store;
// --changelog adds one changelog record per changed key and commit, and reads them back at start.
//
// It is one client with one goroutine and one group member: --threads is accepted and has no effect. State is not handed over in a rebalance, so it must be
// alone in its group.
package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kolkstreams/kolk/integration/contract"
)

func main() {
	set := flag.NewFlagSet("raw", flag.ExitOnError)
	changelog := set.Bool("changelog", false, "write a changelog record per changed key at each commit")
	snappy := set.Bool("snappy", false, "compress what is produced, as franz-go does by default and Kafka Streams does not")
	contract.Main(set, func(ctx context.Context, f contract.Flags, report contract.Reporter) error {
		if f.Scenario != "count" {
			return fmt.Errorf("raw has no scenario %q, only count", f.Scenario)
		}
		codec := kgo.NoCompression()
		if *snappy {
			codec = kgo.SnappyCompression()
		}
		return newLoop(f, report, *changelog, kgo.ProducerBatchCompression(codec)).run(ctx)
	})
}
