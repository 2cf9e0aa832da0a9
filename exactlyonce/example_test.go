package exactlyonce_test

import (
	"context"
	"fmt"
	"log"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kolkstreams/kolk/exactlyonce"
)

// total is a task that adds up numbers: next is its position in the input, sum its state.
type total struct {
	next, committedNext int64
	sum, committedSum   int
}

func (t *total) Partitions() []exactlyonce.TopicPartitions {
	return []exactlyonce.TopicPartitions{{Topic: "sums", Partitions: []int32{0}}, {Topic: "changelog", Partitions: []int32{0}}}
}

func (t *total) Stage(produce func(*kgo.Record)) error {
	if t.sum != t.committedSum {
		produce(&kgo.Record{Topic: "changelog", Key: []byte("sum"), Value: strconv.AppendInt(nil, int64(t.sum), 10)})
	}
	return nil
}

func (t *total) Offsets() []exactlyonce.Offset {
	if t.next == t.committedNext {
		return nil
	}
	return []exactlyonce.Offset{{Topic: "numbers", Next: t.next, LeaderEpoch: -1}}
}

func (t *total) Committed() { t.committedNext, t.committedSum = t.next, t.sum }
func (t *total) Rollback()  { t.next, t.sum = t.committedNext, t.committedSum }

func Example() {
	ctx := context.Background()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "numbers", "sums", "changelog"))
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()

	task := new(total)
	d, err := exactlyonce.Open(ctx, exactlyonce.Config{
		Group: "adder", TransactionalID: "adder-0",
		Client: []kgo.Opt{kgo.SeedBrokers(broker.ListenAddrs()...)},
	}, task)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	add := func(n int) { // what a worker does with each record that it polls
		task.sum += n
		task.next++
		d.Produce(ctx, &kgo.Record{Topic: "sums", Value: strconv.AppendInt(nil, int64(task.sum), 10)})
	}
	add(4)
	add(5)
	out := d.Commit(ctx)
	fmt.Println(out.Kind, out.Records, task.committedSum)
	add(1000)
	out = d.Abort(ctx)
	fmt.Println(out.Kind, task.sum, task.next)
	fmt.Println(d.Commit(ctx).Kind)
	// Output:
	// committed 3 9
	// aborted 9 2
	// nothing
}
