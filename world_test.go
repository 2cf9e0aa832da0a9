package kolk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// world is a broker in virtual time, with applications on it.
type world struct {
	t     *testing.T
	net   kfake.VirtualNetwork
	fake  *kfake.Cluster
	cl    *kgo.Client // produces and looks
	adm   *kadm.Client
	apps  []*running
	sends map[string]int64
}

// inWorld runs body in virtual time with a broker that has the given topics.
func inWorld(t *testing.T, topics map[string]int32, body func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, sends: make(map[string]int64)}
		opts := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(9092), kfake.ListenFn(w.net.Listen),
			kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0", "message.max.bytes": "200000"})}
		for name, n := range topics {
			opts = append(opts, kfake.SeedTopics(n, name))
		}
		fake, err := kfake.NewCluster(opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer fake.Close()
		w.fake = fake
		w.cl, err = kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.Dialer(w.net.DialContext), kgo.MetadataMinAge(10*time.Millisecond), kgo.ProducerLinger(0))
		if err != nil {
			t.Fatal(err)
		}
		defer w.cl.Close()
		w.adm = kadm.NewClient(w.cl)
		defer func() {
			for _, r := range w.apps {
				r.stop()
			}
		}()
		body(w)
	})
}

// running is an App that runs.
type running struct {
	w    *world
	app  *App
	stop func() error
	cut  *cable
}

// cable is an instance's network: cut, nothing goes through and connections break.
type cable struct {
	mu    sync.Mutex
	off   bool
	conns []net.Conn
}

func (c *cable) dial(vn *kfake.VirtualNetwork) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.mu.Lock()
		off := c.off
		c.mu.Unlock()
		if off {
			return nil, fmt.Errorf("unplugged")
		}
		conn, err := vn.DialContext(ctx, network, addr)
		if err == nil {
			c.mu.Lock()
			c.conns = append(c.conns, conn)
			c.mu.Unlock()
		}
		return conn, err
	}
}

func (c *cable) unplug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = true
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

func (w *world) config(app string) Config {
	level := slog.LevelError + 4
	if testing.Verbose() {
		level = slog.LevelDebug
	}
	return Config{Application: app, Brokers: w.fake.ListenAddrs(), StateDir: w.t.TempDir(), Workers: 1, Memory: 32 << 20, MinFreeDisk: 1,
		InternalTopics: InternalTopics{Config: map[string]string{"retention.ms": "-1"}},
		Logger:         slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))}
}

// start runs a topology. The result's stop ends it and returns Run's error.
func (w *world) start(b *topology.Builder, c Config) *running {
	w.t.Helper()
	top, err := b.Build()
	if err != nil {
		w.t.Fatal(err)
	}
	r := &running{w: w, cut: new(cable)}
	c.Kafka = append(c.Kafka, kgo.Dialer(r.cut.dial(&w.net)))
	if r.app, err = New(top, c); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.app.Run(ctx) }()
	var once sync.Once
	var result error
	r.stop = func() error {
		once.Do(func() { cancel(); result = <-done })
		return result
	}
	w.apps = append(w.apps, r)
	return r
}

// failed waits until Run ends by itself.
func (r *running) failed() error {
	r.w.t.Helper()
	late := time.After(10 * time.Minute)
	for {
		h, changed := r.app.status.snapshot()
		if h.State == Failed || h.State == Stopped {
			return r.stop()
		}
		select {
		case <-changed:
		case <-late:
			r.w.t.Fatalf("the application goes on: %+v", h)
		}
	}
}

func (r *running) ready() *running {
	r.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := r.app.WaitReady(ctx); err != nil {
		r.w.t.Fatal(err)
	}
	return r
}

// send produces key=value records; times go up by a second.
func (w *world) send(topic string, pairs ...string) {
	w.t.Helper()
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		w.sends[topic]++
		r := &kgo.Record{Topic: topic, Key: []byte(k), Value: []byte(v), Timestamp: time.UnixMilli(1_700_000_000_000 + 1000*w.sends[topic])}
		if err := w.cl.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// create makes a topic with configurations, given as key and value in turn.
func (w *world) create(topic string, partitions int32, config ...string) {
	w.t.Helper()
	configs := make(map[string]*string)
	for i := 0; i < len(config); i += 2 {
		configs[config[i]] = &config[i+1]
	}
	if _, err := w.adm.CreateTopic(w.t.Context(), partitions, 1, configs, topic); err != nil {
		w.t.Fatal(err)
	}
}

// read returns everything committed in a topic, in order of partition and offset.
func (w *world) read(topic string) (out []*kgo.Record) {
	w.t.Helper()
	ends, err := w.adm.ListCommittedOffsets(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	starts, err := w.adm.ListStartOffsets(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	at := make(map[int32]kgo.Offset)
	left := make(map[int32]int64)
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := starts.Lookup(topic, o.Partition); s.Offset < o.Offset {
			at[o.Partition], left[o.Partition] = kgo.NewOffset().At(s.Offset), o.Offset
		}
	})
	if len(at) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.fake.ListenAddrs()...), kgo.Dialer(w.net.DialContext), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	for len(left) > 0 {
		cl.PollFetches(w.t.Context()).EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return out
}

// counts is the last committed count of each key in a topic of counts.
func (w *world) counts(topic string) map[string]int64 {
	w.t.Helper()
	out := make(map[string]int64)
	for _, r := range w.read(topic) {
		if r.Value == nil {
			delete(out, string(r.Key))
			continue
		}
		out[string(r.Key)] = int64(binary.BigEndian.Uint64(r.Value))
	}
	return out
}

// settled waits until the application has committed all of its inputs, in virtual time.
func (w *world) settled(app string, topics ...string) {
	w.t.Helper()
	for range 3000 {
		lag := int64(0)
		committed, err := w.adm.FetchOffsets(w.t.Context(), app)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			w.t.Fatal(err)
		}
		ends, err := w.adm.ListCommittedOffsets(w.t.Context(), topics...)
		if err != nil {
			w.t.Fatal(err)
		}
		ends.Each(func(o kadm.ListedOffset) {
			c, ok := committed.Lookup(o.Topic, o.Partition)
			if !ok {
				lag += o.Offset
				return
			}
			lag += max(0, o.Offset-c.At)
		})
		if lag == 0 {
			return
		}
		w.wait(100 * time.Millisecond)
	}
	w.t.Fatalf("application %s does not get to the end of %v", app, topics)
}

// wait lets virtual time pass.
func (w *world) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *world) same(what string, got, want map[string]int64) {
	w.t.Helper()
	if !maps.Equal(got, want) {
		w.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

var (
	words  = topology.NewTopic("words", serde.String(), serde.String())
	totals = topology.NewTopic("totals", serde.String(), serde.Int64())
)

// counting counts the records of each key.
func counting(opts ...topology.StateOption) *topology.Builder {
	b := topology.New()
	b.Stream(words).GroupByKey().Count("counts", store.FiniteKeys(1000), opts...).To(totals)
	return b
}

// countingValues counts by value, through a repartition topic.
func countingValues() *topology.Builder {
	b := topology.New()
	b.Stream(words).GroupBy(func(_, v string) string { return v }).Count("counts", store.FiniteKeys(1000)).To(totals)
	return b
}
