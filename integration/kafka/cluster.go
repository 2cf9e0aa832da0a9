// Package kafka runs real Apache Kafka brokers (KRaft mode, no containers) as child processes, from the jars that Maven fetches. Every node can be stopped,
// killed, frozen and started again, which is what tests, chaos runs and benchmarks need.
//
// A test uses the cluster that all tests of its binary share, or one of its own if it harms nodes:
//
//	func TestMain(m *testing.M) { kafka.Main(m) }
//
//	func TestOrders(t *testing.T) {
//		c := kafka.Shared(t)             // or kafka.Start(t, 3)
//		app := c.Name(t)                 // for the application; its topics and group go when the test ends
//		in := c.Topic(t, app+"-in", 4)
//		...
//	}
//
// With KAFKA=host:port in the environment the shared cluster is the one that runs there. Clusters made by Start are always the test's own.
package kafka

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kolkstreams/kolk/integration/maven"
)

//go:embed pom.xml
var pom []byte

// poll is how often a state is asked for that Kafka does not announce.
const poll = 50 * time.Millisecond

// Config says what to launch. The zero value is one node with a heap of 1 GB and its data in a temporary directory.
type Config struct {
	Nodes      int               // how many; every node is broker and controller. Zero means 1, and 3 is the least that survives a crash
	DataDir    string            // logs and configuration. Empty means a temporary directory, which Close removes
	Heap       string            // -Xmx of each node. Empty means 1g
	QuickStart bool              // less of a compiler: ready sooner and for less CPU, slower under load. For tests
	Properties map[string]string // added to the broker's properties, or replacing them
}

// Cluster is a set of brokers. Its methods may be called from several goroutines.
type Cluster struct {
	nodes   []*Node // none if the cluster is somebody else's
	seeds   []string
	dir     string
	ownsDir bool
}

// Launch formats and starts the nodes and returns when all of them know each other and answer requests. Its error wraps maven.ErrMissing if Java is not installed.
func Launch(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	cfg.Nodes = max(cfg.Nodes, 1)
	if cfg.Heap == "" {
		cfg.Heap = "1g"
	}
	cache, err := maven.CacheDir()
	if err != nil {
		return nil, err
	}
	classpath, err := maven.Build(ctx, cache, "broker", pom, nil)
	if err != nil {
		return nil, fmt.Errorf("get Kafka's jars: %w", err)
	}
	c := &Cluster{dir: cfg.DataDir}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "kafka-"); err != nil {
			return nil, err
		}
		c.ownsDir = true
	}
	if err := c.launch(ctx, cfg, classpath); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Connect returns a cluster that runs already, at comma separated seed addresses. It has no Nodes, and Close leaves it alone.
func Connect(ctx context.Context, seeds string) (*Cluster, error) {
	c := &Cluster{seeds: strings.Split(seeds, ",")}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds...))
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka at %s: %w", seeds, err)
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return nil, fmt.Errorf("connect to Kafka at %s: %w; is KAFKA right, and is the cluster up?", seeds, err)
	}
	return c, nil
}

// LaunchOrConnect connects to the cluster named by the environment variable KAFKA, or launches one.
func LaunchOrConnect(ctx context.Context, cfg Config) (*Cluster, error) {
	if seeds := os.Getenv("KAFKA"); seeds != "" {
		return Connect(ctx, seeds)
	}
	return Launch(ctx, cfg)
}

// launch starts cfg.Nodes nodes side by side.
func (c *Cluster) launch(ctx context.Context, cfg Config, classpath string) error {
	ports, err := freePorts(2 * cfg.Nodes)
	if err != nil {
		return err
	}
	brokers, controllers := ports[:cfg.Nodes], ports[cfg.Nodes:]
	var voters []string
	for i, port := range controllers {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, port))
	}
	clusterID := newClusterID()

	errs := make(chan error, cfg.Nodes)
	for i := range cfg.Nodes {
		n := &Node{
			ID:        int32(i + 1),
			Addr:      fmt.Sprintf("127.0.0.1:%d", brokers[i]),
			cluster:   c,
			dir:       filepath.Join(c.dir, fmt.Sprintf("node-%d", i+1)),
			classpath: classpath,
			java:      append([]string{"-Xmx" + cfg.Heap}, jvm(cfg.QuickStart)...),
		}
		props := properties(n, cfg.Nodes, controllers[i], strings.Join(voters, ","))
		maps.Copy(props, cfg.Properties)
		c.nodes = append(c.nodes, n)
		c.seeds = append(c.seeds, n.Addr)
		go func() {
			err := n.format(ctx, clusterID, props)
			if err == nil {
				err = n.launch()
			}
			errs <- err
		}()
	}
	var all []error
	for range cfg.Nodes {
		all = append(all, <-errs)
	}
	if err := errors.Join(all...); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := n.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// newClusterID makes a random UUID in Kafka's notation. It begins with a letter: a dash would be taken for an option.
func newClusterID() string {
	id := make([]byte, 16)
	rand.Read(id)
	id[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(id)
}

// Seeds are the addresses of all nodes, of those that are down too.
func (c *Cluster) Seeds() []string { return slices.Clone(c.seeds) }

// Nodes are the brokers in the order of their ids 1, 2, 3, or none if somebody else runs the cluster.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Recovered returns when every partition of the topic has a leader and all of its replicas are in sync.
func (c *Cluster) Recovered(ctx context.Context, topic string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds...))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	for {
		topics, err := adm.ListTopics(ctx, topic)
		if err == nil {
			err = topics.Error()
		}
		if err == nil && inSync(topics[topic]) {
			return nil
		}
		select {
		case <-time.After(poll):
			// Metadata is cached for seconds, and the replicas come back before that.
			cl.ForceMetadataRefresh()
			cl.PurgeTopicsFromClient(topic)
		case <-ctx.Done():
			return fmt.Errorf("replicas of topic %s did not catch up: %w (last answer: %v, %+v)", topic, ctx.Err(), err, topics[topic].Partitions)
		}
	}
}

// inSync is whether all partitions are led and fully replicated.
func inSync(t kadm.TopicDetail) bool {
	for _, p := range t.Partitions {
		if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
			return false
		}
	}
	return len(t.Partitions) > 0
}

// Close ends all nodes and removes the data if Launch made its directory. Nodes are killed: nobody reads their logs again.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.Kill())
	}
	if c.ownsDir {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// running are the ids of the nodes whose process is alive.
func (c *Cluster) running() []int32 {
	var ids []int32
	for _, n := range c.nodes {
		if n.Pid() != 0 {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// knows is whether a node's answer lists all nodes that run.
func (c *Cluster) knows(answer *kmsg.MetadataResponse) bool {
	for _, id := range c.running() {
		if !slices.ContainsFunc(answer.Brokers, func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == id }) {
			return false
		}
	}
	return true
}
