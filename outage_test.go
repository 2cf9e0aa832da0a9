package kolk

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (c *cable) plug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = false
}

// An instance that is alone and has no network for a while, longer than everything that times out, goes on when it is back.
func TestNetworkOutage(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		for _, d := range []time.Duration{5 * time.Second, 40 * time.Second, 3 * time.Minute} {
			t.Run(fmt.Sprint(g, " ", d), func(t *testing.T) {
				inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
					c := w.config("app")
					c.Guarantee, c.CommitEvery = g, 100*time.Millisecond
					r := w.start(counting(), c).ready()
					w.send("words", "a=", "d=")
					w.settled("app", "words")
					w.send("words", "a=", "d=")
					r.cut.unplug()
					w.send("words", "a=", "d=")
					w.wait(d)
					r.cut.plug()
					w.send("words", "a=", "d=")
					w.settled("app", "words")
					if err := r.stop(); err != nil {
						t.Error(err)
					}
					got := w.counts("app-counts-changelog")
					if g == ExactlyOnce {
						w.same("counts", got, map[string]int64{"a": 4, "d": 4})
					} else if got["a"] < 4 || got["d"] < 4 {
						t.Errorf("counts: %v", got)
					}
				})
			})
		}
	}
}

// A stop without network ends within Config.CloseTimeout, and a little for the farewell.
func TestStopWithoutNetwork(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		c.CloseTimeout = 10 * time.Second
		r := w.start(counting(), c).ready()
		w.send("words", "a=")
		r.cut.unplug()
		began := time.Now()
		_ = r.stop() // that not all was committed may be reported or not
		if took := time.Since(began); took > c.CloseTimeout+10*time.Second {
			t.Errorf("took %v", took)
		}
		// And another one in the same process, with the same folder.
		r = w.start(counting(), c).ready()
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		w.same("counts", w.counts("totals"), map[string]int64{"a": 1})
	})
}

// An instance is killed at each request of a commit; its heir goes on, and nothing shows.
func TestKilledAtRequest(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.TxnOffsetCommit, kmsg.EndTxn} {
		for _, arrives := range []bool{false, true} {
			t.Run(fmt.Sprint(key.Name(), " arrives ", arrives), func(t *testing.T) {
				inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
					first := w.start(counting(), w.config("app")).ready()
					w.send("words", "a=", "d=")
					w.settled("app", "words")
					w.fake.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
						if p, ok := r.(*kmsg.ProduceRequest); ok && p.TransactionID == nil {
							w.fake.KeepControl()
							return nil, nil, false
						}
						w.fake.DropControl()
						first.cut.unplug()
						return nil, errors.New("killed"), !arrives
					})
					w.send("words", "a=", "d=")
					w.wait(time.Second)
					heir := w.start(counting(), w.config("app"))
					w.send("words", "a=", "d=")
					w.settled("app", "words")
					if err := heir.stop(); err != nil {
						t.Error(err)
					}
					w.same("counts", w.counts("totals"), map[string]int64{"a": 3, "d": 3})
					if n := len(w.read("totals")); n != 6 {
						t.Errorf("%d records in the output, want 6", n)
					}
				})
			})
		}
	}
}

// One refused request of every kind that a running instance, a rebalance and a start need.
func TestBrokerFaults(t *testing.T) {
	for _, f := range []struct {
		key  kmsg.Key
		errs []*kerr.Error
	}{
		{kmsg.OffsetFetch, []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.UnknownServerError}},
		{kmsg.ListOffsets, []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownServerError}},
		{kmsg.Fetch, []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownServerError}},
		{kmsg.Produce, []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas}},
		{kmsg.AddPartitionsToTxn, []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable}},
		{kmsg.TxnOffsetCommit, []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress}},
		{kmsg.EndTxn, []*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.InvalidTxnState, kerr.UnknownServerError}},
		{kmsg.InitProducerID, []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable}},
		{kmsg.JoinGroup, []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.UnknownMemberID}},
		{kmsg.SyncGroup, []*kerr.Error{kerr.RebalanceInProgress, kerr.UnknownMemberID, kerr.NotCoordinator}},
		{kmsg.Heartbeat, []*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.NotCoordinator}},
		{kmsg.Metadata, []*kerr.Error{kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable}},
		{kmsg.FindCoordinator, []*kerr.Error{kerr.CoordinatorNotAvailable}},
	} {
		for _, e := range f.errs {
			t.Run(f.key.Name()+" "+e.Message, func(t *testing.T) {
				inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
					fail := func() *kfake.FaultHandle {
						ours := func(r kmsg.Request) bool {
							p, ok := r.(*kmsg.ProduceRequest)
							return !ok || p.TransactionID != nil
						}
						return w.fake.Fault(kfake.Fault{Keys: []kmsg.Key{f.key}, Err: e, Count: 3, When: ours}, kfake.Fault{Keys: []kmsg.Key{f.key}, Err: e, Count: 3, TopLevel: true, When: ours})
					}
					one := w.start(counting(), w.config("app")).ready()
					h := fail()
					w.send("words", "a=", "d=")
					w.wait(4 * time.Second)
					two := w.start(counting(), w.config("app"))
					w.wait(10 * time.Second)
					w.send("words", "a=", "d=")
					w.wait(time.Minute)
					h.Remove()
					w.send("words", "a=", "d=")
					w.settled("app", "words")
					for _, r := range []*running{one, two} {
						if h := r.app.Health(); h.State != Running {
							t.Errorf("%v: %v", h.State, h.Err)
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
			})
		}
	}
}
