package kolk

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
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

// slow takes its time for each record, and stops when its context ends, as a processor that calls another service does.
type slow struct{ takes time.Duration }

func (s slow) Process(ctx *processor.Context[string, string], r processor.Record[string, string]) error {
	select {
	case <-time.After(s.takes):
	case <-ctx.Context().Done():
		return ctx.Context().Err()
	}
	ctx.Forward(r)
	return nil
}

// The context of a processor lasts as long as its task: neither the end of Run nor a rebalance makes records fail that are being processed.
func TestContextOfProcessors(t *testing.T) {
	texts := topology.NewTopic("texts", serde.String(), serde.String())
	b := func() *topology.Builder {
		b := topology.New()
		b.Stream(words).Process("slow", func() slow { return slow{300 * time.Millisecond} }).To(texts)
		return b
	}
	inWorld(t, map[string]int32{"words": 2, "texts": 1}, func(w *world) {
		c := w.config("app")
		var failed atomic.Int64
		c.Hooks = &Hooks{OnCommit: func(_ int, _ time.Duration, err error) {
			if err != nil {
				failed.Add(1)
			}
		}}
		first := w.start(b(), c).ready()
		for range 20 {
			w.send("words", "a=", "b=", "c=")
		}
		w.wait(time.Second)
		second := w.start(b(), w.config("app")).ready()
		w.wait(5 * time.Second)
		if h := first.app.Health(); h.State != Running || len(h.Tasks) != 1 {
			t.Fatalf("the first instance: %v, %d tasks, %v", h.State, len(h.Tasks), h.Err)
		}
		before := len(w.read("texts"))
		if err := first.stop(); err != nil {
			t.Errorf("the first instance ended with: %v", err)
		}
		if n := len(w.read("texts")); n <= before {
			t.Error("what was being processed was not committed")
		}
		if n := failed.Load(); n > 0 {
			t.Errorf("%d commits failed", n)
		}
		w.settled("app", "words")
		if err := second.stop(); err != nil {
			t.Fatal(err)
		}
		if n := len(w.read("texts")); n != 60 {
			t.Errorf("%d records, want 60", n)
		}
	})
}

// An instance that stops while others join hands nothing over before it has committed: what it writes after that would be counted twice.
func TestStopWhileOthersJoin(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		b := func() *topology.Builder {
			b := topology.New()
			b.Stream(words).Process("slow", func() slow { return slow{8 * time.Second} }).GroupByKey().Count("counts", store.FiniteKeys(10)).To(totals)
			return b
		}
		inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
			c := w.config("app")
			c.Guarantee, c.CommitEvery, c.TransactionTimeout = g, time.Second, time.Minute
			first := w.start(b(), c).ready()
			for range 4 {
				w.send("words", "d=") // on the partition that moves
			}
			w.wait(time.Second)
			second := c
			second.StateDir = t.TempDir()
			heir := w.start(b(), second)
			if err := first.stop(); err != nil {
				t.Error(err)
			}
			w.settled("app", "words", "app-counts-repartition")
			if err := heir.stop(); err != nil {
				t.Fatal(err)
			}
			w.same("counts", w.counts("totals"), map[string]int64{"d": 4})
		})
	}
}

// A transaction whose end gets no answer for longer than a revocation may take: the callback goes on without it, the worker goes on when it is known
// how it has ended, and nothing is lost or doubled.
func TestRevokeWhileEndIsUnknown(t *testing.T) {
	inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.CommitEvery, c.TransactionTimeout = 30*time.Second, time.Minute // the commit of the revocation is the one that gets no answer
		first := w.start(counting(), c).ready()
		w.send("words", "a=", "d=")
		w.settled("app", "words")
		var down time.Time
		var id string // of the worker whose transaction it is
		cut := func(of string) (kmsg.Response, error, bool) {
			w.fake.KeepControl()
			if of != id || time.Now().After(down) {
				return nil, nil, false
			}
			return nil, errors.New("cut"), true
		}
		w.fake.ControlKey(int16(kmsg.EndTxn), func(r kmsg.Request) (kmsg.Response, error, bool) {
			of := r.(*kmsg.EndTxnRequest).TransactionalID
			if id == "" {
				id, down = of, time.Now().Add(50*time.Second)
			}
			return cut(of)
		})
		w.fake.ControlKey(int16(kmsg.InitProducerID), func(r kmsg.Request) (kmsg.Response, error, bool) {
			return cut(*r.(*kmsg.InitProducerIDRequest).TransactionalID)
		})
		w.send("words", "a=", "d=")
		w.wait(time.Second)
		second := w.start(counting(), w.config("app"))
		w.wait(2 * time.Minute)
		w.send("words", "a=", "d=")
		w.settled("app", "words")
		for _, r := range []*running{first, second} {
			if h := r.app.Health(); h.State != Running || len(h.Tasks) != 1 {
				t.Errorf("%v, %d tasks, %v", h.State, len(h.Tasks), h.Err)
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		}
		w.same("counts", w.counts("totals"), map[string]int64{"a": 3, "d": 3})
		if n := len(w.read("totals")); n != 6 {
			t.Errorf("%d records in the output, want 6", n)
		}
	})
}

// How far a local store goes is known after every clean stop, also after one without any input.
func TestReachIsKept(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		for range 3 {
			r := w.start(counting(), c).ready()
			if w.sends["words"] == 0 {
				w.send("words", "a=", "b=")
			}
			w.settled("app", "words")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			d := stateDir{path: filepath.Join(c.StateDir, "app")}
			files, err := filepath.Glob(filepath.Join(d.path, "tasks", "*_0.reach"))
			if err != nil || len(files) != 1 {
				t.Fatalf("files %v, %v", files, err)
			}
			owner := strings.TrimSuffix(filepath.Base(files[0]), "_0.reach")
			if n, ok := d.reach(owner, 0); n < 2 || !ok {
				t.Errorf("the store goes up to %d, %v", n, ok)
			}
		}
	})
}

// asks asks for a commit at one record.
type asks struct{}

func (asks) Process(ctx *processor.Context[string, string], r processor.Record[string, string]) error {
	if r.Value == "commit" {
		ctx.RequestCommit()
	}
	ctx.Forward(r)
	return nil
}

// A commit that is asked for comes soon, not when the input has been worked off.
func TestRequestedCommit(t *testing.T) {
	texts := topology.NewTopic("texts", serde.String(), serde.String())
	inWorld(t, map[string]int32{"words": 1, "texts": 1}, func(w *world) {
		w.send("words", "a=", "a=commit", "a=", "a=", "a=")
		b := topology.New()
		b.Stream(words).Process("slow", func() slow { return slow{time.Second} }).Process("asks", func() asks { return asks{} }).To(texts)
		c := w.config("app")
		c.CommitEvery, c.TransactionTimeout = 30*time.Second, time.Minute
		w.start(b, c).ready()
		w.wait(2500 * time.Millisecond)
		if n := len(w.read("texts")); n != 2 {
			t.Errorf("%d records are committed, want 2", n)
		}
	})
}
