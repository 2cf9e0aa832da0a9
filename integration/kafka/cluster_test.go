package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kolkstreams/kolk/integration/kafka"
)

func TestMain(m *testing.M) { kafka.Main(m) }

// produce writes values to a topic, each acknowledged by all replicas in sync.
func produce(ctx context.Context, t *testing.T, cl *kgo.Client, topic string, values ...string) {
	t.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(v)})
	}
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("produce %v: %v", values, err)
	}
}

// consume reads want values from a topic of one partition, from its beginning.
func consume(ctx context.Context, t *testing.T, c *kafka.Cluster, topic string, want int) (values []string) {
	t.Helper()
	cl := c.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for len(values) < want {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("consume %s after %v: %v", topic, values, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func TestProduceAndConsume(t *testing.T) {
	c := kafka.Shared(t)
	topic := c.Topic(t, c.Name(t), 1)
	produce(t.Context(), t, c.Client(t), topic, "a", "b", "c")
	if got := fmt.Sprint(consume(t.Context(), t, c, topic, 3)); got != "[a b c]" {
		t.Errorf("consumed %s", got)
	}
}

func TestSharedIsOne(t *testing.T) {
	if a, b := kafka.Shared(t), kafka.Shared(t); a != b {
		t.Errorf("two clusters, at %v and %v", a.Seeds(), b.Seeds())
	}
}

func TestNamesDiffer(t *testing.T) {
	c := kafka.Shared(t)
	a, b := c.Name(t), c.Name(t)
	if a == b || !strings.HasPrefix(a, t.Name()) {
		t.Errorf("names %q and %q", a, b)
	}
}

// A cluster that runs already can be used, and is left running.
func TestConnect(t *testing.T) {
	c := kafka.Shared(t)
	again, err := kafka.Connect(t.Context(), strings.Join(c.Seeds(), ","))
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Nodes()) != 0 {
		t.Errorf("somebody else's cluster has nodes that can be killed: %v", again.Nodes())
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Client(t).Ping(t.Context()); err != nil {
		t.Errorf("after closing the connection: %v", err)
	}
}

func TestConnectToNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := kafka.Connect(ctx, "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v, want one that names the address", err)
	}
}

func TestTopicsThatExistAreRefused(t *testing.T) {
	c := kafka.Shared(t)
	topic := c.Topic(t, c.Name(t), 1)
	if err := c.CreateTopics(t.Context(), 1, topic); !errors.Is(err, kerr.TopicAlreadyExists) || !strings.Contains(err.Error(), topic) {
		t.Errorf("error %v, want that %s exists", err, topic)
	}
}

// Three nodes take writes that need two replicas while one is down, whichever way it went, and take it back with nothing lost.
func TestNodesComeAndGo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := kafka.Start(t, 3)
	topic := c.Topic(t, c.Name(t), 1)
	cl := c.Client(t)
	node := c.Nodes()[1]

	produce(ctx, t, cl, topic, "before")
	if err := node.Kill(); err != nil {
		t.Fatal(err)
	}
	if pid := node.Pid(); pid != 0 {
		t.Errorf("a killed node has the process id %d", pid)
	}
	produce(ctx, t, cl, topic, "one killed")
	if err := node.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := node.Start(ctx); err == nil {
		t.Error("a node that runs was started again")
	}
	if err := c.Recovered(ctx, topic); err != nil {
		t.Fatal(err)
	}
	if err := node.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	produce(ctx, t, cl, topic, "restarted")
	if err := c.Recovered(ctx, topic); err != nil {
		t.Fatal(err)
	}
	if err := node.Freeze(); err != nil {
		t.Fatal(err)
	}
	produce(ctx, t, cl, topic, "frozen") // waits until the others give up on it
	if err := node.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := c.Recovered(ctx, topic); err != nil {
		t.Fatal(err)
	}
	want := "[before one killed restarted frozen]"
	if got := fmt.Sprint(consume(ctx, t, c, topic, 4)); got != want {
		t.Errorf("consumed %s, want %s", got, want)
	}
}
