package exactlyonce

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	seeds     = flag.Int("seeds", 8, "how many runs of random faults")
	firstSeed = flag.Uint64("seed", 1, "the first of them")
)

// A worker counts while faults come at random requests: codes, cut connections, fences, lost memberships, slow user code, a new
// process. Checked record by record: the outputs of each key are 1, 2, ... n, and the log ends with n.
func TestRandomFaults(t *testing.T) {
	for i := range uint64(*seeds) {
		seed := *firstSeed + i
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomRun(t, seed) })
		})
	}
}

// keyAt is the input: the key of the record at an offset.
func keyAt(offset int64) string { return string(rune('a' + offset*7%5)) }

// randomErrs are codes a broker answers now and then; none of them says that what was asked is wrong for good.
var randomErrs = []*kerr.Error{kerr.ConcurrentTransactions, kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidTxnState,
	kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.RequestTimedOut,
	kerr.UnknownServerError, kerr.TransactionAbortable, kerr.InvalidProducerIDMapping, kerr.NotLeaderForPartition,
	kerr.NotEnoughReplicasAfterAppend, kerr.RebalanceInProgress, kerr.UnstableOffsetCommit, kerr.OutOfOrderSequenceNumber,
	kerr.MessageTooLarge, kerr.FencedInstanceID}

var randomKeys = []kmsg.Key{kmsg.Produce, kmsg.AddPartitionsToTxn, kmsg.TxnOffsetCommit, kmsg.OffsetCommit, kmsg.EndTxn, kmsg.InitProducerID,
	kmsg.OffsetFetch, kmsg.AddOffsetsToTxn, kmsg.Metadata, kmsg.FindCoordinator}

func randomRun(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	pick := func(n int) int { return rnd.IntN(n) }
	var opts []kfake.Opt
	if seed%4 == 0 {
		opts = append(opts, oldVersions())
	}
	b := newBenchOn(t, new(kfake.VirtualNetwork), opts...)
	ctx := t.Context()
	cfg := b.config()
	if seed%4 == 3 {
		cfg.Guarantee = AtLeastOnce
	}
	f := &Fencer{Client: b.client(), Prefix: "app-"}
	c := newCounter(0)
	// A new process: the transactional id first, then the stable offset, then the log.
	restart := func() {
		if c.d != nil {
			c.d.Close()
		}
		c = newCounter(0)
		b.cut.up()
		for c.d == nil {
			d, err := Open(ctx, cfg, c)
			if err != nil {
				continue // a fault that is final for a process
			}
			c.d = d
		}
		if c.done = b.offset(0).Offset; c.done < 0 {
			c.done = 0
		}
		c.next = c.done
		for _, r := range b.committed("log", 0) {
			n, err := strconv.Atoi(string(r.Value))
			if err != nil {
				t.Fatal(err)
			}
			c.committed[string(r.Key)] = n
		}
	}
	restart()
	kinds := make(map[Kind]int)
	for range 150 {
		var heal []func()
		cctx, cancel := context.WithCancel(ctx)
		what := "nothing"
		switch pick(12) {
		case 0, 1, 2, 3:
			key, err, count := randomKeys[pick(len(randomKeys))], randomErrs[pick(len(randomErrs))], 1+pick(3)
			what = fmt.Sprintf("%v answers %s %d times", key, err.Message, count)
			heal = append(heal, b.k.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: count}).Remove)
		case 4, 5:
			key, after, lasting := randomKeys[pick(6)], pick(2) == 0, time.Duration(pick(3000))*time.Millisecond
			what = fmt.Sprintf("cut at %v, after: %v, for %v", key, after, lasting)
			b.cut.arm(key, after, func() { time.AfterFunc(lasting, b.cut.up) })
			heal = append(heal, b.cut.up)
		case 6:
			what = "cut at EndTxn, and the process stops"
			after, lasting := pick(2) == 0, time.Duration(pick(400))*time.Millisecond
			b.cut.arm(kmsg.EndTxn, after, func() { time.AfterFunc(lasting, cancel) })
			heal = append(heal, b.cut.up)
		case 7:
			what = "the membership is lost"
			b.member.set(Identity{}, false)
			heal = append(heal, func() { b.member.set(Identity{Generation: -1}, true) })
		}
		for range pick(20) {
			c.take(ctx, keyAt(c.next))
		}
		switch {
		case pick(15) == 0:
			what += ", a fence"
			if _, err := f.FenceID(ctx, testTxnID); err != nil {
				what += " that failed"
			}
		case pick(20) == 0:
			what += ", slow user code"
			<-time.After(30 * time.Second)
		}
		var out Outcome
		if pick(10) == 0 {
			out = c.d.Abort(cctx)
		} else {
			out = c.d.Commit(cctx)
		}
		cancel()
		kinds[out.Kind]++
		for _, h := range heal {
			h()
		}
		t.Logf("%s: %v %v", what, out.Kind, out.Err)
		if c.d.Client() == nil {
			t.Fatal("no client")
		}
		switch out.Kind {
		case Refused:
			c.d.Resume()
		case Fatal, Abandoned:
			restart()
		default:
			if pick(25) == 0 {
				restart()
			}
		}
	}
	b.cut.up()
	c.take(ctx, keyAt(c.next))
	for n := 0; c.d.Commit(ctx).Kind != Committed; n++ {
		if n == 5 {
			t.Fatal("it does not commit without faults")
		}
		c.d.Resume()
		c.take(ctx, keyAt(c.next))
	}
	if cfg.Guarantee == ExactlyOnce {
		checkCounts(t, b, c)
	} else {
		checkAtLeast(t, b)
	}
	if kinds[Committed] < 20 {
		t.Fatalf("hardly anything was committed: %v", kinds)
	}
	c.d.Close()
	t.Logf("%v", kinds)
}

// checkCounts compares outputs, log, memory and offset with a count of the input up to that offset.
func checkCounts(t *testing.T, b *bench, c *counter) {
	t.Helper()
	end := b.offset(0).Offset
	truth := make(map[string]int)
	for o := range end {
		truth[keyAt(o)]++
	}
	seen := make(map[string]int)
	for i, r := range b.committed("out", 0) {
		k := string(r.Key)
		seen[k]++
		if string(r.Value) != strconv.Itoa(seen[k]) || k != keyAt(int64(i)) {
			t.Fatalf("output %d is %s=%s, want %s=%d", i, k, r.Value, keyAt(int64(i)), seen[k])
		}
	}
	logged := make(map[string]int)
	for _, r := range b.committed("log", 0) {
		n, _ := strconv.Atoi(string(r.Value))
		if n <= logged[string(r.Key)] {
			t.Fatalf("the log goes back from %d to %d for %s", logged[string(r.Key)], n, r.Key)
		}
		logged[string(r.Key)] = n
	}
	for k, n := range truth {
		if seen[k] != n || logged[k] != n || c.committed[k] != n {
			t.Fatalf("%s: %d records, output %d, log %d, memory %d", k, n, seen[k], logged[k], c.committed[k])
		}
	}
	if len(seen) != len(truth) || c.done != end {
		t.Fatalf("outputs for %d keys of %d, position %d of %d", len(seen), len(truth), c.done, end)
	}
}

// checkAtLeast checks that no record is missing: each count up to the number of records came out, and the log is not behind.
func checkAtLeast(t *testing.T, b *bench) {
	t.Helper()
	truth := make(map[string]int)
	for o := range b.offset(0).Offset {
		truth[keyAt(o)]++
	}
	seen, logged := make(map[string]bool), make(map[string]int)
	for _, r := range b.committed("out", 0) {
		seen[string(r.Key)+"="+string(r.Value)] = true
	}
	for _, r := range b.committed("log", 0) {
		logged[string(r.Key)], _ = strconv.Atoi(string(r.Value))
	}
	for k, n := range truth {
		for i := range n {
			if at := fmt.Sprintf("%s=%d", k, i+1); !seen[at] {
				t.Fatalf("%s is missing", at)
			}
		}
		if logged[k] < n {
			t.Fatalf("the log of %s ends at %d of %d", k, logged[k], n)
		}
	}
}

// BenchmarkCommit is the cycle on the broker in the process: ten records and two changed keys.
func BenchmarkCommit(b *testing.B) {
	bn := newBench(b)
	c := newCounter(0)
	c.d = bn.open(bn.config(), c)
	b.ReportAllocs()
	for b.Loop() {
		for range 10 {
			c.take(b.Context(), keyAt(c.next%2))
		}
		if out := c.d.Commit(b.Context()); out.Kind != Committed {
			b.Fatal(out.Err)
		}
	}
}
