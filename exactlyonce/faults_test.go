package exactlyonce

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The network goes down at EndTxn, before or after the broker has committed. What the driver says must be what the broker did.
func TestConnectionCutAtEndTxn(t *testing.T) {
	for name, after := range map[string]bool{"before": false, "after": true} {
		for _, timer := range []bool{false, true} {
			if timer {
				name += ", no offset moved"
			}
			t.Run(name, func(t *testing.T) {
				b := newBench(t)
				c := newCounter(0)
				c.d = b.open(b.config(), c)
				ctx := t.Context()
				c.take(ctx, "a")
				want(t, c.d.Commit(ctx), Committed)
				c.take(ctx, "a")
				if timer {
					c.next = c.done // a timer wrote
				}
				b.cut.arm(kmsg.EndTxn, after, func() { time.AfterFunc(50*time.Millisecond, b.cut.up) })
				out := c.d.Commit(ctx)
				if b.cut.hits != 1 || !out.Reopened {
					t.Fatalf("%d cuts, outcome %+v", b.cut.hits, out)
				}
				if after {
					want(t, out, Committed)
					wantValues(t, b.committed("out", 0), "a=1", "a=2")
					if c.committed["a"] != 2 || c.commits != 2 {
						t.Fatalf("counter %+v", c)
					}
				} else {
					want(t, out, Aborted)
					wantValues(t, b.committed("out", 0), "a=1")
					if c.committed["a"] != 1 || c.rollbacks != 1 {
						t.Fatalf("counter %+v", c)
					}
					c.take(ctx, "a")
					want(t, c.d.Commit(ctx), Committed)
				}
				c.take(ctx, "a")
				want(t, c.d.Commit(ctx), Committed)
				wantValues(t, b.committed("out", 0), "a=1", "a=2", "a=3")
			})
		}
	}
}

// The context ends while the outcome is not known: nothing is claimed.
func TestEndedWhileUnknown(t *testing.T) {
	b := newBench(t)
	c := newCounter(0)
	c.d = b.open(b.config(), c)
	ctx, cancel := context.WithCancel(t.Context())
	c.take(ctx, "a")
	b.cut.arm(kmsg.EndTxn, true, func() { time.AfterFunc(50*time.Millisecond, cancel) })
	out := c.d.Commit(ctx)
	want(t, out, Abandoned)
	if !errors.Is(out.Err, context.Canceled) || c.commits != 0 || c.rollbacks != 1 {
		t.Fatalf("outcome %+v, counter %+v", out, c)
	}
	want(t, c.d.Commit(t.Context()), Fatal)
	c.d.Produce(t.Context(), &kgo.Record{Topic: "out"})
	if !errors.Is(c.d.Err(), ErrClosed) {
		t.Fatalf("err %v", c.d.Err())
	}
}

func TestEndedBeforeCommit(t *testing.T) {
	b := newBench(t)
	c := newCounter(0)
	c.d = b.open(b.config(), c)
	c.take(t.Context(), "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := c.d.Commit(ctx)
	if out.Kind != Aborted && out.Kind != Abandoned {
		t.Fatalf("outcome %+v", out)
	}
	wantValues(t, b.committed("out", 0))
}

func TestGuard(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(g.String(), func(t *testing.T) {
			b := newBench(t)
			c := newCounter(0)
			cfg := b.config()
			cfg.Guarantee = g
			c.d = b.open(cfg, c)
			ctx := t.Context()
			c.take(ctx, "a")
			b.member.set(Identity{}, false)
			out := c.d.Commit(ctx)
			want(t, out, Refused)
			if !errors.Is(out.Err, ErrRefused) {
				t.Fatalf("err %v", out.Err)
			}
			if o := b.offset(0); o.Offset != -1 {
				t.Fatalf("offset %d", o.Offset)
			}
			if g == ExactlyOnce {
				wantValues(t, b.committed("out", 0))
			}
			// Stopped until the group speaks.
			c.take(ctx, "a")
			want(t, c.d.Commit(ctx), Refused)
			b.member.set(Identity{Generation: -1}, true)
			c.d.Resume()
			c.take(ctx, "b")
			want(t, c.d.Commit(ctx), Committed)
			if o := b.offset(0); o.Offset != 1 {
				t.Fatalf("offset %d", o.Offset)
			}
		})
	}
}

func TestNewGenerationIsSentInTheSameTransaction(t *testing.T) {
	b := newBench(t)
	c := newCounter(0)
	c.d = b.open(b.config(), c)
	ctx := t.Context()
	ends := b.k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Observe: true, Count: -1})
	sent := b.k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.IllegalGeneration, Count: -1,
		When: func(r kmsg.Request) bool { return r.(*kmsg.TxnOffsetCommitRequest).Generation == 4 }})
	b.member.set(Identity{Generation: 4}, true)
	c.take(ctx, "a")
	go func() {
		if sent.Wait(ctx, 1) == nil {
			b.member.set(Identity{Generation: -1}, true)
		}
	}()
	want(t, c.d.Commit(ctx), Committed)
	if sent.Hits() != 1 || ends.Hits() != 1 {
		t.Fatalf("%d refused, %d ends", sent.Hits(), ends.Hits())
	}
	wantValues(t, b.committed("out", 0), "a=1")

	// None comes: refused. Another member id while waiting: refused.
	b.member.set(Identity{Generation: 4}, true)
	c.take(ctx, "a")
	want(t, c.d.Commit(ctx), Refused)
	c.d.Resume()
	c.take(ctx, "a")
	go func() {
		if sent.Wait(ctx, 3) == nil {
			b.member.set(Identity{Member: "other", Generation: 1}, true)
		}
	}()
	want(t, c.d.Commit(ctx), Refused)
	wantValues(t, b.committed("out", 0), "a=1")
}

// A worker dies between TxnOffsetCommit and EndTxn. The new owner finds the offset unstable, fences, and goes on.
func TestTakeOver(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	dead := newCounter(0)
	dead.meta = testTxnID
	dead.d = b.open(b.config(), dead)
	dead.take(ctx, "a")
	want(t, dead.d.Commit(ctx), Committed)
	dead.take(ctx, "a")
	ended, stop := context.WithCancel(ctx)
	b.cut.arm(kmsg.EndTxn, false, stop)
	want(t, dead.d.Commit(ended), Abandoned)
	b.cut.up()

	f := &Fencer{Client: b.admin, Prefix: "app-"}
	tp := TopicPartition{"in", 0}
	var fenced []string
	got, err := StableOffsets(ctx, b.admin, testGroup, []TopicPartition{tp, {"in", 1}}, StableOptions{TopicID: b.topicID, FenceAfter: 40 * time.Millisecond,
		Fence: func(ctx context.Context, unstable map[TopicPartition]CommittedOffset) error {
			if unstable[tp].Metadata != testTxnID {
				t.Errorf("what was committed before: %+v", unstable)
			}
			ids, err := f.Fence(ctx, []TopicPartition{{"log", 0}})
			fenced = append(fenced, ids...)
			return err
		}})
	if err != nil {
		t.Fatal(err)
	}
	if got[tp].Offset != 1 || got[TopicPartition{"in", 1}].Offset != -1 || len(fenced) != 1 || fenced[0] != testTxnID {
		t.Fatalf("offsets %v, fenced %v", got, fenced)
	}
	wantValues(t, b.committed("out", 0), "a=1")
	if i := b.k.PartitionInfo("log", 0); i.LastStableOffset != i.HighWatermark {
		t.Fatalf("log still blocked: %+v", i)
	}
}

func TestFencer(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	c := newCounter(0)
	c.d = b.open(b.config(), c)
	c.take(ctx, "a")
	if err := c.d.Client().Flush(ctx); err != nil {
		t.Fatal(err)
	}
	other := &Fencer{Client: b.admin, Prefix: "other-"}
	if ids, err := other.Fence(ctx, []TopicPartition{{"out", 0}}); err != nil || len(ids) != 0 {
		t.Fatalf("fenced a foreign producer: %v %v", ids, err)
	}
	if _, err := (&Fencer{Client: b.admin}).FenceID(ctx, testTxnID); err == nil {
		t.Fatal("no prefix")
	}
	f := &Fencer{Client: b.admin, Prefix: "app-"}
	if ids, err := f.Fence(ctx, []TopicPartition{{"out", 1}}); err != nil || len(ids) != 0 {
		t.Fatalf("nobody is there: %v %v", ids, err)
	}
	if ids, err := f.Fence(ctx, []TopicPartition{{"out", 0}, {"log", 0}}); err != nil || len(ids) != 1 {
		t.Fatalf("fenced %v %v", ids, err)
	}
	if done, err := f.FenceID(ctx, testTxnID); done || err != nil {
		t.Fatalf("again within a second: %v %v", done, err)
	}
	out := c.d.Commit(ctx)
	want(t, out, Aborted)
	if !out.Reopened {
		t.Fatalf("outcome %+v", out)
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := Open(t.Context(), Config{}, newCounter(0)); err == nil {
		t.Fatal("empty configuration")
	}
	b := newBench(t)
	b.k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.TransactionalIDAuthorizationFailed})
	if _, err := Open(t.Context(), b.config(), newCounter(0)); !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		t.Fatalf("err %v", err)
	}
	cfg := b.config()
	cfg.Client = append(cfg.Client, kgo.ProducerBatchMaxBytes(-1))
	if _, err := Open(t.Context(), cfg, newCounter(0)); !errors.Is(err, errOptions) {
		t.Fatalf("err %v", err)
	}
	// A coordinator that is down for a while is waited for.
	b.cut.arm(kmsg.InitProducerID, false, func() { time.AfterFunc(20*time.Millisecond, b.cut.up) })
	c := newCounter(0)
	c.d = b.open(b.config(), c)
	c.take(t.Context(), "a")
	want(t, c.d.Commit(t.Context()), Committed)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	b.cut.arm(kmsg.InitProducerID, false, nil)
	if _, err := Open(ctx, b.config(), newCounter(0)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("err %v", err)
	}
	b.cut.up()
}

// The broker holds produced records back for longer than a transaction lives: the worker does not wait for ever.
func TestStuckFlush(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(g.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBenchOn(t, new(kfake.VirtualNetwork))
				c := newCounter(0)
				cfg := b.config()
				cfg.Guarantee = g
				c.d = b.open(cfg, c)
				ctx := t.Context()
				f := b.k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1})
				c.take(ctx, "a")
				begun := time.Now()
				out := c.d.Commit(ctx)
				want(t, out, Aborted)
				if took := time.Since(begun); !errors.Is(out.Err, errStuck) || took > 5*time.Minute {
					t.Fatalf("after %v: %+v", took, out)
				}
				f.Remove()
				c.take(ctx, "a")
				want(t, c.d.Commit(ctx), Committed)
				wantValues(t, b.committed("out", 0), "a=1")
				c.d.Close()
			})
		})
	}
}

// The membership is lost while records wait for a broker. Without a transaction, nobody would refuse them later: they are dropped at once.
func TestLostWhileFlushing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBenchOn(t, new(kfake.VirtualNetwork))
		c := newCounter(0)
		cfg := b.config()
		cfg.Guarantee = AtLeastOnce
		c.d = b.open(cfg, c)
		ctx := t.Context()
		f := b.k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Count: -1})
		c.take(ctx, "a")
		begun := time.Now()
		time.AfterFunc(5*time.Second, func() { b.member.set(Identity{}, false) })
		want(t, c.d.Commit(ctx), Refused)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		f.Remove()
		<-time.After(time.Minute)
		wantValues(t, b.committed("out", 0))
		wantValues(t, b.committed("log", 0))
		b.member.set(Identity{Generation: -1}, true)
		c.d.Resume()
		c.take(ctx, "a")
		want(t, c.d.Commit(ctx), Committed)
		wantValues(t, b.committed("out", 0), "a=1")
		c.d.Close()
	})
}
