package exactlyonce

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Every code of the table that the broker in the process can be made to answer, once, in the second of three commits. What must hold
// after it is the same for all of them: outputs are 1, 2, 3.
func TestEveryRowOnABroker(t *testing.T) {
	keys := map[Request]kmsg.Key{ReqRegister: kmsg.AddPartitionsToTxn, ReqProduce: kmsg.Produce, ReqAddOffsets: kmsg.AddOffsetsToTxn,
		ReqTxnOffsetCommit: kmsg.TxnOffsetCommit, ReqOffsetCommit: kmsg.OffsetCommit, ReqEndCommit: kmsg.EndTxn, ReqInitProducerID: kmsg.InitProducerID}
	kinds := map[Meaning]Kind{Retry: Committed, Await: Refused, Skip: Committed, Replay: Aborted, Renew: Aborted, Unknown: Aborted,
		Refuse: Refused, Reject: Rejected, Fail: Fatal}
	for _, row := range table {
		code, ok := row.Err.(*kerr.Error)
		key, possible := keys[row.Request]
		if !ok || !possible {
			continue
		}
		t.Run(fmt.Sprintf("%v/%s", row.Request, code.Message), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var opts []kfake.Opt
				if row.Request == ReqAddOffsets {
					opts = append(opts, oldVersions())
				}
				b := newBenchOn(t, new(kfake.VirtualNetwork), opts...)
				fault := kfake.Fault{Keys: []kmsg.Key{key}, Err: code}
				c := newCounter(0)
				ctx := t.Context()
				if row.Request == ReqInitProducerID {
					h := b.k.Fault(fault)
					d, err := Open(ctx, b.config(), c)
					if h.Hits() == 0 || (err != nil) != (row.Meaning == Fail) {
						t.Fatalf("%d hits, err %v", h.Hits(), err)
					}
					if err != nil {
						return
					}
					defer d.Close()
					c.d = d
				} else {
					c.d = b.open(b.config(), c)
				}
				step := func() {
					if row.Request == ReqOffsetCommit {
						c.skip()
					} else {
						c.take(ctx, "a")
					}
				}
				step()
				want(t, c.d.Commit(ctx), Committed)
				h := b.k.Fault(fault)
				step()
				out := c.d.Commit(ctx)
				if row.Request == ReqInitProducerID {
					h.Remove()
				} else if h.Hits() == 0 {
					t.Fatal("the fault was not met")
				}
				kind := kinds[row.Meaning]
				if row.Request == ReqInitProducerID {
					kind = Committed
				}
				// Some codes the client retries itself, and never shows.
				hidden := out.Kind == Committed && (code.Retriable || code == kerr.ConcurrentTransactions)
				if out.Kind != kind && !hidden {
					t.Fatalf("outcome %v (%v), want %v", out.Kind, out.Err, kind)
				}
				if out.Kind != Committed && !errors.Is(out.Err, code) {
					t.Fatalf("err %v", out.Err)
				}
				if out.Kind == Fatal {
					c.d.Close()
					c.d = b.open(b.config(), c)
				}
				c.d.Resume()
				for c.next < 3 {
					step()
					want(t, c.d.Commit(ctx), Committed)
				}
				if o := b.offset(0); o.Offset != 3 {
					t.Fatalf("offset %d", o.Offset)
				}
				if row.Request != ReqOffsetCommit {
					wantValues(t, b.committed("out", 0), "a=1", "a=2", "a=3")
					if log := values(b.committed("log", 0)); log[len(log)-1] != "a=3" {
						t.Fatalf("log %v", log)
					}
				}
				c.d.Close()
			})
		})
	}
}

// User code takes longer than the transaction timeout, and nobody else is there.
func TestTransactionTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBenchOn(t, new(kfake.VirtualNetwork))
		c := newCounter(0)
		c.d = b.open(b.config(), c)
		ctx := t.Context()
		for range 4 { // more than the number of fencings that would count as a second process
			c.take(ctx, "a")
			if err := c.d.Client().Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if s := time.Since(c.d.OpenSince()); s > time.Second {
				t.Fatalf("open since %v", s)
			}
			<-time.After(40 * time.Second)
			out := c.d.Commit(ctx)
			want(t, out, Aborted)
			if !out.TimedOut || !out.Reopened {
				t.Fatalf("outcome %+v", out)
			}
		}
		c.take(ctx, "a")
		want(t, c.d.Commit(ctx), Committed)
		wantValues(t, b.committed("out", 0), "a=1")
		if !c.d.OpenSince().IsZero() {
			t.Fatal("still open")
		}
		c.d.Close()
	})
}

// The dead owner's transaction ends by its timeout when there is nobody to fence.
func TestStableOffsetsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBenchOn(t, new(kfake.VirtualNetwork))
		c := newCounter(0)
		c.d = b.open(b.config(), c)
		ctx := t.Context()
		c.take(ctx, "a")
		want(t, c.d.Commit(ctx), Committed)
		c.take(ctx, "a")
		b.cut.arm(kmsg.EndTxn, false, nil)
		done := make(chan Outcome, 1)
		cctx, cancel := context.WithCancel(ctx)
		go func() { done <- c.d.Commit(cctx) }()
		<-time.After(time.Second)
		begun := time.Now()
		reports := 0
		got, err := StableOffsets(ctx, b.admin, testGroup, []TopicPartition{{"in", 0}}, StableOptions{TopicID: b.topicID, Report: func(error) { reports++ }})
		if err != nil || got[TopicPartition{"in", 0}].Offset != 1 {
			t.Fatalf("%v %v", got, err)
		}
		if took := time.Since(begun); took < 5*time.Second || reports < 100 {
			t.Fatalf("took %v, %d reports", took, reports)
		}
		cancel()
		want(t, <-done, Abandoned)
		b.cut.up()
		// A topic made anew: an error after a while, not a wait for ever.
		unknown := func(string) [16]byte { return [16]byte{1} }
		begun = time.Now()
		_, err = StableOffsets(ctx, b.admin, testGroup, []TopicPartition{{"in", 0}}, StableOptions{TopicID: unknown, GoneAfter: time.Minute})
		if !errors.Is(err, kerr.UnknownTopicID) || time.Since(begun) < time.Minute {
			t.Fatalf("after %v: %v", time.Since(begun), err)
		}
	})
}
