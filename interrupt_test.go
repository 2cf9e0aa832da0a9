package kolk

import (
	"context"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

// hold opens a transaction of somebody else's on a partition: a restore cannot get past it. The result ends it.
func (w *world) hold(topic string, partition int32) (release func()) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.fake.ListenAddrs()...), kgo.Dialer(w.net.DialContext), kgo.TransactionalID("somebody"),
		kgo.TransactionTimeout(10*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cl.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	if err := cl.ProduceSync(w.t.Context(), &kgo.Record{Topic: topic, Partition: partition, Key: []byte("theirs"), Value: eight(99)}).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.t.Helper()
		if err := cl.EndTransaction(context.Background(), kgo.TryAbort); err != nil {
			w.t.Fatal(err)
		}
		cl.Close()
	}
}

// countingTwice has two stores in one task.
func countingTwice() *topology.Builder {
	b := topology.New()
	s := b.Stream(words)
	s.GroupByKey().Count("first", store.FiniteKeys(1000)).To(totals)
	s.GroupByKey().Count("second", store.FiniteKeys(1000))
	return b
}

// A bulk load that is interrupted leaves nothing: neither rows nor a position past rows that were thrown away with it.
func TestInterruptedBulkLoad(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		r := w.start(countingTwice(), c).ready()
		w.send("words", "a=", "b=", "a=")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		release := w.hold("app-second-changelog", 0)
		c.StateDir = t.TempDir()
		r = w.start(countingTwice(), c)
		w.wait(5 * time.Second)
		if h := r.app.Health(); h.State != Restoring {
			t.Fatalf("state is %v", h.State)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		release()
		r = w.start(countingTwice(), c).ready()
		w.send("words", "a=")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{"a": 3, "b": 1}
		w.same("first", w.counts("app-first-changelog"), want)
		w.same("second", w.counts("app-second-changelog"), want)
	})
}
