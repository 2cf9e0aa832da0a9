package kafka

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// shared is the cluster of this test binary.
var shared struct {
	mu      sync.Mutex
	ready   bool // Main runs
	started bool
	cluster *Cluster
	err     error
}

// Main runs the tests of a binary, ends the cluster they shared, and exits. Call it from TestMain.
func Main(m *testing.M) {
	shared.ready = true
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "end the shared cluster:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Shared is the cluster of all tests in this binary: one node, started by the first test that asks, or the cluster that KAFKA names. Tests must not harm its nodes.
// It fails the test, and never skips it, if there can be no cluster, and says what to install.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.ready {
		t.Fatal("kafka.Shared needs: func TestMain(m *testing.M) { kafka.Main(m) }")
	}
	if !shared.started {
		shared.started = true
		// Not the test's context: the cluster outlives it.
		shared.cluster, shared.err = LaunchOrConnect(context.Background(), Config{QuickStart: true})
	}
	if shared.err != nil {
		t.Fatalf("no Kafka cluster for the tests: %v", shared.err)
	}
	return shared.cluster
}

// Start launches a cluster for this test alone, 1 or 3 nodes, which the test may harm. It ends with the test, and shows the brokers' logs if the test failed.
func Start(t testing.TB, nodes int) *Cluster {
	t.Helper()
	c, err := Launch(t.Context(), Config{Nodes: nodes, Heap: "512m", QuickStart: true})
	if err != nil {
		t.Fatalf("no Kafka cluster of %d nodes for the test: %v", nodes, err)
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			if t.Failed() {
				t.Logf("node %d:\n%s", n.ID, n.logTail())
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("end the cluster: %v", err)
		}
	})
	return c
}

// Name makes a name that no other test and no earlier run has used, for an application or a topic. Topics whose names begin with it, and the group
// of that name, are deleted when the test ends.
func (c *Cluster) Name(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == '#' || r == ' ' {
			return '-'
		}
		return r
	}, t.Name()) + "-" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := c.forget(ctx, name); err != nil {
			t.Errorf("delete what is named %s: %v", name, err)
		}
	})
	return name
}

// forget deletes topics by prefix, and the group of that name.
func (c *Cluster) forget(ctx context.Context, prefix string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds...))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		return err
	}
	var names []string
	for name := range topics {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		if _, err := adm.DeleteTopics(ctx, names...); err != nil {
			return err
		}
	}
	groups, err := adm.ListGroups(ctx)
	if _, there := groups[prefix]; err != nil || !there {
		return err
	}
	_, err = adm.DeleteGroups(ctx, prefix) // the answer for the group itself may be that a killed member is still in it
	return err
}

// Topic creates a topic as CreateTopics does, and returns its name.
func (c *Cluster) Topic(t testing.TB, name string, partitions int32) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.CreateTopics(ctx, partitions, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// Client is a client of the cluster that is closed when the test ends.
func (c *Cluster) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.seeds...)}, opts...)...)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}
