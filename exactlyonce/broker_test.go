package exactlyonce

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	testGroup = "app"
	testTxnID = "app-p-0"
)

// bench is a broker in the process, and what a test needs around it.
type bench struct {
	t      testing.TB
	k      *kfake.Cluster
	dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	admin  *kgo.Client
	ids    map[string][16]byte
	cut    *cutter
	member *membership
}

// membership stands for the group client.
type membership struct {
	mu sync.Mutex
	id Identity
	ok bool
}

func (m *membership) set(id Identity, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id, m.ok = id, ok
}

func (m *membership) get() (Identity, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id, m.ok
}

// oldVersions makes the cluster one of 3.6: transactions before transaction.version 2.
func oldVersions() kfake.Opt { return kfake.MaxVersions(kversion.V3_6_0()) }

func newBench(t testing.TB, opts ...kfake.Opt) *bench {
	t.Helper()
	return newBenchOn(t, nil, opts...)
}

// newBenchOn runs on a virtual network where one is given.
func newBenchOn(t testing.TB, vn *kfake.VirtualNetwork, opts ...kfake.Opt) *bench {
	t.Helper()
	opts = append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(2, "in", "out", "log"),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": "500000"})}, opts...)
	b := &bench{t: t, ids: make(map[string][16]byte), cut: &cutter{}, member: &membership{id: Identity{Generation: -1}, ok: true}}
	var d net.Dialer
	b.dial = d.DialContext
	if vn != nil {
		opts = append(opts, kfake.ListenFn(vn.Listen))
		b.dial = vn.DialContext
	}
	k, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	b.k = k
	t.Cleanup(k.Close)
	b.admin = b.client()
	td, err := kadm.NewClient(b.admin).ListTopics(t.Context(), "in", "out", "log")
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range td {
		b.ids[name] = d.ID
	}
	return b
}

func (b *bench) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.k.ListenAddrs()...), kgo.Dialer(b.dial),
		kgo.MetadataMinAge(10 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return cl
}

func (b *bench) topicID(topic string) [16]byte { return b.ids[topic] }

func (b *bench) config() Config {
	return Config{
		Group: testGroup, TransactionalID: testTxnID, Identity: b.member.get, TopicID: b.topicID,
		Timeout: 10 * time.Second, GenerationWait: 200 * time.Millisecond,
		Client: []kgo.Opt{kgo.SeedBrokers(b.k.ListenAddrs()...), kgo.Dialer(b.cut.dialer(b.dial)), kgo.RequestRetries(1), kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NoResetOffset())},
	}
}

func (b *bench) open(cfg Config, p Participant) *Driver {
	b.t.Helper()
	d, err := Open(b.t.Context(), cfg, p)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(d.Close)
	return d
}

// committed reads what a consumer of committed records sees up to the last stable offset.
func (b *bench) committed(topic string, partition int32) []*kgo.Record {
	b.t.Helper()
	end := b.k.PartitionInfo(topic, partition).LastStableOffset
	cl := b.client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	var got []*kgo.Record
	for at := int64(0); at < end; {
		fs := cl.PollFetches(b.t.Context())
		if err := fs.Err(); err != nil {
			b.t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if !r.Attrs.IsControl() {
				got = append(got, r)
			}
		})
	}
	return got
}

// offset is the stable committed offset of in/partition.
func (b *bench) offset(partition int32) CommittedOffset {
	b.t.Helper()
	tp := TopicPartition{"in", partition}
	got, err := StableOffsets(b.t.Context(), b.admin, testGroup, []TopicPartition{tp}, StableOptions{TopicID: b.topicID})
	if err != nil {
		b.t.Fatal(err)
	}
	return got[tp]
}

func values(rs []*kgo.Record) []string {
	var out []string
	for _, r := range rs {
		out = append(out, string(r.Key)+"="+string(r.Value))
	}
	return out
}

// counter is a worker's tasks in small: it counts per key of one partition of "in", writes each count to "out", and
// stages the counts to "log".
type counter struct {
	d         *Driver
	partition int32
	committed map[string]int
	dirty     map[string]int
	next      int64
	done      int64 // committed position
	moved     bool
	stageErr  error
	meta      string
	commits   int
	rollbacks int
}

func newCounter(partition int32) *counter {
	return &counter{partition: partition, committed: map[string]int{}, dirty: map[string]int{}}
}

func (c *counter) take(ctx context.Context, key string) {
	n, ok := c.dirty[key]
	if !ok {
		n = c.committed[key]
	}
	n++
	c.dirty[key] = n
	c.next++
	c.moved = true
	c.d.Produce(ctx, &kgo.Record{Topic: "out", Partition: c.partition, Key: []byte(key), Value: strconv.AppendInt(nil, int64(n), 10)})
}

// skip moves on without an output or a change.
func (c *counter) skip() { c.next++; c.moved = true }

func (c *counter) Partitions() []TopicPartitions {
	return []TopicPartitions{{"out", []int32{c.partition}}, {"log", []int32{c.partition}}}
}

func (c *counter) Stage(produce func(*kgo.Record)) error {
	if c.stageErr != nil {
		return c.stageErr
	}
	for _, k := range sortedKeys(c.dirty) {
		produce(&kgo.Record{Topic: "log", Partition: c.partition, Key: []byte(k), Value: strconv.AppendInt(nil, int64(c.dirty[k]), 10)})
	}
	return nil
}

func (c *counter) Offsets() []Offset {
	if !c.moved {
		return nil
	}
	return []Offset{{Topic: "in", Partition: c.partition, Next: c.next, LeaderEpoch: -1, Metadata: c.meta}}
}

func (c *counter) Committed() {
	for k, v := range c.dirty {
		c.committed[k] = v
	}
	c.dirty, c.done, c.moved = map[string]int{}, c.next, false
	c.commits++
}

func (c *counter) Rollback() {
	c.dirty, c.next, c.moved = map[string]int{}, c.done, false
	c.rollbacks++
}

func sortedKeys(m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// cutter is a network that cuts the connection at a chosen request.
type cutter struct {
	mu    sync.Mutex
	key   kmsg.Key
	after bool // cut when the answer comes, and not before the request goes out
	armed bool
	down  bool // nobody gets a connection or an answer
	hits  int
	fell  func() // called once the network is down
}

// arm cuts the next request of a key, before or after the broker has done it, and takes the network down until up.
func (c *cutter) arm(key kmsg.Key, after bool, fell func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.key, c.after, c.armed, c.hits, c.fell = key, after, true, 0, fell
}

func (c *cutter) up() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down, c.armed = false, false
}

// fall takes the network down; c.mu is held.
func (c *cutter) fall() {
	c.down = true
	if c.fell != nil {
		go c.fell()
	}
}

func (c *cutter) isDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

func (c *cutter) dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if c.isDown() {
			// The client dials again at once when it adds partitions below transaction.version 2.
			sleep(ctx, 10*time.Millisecond)
			return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("network is down")}
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &cutConn{Conn: conn, c: c}, nil
	}
}

type cutConn struct {
	net.Conn
	c      *cutter
	doomed bool // guarded by c.mu: the answer to the chosen request is what comes next
}

func (x *cutConn) Write(p []byte) (int, error) {
	x.c.mu.Lock()
	if x.c.armed && len(p) >= 6 && kmsg.Key(binary.BigEndian.Uint16(p[4:])) == x.c.key {
		x.c.armed = false
		x.c.hits++
		if x.c.after {
			x.doomed = true
		} else {
			x.c.fall()
		}
	}
	down := x.c.down
	x.c.mu.Unlock()
	if down {
		x.Conn.Close()
		return 0, io.ErrClosedPipe
	}
	return x.Conn.Write(p)
}

func (x *cutConn) Read(p []byte) (int, error) {
	n, err := x.Conn.Read(p)
	x.c.mu.Lock()
	if x.doomed && n > 0 {
		x.doomed = false
		x.c.fall()
	}
	down := x.c.down
	x.c.mu.Unlock()
	if down {
		x.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}
