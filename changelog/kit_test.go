package changelog

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const logTopic = "app-counts-changelog"

// kit is a cluster with one client for administration and one Reader.
type kit struct {
	t       testing.TB
	cluster *kfake.Cluster
	opts    []kgo.Opt
	adm     *kadm.Client
	reader  *Reader
}

func newKit(t testing.TB, c Config, opts ...kfake.Opt) *kit {
	t.Helper()
	return dialKit(t, c, nil, opts...)
}

// dialKit uses a virtual network if there is one, else the loopback.
func dialKit(t testing.TB, c Config, network *kfake.VirtualNetwork, opts ...kfake.Opt) *kit {
	t.Helper()
	k := &kit{t: t}
	opts = append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)
	if network != nil {
		opts = append(opts, kfake.ListenFn(network.Listen))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	k.cluster = cluster
	k.opts = []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}
	if network != nil {
		k.opts = append(k.opts, kgo.Dialer(network.DialContext))
	}
	client, err := kgo.NewClient(append(k.opts, kgo.MetadataMinAge(20*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	k.adm = kadm.NewClient(client)
	c.Opts = k.opts
	k.reader, err = NewReader(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.reader.Close)
	return k
}

func (k *kit) create(topic string, partitions int32, config map[string]string) {
	k.t.Helper()
	pointers := map[string]*string{retentionMS: kadm.StringPtr("-1"), cleanupPolicy: kadm.StringPtr(compact)}
	for key, value := range config {
		pointers[key] = kadm.StringPtr(value)
	}
	if _, err := k.adm.CreateTopic(k.t.Context(), partitions, 1, pointers, topic); err != nil {
		k.t.Fatal(err)
	}
}

// producer writes to given partitions, in transactions if it has an id.
func (k *kit) producer(id string, opts ...kgo.Opt) *kgo.Client {
	k.t.Helper()
	opts = append(append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression())}, k.opts...), opts...)
	if id != "" {
		opts = append(opts, kgo.TransactionalID(id))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(client.Close)
	return client
}

// row is a record for partition 0; an empty value is a tombstone.
func row(key, value string) *kgo.Record {
	r := &kgo.Record{Topic: logTopic, Key: []byte(key), Timestamp: time.UnixMilli(1000)}
	if value != "" {
		r.Value = []byte(value)
	}
	return r
}

func (k *kit) produce(client *kgo.Client, rows ...*kgo.Record) {
	k.t.Helper()
	if err := client.ProduceSync(k.t.Context(), rows...).FirstErr(); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) begin(client *kgo.Client, rows ...*kgo.Record) {
	k.t.Helper()
	if err := client.BeginTransaction(); err != nil {
		k.t.Fatal(err)
	}
	k.produce(client, rows...)
}

func (k *kit) end(client *kgo.Client, commit kgo.TransactionEndTry) {
	k.t.Helper()
	if err := client.EndTransaction(k.t.Context(), commit); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) ends(topic string, partition int32) (start, end int64) {
	k.t.Helper()
	start, end, err := k.reader.End(k.t.Context(), topic, partition)
	if err != nil {
		k.t.Fatal(err)
	}
	return start, end
}

// table is a store as a restore builds it.
type table struct {
	rows    map[string]string
	offsets []int64
	calls   int
}

func newTable() *table { return &table{rows: map[string]string{}} }

func (s *table) apply(records []Record) error {
	s.calls++
	for _, r := range records {
		s.offsets = append(s.offsets, r.Offset)
		if r.Value == nil {
			delete(s.rows, string(r.Key))
			continue
		}
		s.rows[string(r.Key)] = string(r.Value)
	}
	return nil
}

// restore reads partition 0 of the log to its present end and compares.
func (k *kit) restore(from int64, want map[string]string) *table {
	k.t.Helper()
	_, end := k.ends(logTopic, 0)
	s := newTable()
	var p Progress
	next, err := k.reader.Restore(k.t.Context(), Part{Topic: logTopic, From: from, End: end}, s.apply, &p)
	if err != nil {
		k.t.Fatal(err)
	}
	if next != end {
		k.t.Errorf("next = %d, want the end %d", next, end)
	}
	if !maps.Equal(s.rows, want) {
		k.t.Errorf("restored %v, want %v", s.rows, want)
	}
	if st := p.State(); !st.Done || st.Position != end || st.Records != int64(len(s.offsets)) || st.Left != 0 {
		k.t.Errorf("progress %+v after %d records to %d", st, len(s.offsets), end)
	}
	return s
}

// until polls what another goroutine changes. In real time it spins politely; under synctest time moves.
func until(ctx context.Context, what string, ok func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
	return nil
}
