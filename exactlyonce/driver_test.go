package exactlyonce

import (
	"errors"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// want checks the kind of an outcome.
func want(t *testing.T, out Outcome, kind Kind) {
	t.Helper()
	if out.Kind != kind {
		t.Fatalf("outcome %v (err %v), want %v", out.Kind, out.Err, kind)
	}
}

func wantValues(t *testing.T, got []*kgo.Record, want ...string) {
	t.Helper()
	if v := values(got); !slices.Equal(v, want) {
		t.Fatalf("records %v, want %v", v, want)
	}
}

func TestCommitIsVisibleAtOnce(t *testing.T) {
	b := newBench(t)
	c := newCounter(0)
	c.meta = "stream time 7"
	c.d = b.open(b.config(), c)
	ctx := t.Context()
	c.take(ctx, "a")
	c.take(ctx, "a")
	c.take(ctx, "b")
	if err := c.d.Client().Flush(ctx); err != nil {
		t.Fatal(err)
	}
	wantValues(t, b.committed("out", 0))
	if o := b.offset(0); o.Offset != -1 {
		t.Fatalf("offset %d before the commit", o.Offset)
	}
	out := c.d.Commit(ctx)
	want(t, out, Committed)
	wantValues(t, b.committed("out", 0), "a=1", "a=2", "b=1")
	wantValues(t, b.committed("log", 0), "a=2", "b=1")
	if o := b.offset(0); o.Offset != 3 || o.Metadata != "stream time 7" || o.LeaderEpoch != -1 {
		t.Fatalf("committed %+v", o)
	}
	if out.Records != 5 || c.commits != 1 || c.committed["a"] != 2 || out.Total <= 0 {
		t.Fatalf("outcome %+v, counter %+v", out, c)
	}
	want(t, c.d.Commit(ctx), Nothing)
}

func TestAbortIsInvisible(t *testing.T) {
	b := newBench(t)
	c := newCounter(0)
	c.d = b.open(b.config(), c)
	ctx := t.Context()
	c.take(ctx, "a")
	want(t, c.d.Commit(ctx), Committed)
	c.take(ctx, "a")
	c.take(ctx, "a")
	out := c.d.Abort(ctx)
	want(t, out, Aborted)
	if out.Err != nil || c.rollbacks != 1 || c.next != 1 {
		t.Fatalf("outcome %+v, counter %+v", out, c)
	}
	c.take(ctx, "a")
	want(t, c.d.Commit(ctx), Committed)
	wantValues(t, b.committed("out", 0), "a=1", "a=2")
	if o := b.offset(0); o.Offset != 2 {
		t.Fatalf("offset %d", o.Offset)
	}
}

func TestOffsetsAlone(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		t.Run(g.String(), func(t *testing.T) {
			b := newBench(t)
			c := newCounter(1)
			cfg := b.config()
			cfg.Guarantee = g
			c.d = b.open(cfg, c)
			for range 3 {
				c.skip()
				want(t, c.d.Commit(t.Context()), Committed)
			}
			if o := b.offset(1); o.Offset != 3 {
				t.Fatalf("offset %d", o.Offset)
			}
			// The transaction after that is not disturbed.
			c.take(t.Context(), "k")
			want(t, c.d.Commit(t.Context()), Committed)
			wantValues(t, b.committed("out", 1), "k=1")
			if o := b.offset(1); o.Offset != 4 {
				t.Fatalf("offset %d", o.Offset)
			}
		})
	}
}

// watchful looks at what has come through when it is asked for its changes.
type watchful struct {
	*counter
	b    *bench
	seen []*kgo.Record
}

func (w *watchful) Stage(produce func(*kgo.Record)) error {
	w.seen = w.b.committed("out", w.partition)
	return w.counter.Stage(produce)
}

// At-least-once a crash in the middle of a commit may lose what was not acknowledged yet. No change is to be there whose output is not: it would not be made again.
func TestOutputsComeBeforeChanges(t *testing.T) {
	b := newBench(t)
	w := &watchful{counter: newCounter(0), b: b}
	cfg := b.config()
	cfg.Guarantee = AtLeastOnce
	w.d = b.open(cfg, w)
	ctx := t.Context()
	w.take(ctx, "a")
	w.take(ctx, "b")
	want(t, w.d.Commit(ctx), Committed)
	wantValues(t, w.seen, "a=1", "b=1")
	wantValues(t, b.committed("log", 0), "a=1", "b=1")
	w.skip() // without outputs there is nothing to wait for
	want(t, w.d.Commit(ctx), Committed)
}

func TestStageFails(t *testing.T) {
	b := newBench(t)
	c := newCounter(0)
	c.d = b.open(b.config(), c)
	ctx := t.Context()
	c.take(ctx, "a")
	c.stageErr = errors.New("value does not encode")
	out := c.d.Commit(ctx)
	want(t, out, Aborted)
	if !errors.Is(out.Err, ErrStage) || !errors.Is(out.Err, c.stageErr) || out.Replays != 1 {
		t.Fatalf("outcome %+v", out)
	}
	c.stageErr = nil
	c.take(ctx, "a")
	want(t, c.d.Commit(ctx), Committed)
	wantValues(t, b.committed("out", 0), "a=1")
}

func TestProducedWithoutOffsets(t *testing.T) {
	b := newBench(t)
	c := newCounter(0)
	c.d = b.open(b.config(), c)
	c.take(t.Context(), "a")
	c.moved = false
	out := c.d.Commit(t.Context())
	want(t, out, Aborted)
	if !errors.Is(out.Err, ErrNoOffsets) {
		t.Fatalf("err %v", out.Err)
	}
	wantValues(t, b.committed("out", 0))
}

func TestRecordTooLarge(t *testing.T) {
	for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
		for name, size := range map[string]int{"broker": 600_000, "client": 2_000_000} {
			t.Run(g.String()+"/"+name, func(t *testing.T) {
				b := newBench(t)
				c := newCounter(0)
				cfg := b.config()
				cfg.Guarantee = g
				cfg.Client = append(cfg.Client, kgo.ProducerBatchCompression(kgo.NoCompression()))
				c.d = b.open(cfg, c)
				ctx := t.Context()
				c.take(ctx, "a")
				c.d.Produce(ctx, &kgo.Record{Topic: "out", Partition: 1, Key: []byte("big"), Value: make([]byte, size)})
				out := c.d.Commit(ctx)
				want(t, out, Rejected)
				pe, ok := errors.AsType[*ProduceError](out.Err)
				if !ok || pe.Topic != "out" || pe.Partition != 1 || pe.KeySize != 3 || pe.RecordSize != size+3 || !errors.Is(out.Err, kerr.MessageTooLarge) {
					t.Fatalf("err %v", out.Err)
				}
				// The policy of the caller may be to leave the record out and go on.
				c.take(ctx, "b")
				want(t, c.d.Commit(ctx), Committed)
				rs := values(b.committed("out", 0))
				if g == ExactlyOnce && !slices.Equal(rs, []string{"b=1"}) {
					t.Fatalf("records %v", rs)
				}
				if o := b.offset(0); o.Offset != 1 {
					t.Fatalf("offset %d", o.Offset)
				}
			})
		}
	}
}

func TestFirstRecordTooLargeLeavesNothingOpen(t *testing.T) {
	b := newBench(t)
	c := newCounter(0)
	c.d = b.open(b.config(), c)
	ctx := t.Context()
	c.skip()
	c.d.Produce(ctx, &kgo.Record{Topic: "out", Key: []byte("big"), Value: make([]byte, 2_000_000)})
	out := c.d.Commit(ctx)
	want(t, out, Rejected)
	if !out.Reopened {
		t.Fatal("the registered transaction would stay open at the broker")
	}
	if i := b.k.PartitionInfo("out", 0); i.LastStableOffset != i.HighWatermark {
		t.Fatalf("still open: %+v", i)
	}
}

func TestSecondOpenFencesTheFirst(t *testing.T) {
	b := newBench(t)
	old := newCounter(0)
	old.d = b.open(b.config(), old)
	ctx := t.Context()
	old.take(ctx, "a")
	if err := old.d.Client().Flush(ctx); err != nil {
		t.Fatal(err)
	}
	c := newCounter(0)
	c.d = b.open(b.config(), c)
	c.take(ctx, "a")
	want(t, c.d.Commit(ctx), Committed)
	out := old.d.Commit(ctx)
	want(t, out, Aborted)
	if !out.Reopened || out.TimedOut {
		t.Fatalf("outcome %+v", out)
	}
	wantValues(t, b.committed("out", 0), "a=1")
	if o := b.offset(0); o.Offset != 1 {
		t.Fatalf("offset %d", o.Offset)
	}
}

func TestTwoProcessesWithOneID(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	workers := []*counter{newCounter(0), newCounter(1)}
	for _, c := range workers {
		c.d = b.open(b.config(), c)
	}
	for range 20 {
		for _, c := range workers {
			c.take(ctx, "a")
			if out := c.d.Commit(ctx); out.Kind == Fatal {
				if !errors.Is(out.Err, ErrSharedID) {
					t.Fatalf("err %v", out.Err)
				}
				return
			}
		}
	}
	t.Fatal("they fence each other for ever")
}

func TestOldCluster(t *testing.T) {
	b := newBench(t, oldVersions())
	c := newCounter(0)
	c.d = b.open(b.config(), c)
	ctx := t.Context()
	if c.d.m.implicit {
		t.Fatal("transaction.version 2 was found on a cluster of 3.6")
	}
	for _, k := range []string{"a", "b", "a"} {
		c.take(ctx, k)
		want(t, c.d.Commit(ctx), Committed)
	}
	c.take(ctx, "a")
	want(t, c.d.Abort(ctx), Aborted)
	c.take(ctx, "c")
	want(t, c.d.Commit(ctx), Committed)
	wantValues(t, b.committed("out", 0), "a=1", "b=1", "a=2", "c=1")
	if o := b.offset(0); o.Offset != 4 {
		t.Fatalf("offset %d", o.Offset)
	}
}
