// Load makes topics on a Kafka cluster and fills them with what the examples about flights read: flights, keyed by the airport they left, and airports, keyed by their code.
// Further names are those of empty topics, such as the outputs of an example. Topics that are there already are left as they are, and flights and airports are not written again.
//
//	go run ./flights/load delays-by-hour delays-by-day
//
// The cluster is that of KAFKA=host:port, or else at localhost:9092. The topics have three partitions and keep their records whatever their age.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/kolkstreams/kolk/examples/flights/data"
	"github.com/kolkstreams/kolk/examples/flights/job"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 3

// inputs are the topics that are filled.
var inputs = job.Topics{
	Flights:  topology.NewTopic("flights", serde.String(), serde.JSON[data.Flight]()),
	Airports: topology.NewTopic("airports", serde.String(), serde.JSON[data.Airport]()),
}

// load makes the topics that are not there, and fills flights and airports if it has made them.
func load(ctx context.Context, client *kgo.Client, others ...string) error {
	config := make(map[string]*string)
	for k, v := range job.KeepForEver {
		config[k] = &v
	}
	made, err := kadm.NewClient(client).CreateTopics(ctx, partitions, -1, config, slices.Concat(inputs.Inputs(), others)...)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	there := make(map[string]bool)
	for _, m := range made {
		if there[m.Topic] = errors.Is(m.Err, kerr.TopicAlreadyExists); m.Err != nil && !there[m.Topic] {
			return fmt.Errorf("create topic %s: %w %s", m.Topic, m.Err, m.ErrMessage)
		}
	}
	var flights []data.Flight
	var airports []data.Airport
	if !there[inputs.Flights.Name()] {
		if flights, err = data.Flights(); err != nil {
			return err
		}
	}
	if !there[inputs.Airports.Name()] {
		if airports, err = data.Airports(); err != nil {
			return err
		}
	}
	return job.Produce(ctx, client, inputs, flights, airports)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := kgo.NewClient(kgo.SeedBrokers(cmp.Or(os.Getenv("KAFKA"), "localhost:9092")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := load(ctx, client, os.Args[1:]...); err != nil {
		log.Fatal(err)
	}
}
