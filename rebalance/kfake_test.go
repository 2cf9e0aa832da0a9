package rebalance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// cluster is a broker in virtual time with a group whose members' callbacks
// are watched.
type cluster struct {
	t    *testing.T
	net  kfake.VirtualNetwork
	fake *kfake.Cluster

	nodes []*node

	mu      sync.Mutex
	owners  map[topicPartition]string // partition -> node that runs it
	faults  []string
	changed chan struct{} // closed and replaced by every callback
}

// node is one member with its client.
type node struct {
	name string
	b    *Balancer
	cl   *kgo.Client
	cut  atomic.Bool
	once sync.Once

	mu      sync.Mutex
	conns   []net.Conn
	revoked []topicPartition
	lost    int
}

func inBubble(t *testing.T, topics map[string]int32, body func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, owners: make(map[topicPartition]string), changed: make(chan struct{})}
		opts := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(c.net.Listen)}
		for name, n := range topics {
			opts = append(opts, kfake.SeedTopics(n, name))
		}
		fake, err := kfake.NewCluster(opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer fake.Close()
		c.fake = fake
		// A test that fails half-way must not leave clients behind: the
		// bubble ends only when all goroutines have.
		defer func() {
			for _, n := range c.nodes {
				n.close()
			}
		}()
		body(c)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, f := range c.faults {
			t.Error(f)
		}
	})
}

func (c *cluster) start(name string, cfg Config, opts ...kgo.Opt) *node {
	c.t.Helper()
	cfg.Process, cfg.Host = name, name+":80"
	b, err := NewBalancer(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	n := &node{name: name, b: b}
	var topics []string
	for _, s := range cfg.SubTopologies {
		topics = append(topics, s.Topics...)
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.fake.ListenAddrs()...),
		kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if n.cut.Load() {
				return nil, errors.New("unplugged")
			}
			conn, err := c.net.DialContext(ctx, network, addr)
			n.mu.Lock()
			n.conns = append(n.conns, conn)
			n.mu.Unlock()
			return conn, err
		}),
		kgo.ConsumerGroup("app"),
		kgo.ConsumeTopics(topics...),
		kgo.Balancers(b),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, added map[string][]int32) {
			c.take(n, added)
			if a := b.Assignment(); a.Rejoin {
				cl.ForceRebalance()
			}
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { c.drop(n, gone, false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { c.drop(n, gone, true) }),
	}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	n.cl = cl
	c.nodes = append(c.nodes, n)
	return n
}

func (c *cluster) take(n *node, added map[string][]int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, partitions := range added {
		for _, p := range partitions {
			tp := topicPartition{topic, p}
			if o, owned := c.owners[tp]; owned {
				c.faults = append(c.faults, fmt.Sprintf("%s took %v while %s had it", n.name, tp, o))
			}
			c.owners[tp] = n.name
		}
	}
	c.tell()
}

func (c *cluster) drop(n *node, gone map[string][]int32, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if lost {
		n.lost++
	}
	for topic, partitions := range gone {
		for _, p := range partitions {
			tp := topicPartition{topic, p}
			n.revoked = append(n.revoked, tp)
			if c.owners[tp] == n.name {
				delete(c.owners, tp)
			}
		}
	}
	c.tell()
}

func (c *cluster) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until the partitions per node are want, in any order of nodes.
func (c *cluster) await(want ...int) {
	c.t.Helper()
	slices.Sort(want)
	deadline := time.After(30 * time.Minute)
	for {
		c.mu.Lock()
		got := slices.Sorted(maps.Values(c.counts()))
		changed := c.changed
		c.mu.Unlock()
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			c.t.Fatalf("partitions per member: %v, want %v", got, want)
		}
	}
}

func (c *cluster) counts() map[string]int {
	counts := make(map[string]int)
	for _, name := range c.owners {
		counts[name]++
	}
	return counts
}

func (c *cluster) ownerOf(topic string, partition int32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owners[topicPartition{topic, partition}]
}

func (c *cluster) owned(n *node) []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []int32
	for tp, name := range c.owners {
		if name == n.name {
			list = append(list, tp.partition)
		}
	}
	slices.Sort(list)
	return list
}

func (n *node) close() { n.once.Do(n.cl.Close) }

func (n *node) gaveUp() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.revoked)
}

// unplug cuts the node off for good, as a crash of its machine would.
func (n *node) unplug() {
	n.cut.Store(true)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.conns {
		if conn != nil {
			conn.Close()
		}
	}
}

// quiet lets virtual time pass and requires that no rebalance happens.
func (c *cluster) quiet(d time.Duration) {
	c.t.Helper()
	<-time.After(d)
	before := c.generation()
	<-time.After(d)
	if after := c.generation(); after != before {
		c.t.Errorf("generation went from %d to %d with nothing happening", before, after)
	}
}

func (c *cluster) generation() int32 { return c.fake.GroupInfo("app").Epoch }

var ordersOnly = Config{SubTopologies: []SubTopology{{ID: 0, Topics: []string{"orders"}, Stateful: true, Fingerprint: 1}}}

func TestClientsScaleUpAndDown(t *testing.T) {
	inBubble(t, map[string]int32{"orders": 12}, func(c *cluster) {
		a := c.start("a", ordersOnly)
		c.await(12)
		b := c.start("b", ordersOnly)
		c.await(6, 6)
		d := c.start("d", ordersOnly)
		c.await(4, 4, 4)
		c.quiet(10 * time.Minute)
		if got := a.gaveUp() + b.gaveUp() + d.gaveUp(); got != 10 {
			t.Errorf("%d partitions were taken away, want 6 for the second member and 4 for the third", got)
		}
		assignment := a.b.Assignment()
		for p := range int32(12) {
			peer, ok := assignment.Owner("orders", p)
			if owner := c.ownerOf("orders", p); !ok || peer.Host != owner+":80" {
				t.Errorf("partition %d: %+v, %v, but %s runs it", p, peer, ok, owner)
			}
		}

		before := a.gaveUp() + d.gaveUp()
		b.close()
		c.await(6, 6)
		c.quiet(10 * time.Minute)
		if got := a.gaveUp() + d.gaveUp(); got != before {
			t.Errorf("members that stay gave up %d partitions when one left", got-before)
		}
	})
}

func TestClientCrash(t *testing.T) {
	inBubble(t, map[string]int32{"orders": 6}, func(c *cluster) {
		a := c.start("a", ordersOnly)
		c.await(6)
		b := c.start("b", ordersOnly)
		c.await(3, 3)
		before := b.gaveUp()

		// The leader dies. Its client notices as well, and drops what it has.
		a.unplug()
		c.await(6)
		if got := b.gaveUp(); got != before {
			t.Errorf("the survivor gave up %d partitions", got-before)
		}
		a.mu.Lock()
		lost := a.lost
		a.mu.Unlock()
		if lost == 0 {
			t.Error("the member that was cut off was never told that it lost its tasks")
		}
	})
}

func TestStaticMemberComesBackToItsTasks(t *testing.T) {
	inBubble(t, map[string]int32{"orders": 9}, func(c *cluster) {
		var nodes []*node
		for i, name := range []string{"a", "b", "d"} {
			nodes = append(nodes, c.start(name, ordersOnly, kgo.InstanceID(name)))
			c.await([][]int{{9}, {4, 5}, {3, 3, 3}}[i]...)
		}
		c.quiet(5 * time.Minute)
		had := c.owned(nodes[1])
		before := nodes[0].gaveUp() + nodes[2].gaveUp()

		nodes[1].close() // a static member does not leave
		back := c.start("b", ordersOnly, kgo.InstanceID("b"))
		c.await(3, 3, 3)
		c.quiet(5 * time.Minute)
		if got := c.owned(back); !slices.Equal(got, had) {
			t.Errorf("came back to %v, had %v", got, had)
		}
		if got := nodes[0].gaveUp() + nodes[2].gaveUp(); got != before {
			t.Errorf("the others gave up %d partitions", got-before)
		}
	})
}

// Positions that grow all the time must not set off rebalances, not even when
// the metadata is looked at anew in each.
func TestMovingPositionsCauseNoRebalance(t *testing.T) {
	inBubble(t, map[string]int32{"orders": 4}, func(c *cluster) {
		var position atomic.Int64
		cfg := ordersOnly
		cfg.Positions = func() map[Task]int64 {
			return map[Task]int64{{0, 0}: position.Add(1000), {0, 3}: position.Load() / 7}
		}
		c.start("a", cfg)
		b := c.start("b", cfg)
		c.await(2, 2)
		c.quiet(time.Hour)
		before := c.generation()
		b.cl.ForceRebalance()
		<-time.After(time.Minute)
		c.quiet(time.Hour)
		if after := c.generation(); after != before+1 {
			t.Errorf("one forced rebalance took the group from generation %d to %d", before, after)
		}
	})
}

// Members of two builds read different topics; each partition has one owner
// among those that read it.
func TestClientsWithDifferentTopics(t *testing.T) {
	inBubble(t, map[string]int32{"orders": 4, "clicks": 4}, func(c *cluster) {
		both := Config{SubTopologies: append(slices.Clone(ordersOnly.SubTopologies), SubTopology{ID: 1, Topics: []string{"clicks"}, Stateful: true, Fingerprint: 2})}
		a := c.start("a", ordersOnly) // leads without reading clicks
		c.await(4)
		b := c.start("b", both)
		c.await(4, 4)
		if got := b.b.Assignment().Tasks; !slices.Equal(got, []Task{{1, 0}, {1, 1}, {1, 2}, {1, 3}}) {
			t.Errorf("tasks of the newer build: %v", got)
		}
		a.close()
		c.await(8)
	})
}

// The leader does not read the topic, so that only the other member can notice.
func TestTopicThatComesLaterForOthers(t *testing.T) {
	inBubble(t, map[string]int32{"orders": 2}, func(c *cluster) {
		c.start("a", ordersOnly)
		c.await(2)
		c.start("b", Config{SubTopologies: append(slices.Clone(ordersOnly.SubTopologies), SubTopology{ID: 1, Topics: []string{"clicks"}, Stateful: true, Fingerprint: 2})})
		c.await(1, 1)
		if err := c.fake.CreateTopic("clicks", 2, nil); err != nil {
			t.Fatal(err)
		}
		c.await(2, 2)
	})
}

func TestTopicThatComesLater(t *testing.T) {
	inBubble(t, map[string]int32{"orders": 2}, func(c *cluster) {
		cfg := Config{SubTopologies: append(slices.Clone(ordersOnly.SubTopologies), SubTopology{ID: 1, Topics: []string{"clicks"}, Stateful: true, Fingerprint: 2})}
		a := c.start("a", cfg)
		b := c.start("b", cfg)
		c.await(1, 1)
		for _, n := range []*node{a, b} {
			assignment := n.b.Assignment()
			if err := assignment.Err(); !errors.Is(err, ErrMissingTopic) {
				t.Errorf("%s: %v, want ErrMissingTopic", n.name, err)
			}
		}
		if err := c.fake.CreateTopic("clicks", 4, nil); err != nil {
			t.Fatal(err)
		}
		c.await(3, 3)

		// And it grows.
		req := kmsg.NewPtrCreatePartitionsRequest()
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = "clicks", 8
		req.Topics = append(req.Topics, topic)
		if _, err := req.RequestWith(context.Background(), a.cl); err != nil {
			t.Fatal(err)
		}
		c.await(5, 5)
	})
}
