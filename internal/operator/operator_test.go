package operator_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/store/memstore"
)

// bench is a task with one input, whose operators a test makes by hand.
type bench struct {
	*engine.Task
	node  *engine.Node
	sent  []string
	drops []string
	next  int64
}

func (b *bench) Emit(topic string, partition int32, key, value []byte, at int64, _ []engine.Header) error {
	b.sent = append(b.sent, fmt.Sprintf("%s/%d %s=%s@%d", topic, partition, key, value, at))
	return nil
}

var rows = store.NewKeyValue("rows", serde.String(), serde.Int64(), store.FiniteKeys(10))

// start makes a task that reads words; wire makes what follows the source.
func start(t *testing.T, policy engine.PolicyKind, wire func(b *bench) operator.Take[string, string]) *bench {
	t.Helper()
	b := &bench{node: &engine.Node{Name: "node"}}
	source := &engine.Node{Name: "source"}
	sub := &engine.Sub{Inputs: []*engine.Input{{Topic: engine.Topic{Name: "in"}, Node: source}}, Nodes: []*engine.Node{source, b.node}, Stores: []*state.Decl{state.Of(rows)}}
	sub.Build = func(task *engine.Task) error {
		b.Task = task
		task.Read(0, operator.NewSource(task, source, serde.String(), serde.String(), nil, []operator.Take[string, string]{wire(b)}))
		return nil
	}
	task, err := engine.Open(sub, 0, engine.Env{App: "app", Context: context.Background(), Log: slog.New(slog.DiscardHandler), Output: b, Partitions: func(string) int32 { return 3 },
		Disk: memstore.New(), Wall: func() int64 { return 0 }, OnProcess: engine.Policy{Kind: policy}, Dropped: func(d engine.Drop) { b.drops = append(b.drops, d.Reason) }})
	if err != nil {
		t.Fatal(err)
	}
	task.Start(0, 0, 0, engine.Meta{PartitionTime: -1})
	return b
}

// send takes records of key=value through the task, with times from 1 on.
func (b *bench) send(texts ...string) error {
	for _, text := range texts {
		key, value, _ := strings.Cut(text, "=")
		b.next++
		b.Add(0, []engine.Record{{Key: []byte(key), Value: []byte(value), Time: b.next, Offset: b.next - 1}}, b.next, b.next)
		if _, err := b.Process(0); err != nil {
			return err
		}
	}
	return nil
}

// events makes the reader of a stream.
func events(next engine.Receive[string, string]) operator.Take[string, string] {
	return func(r *engine.Rec, k, v string, _ bool) { next(r, k, v) }
}

// A panic is caught at its node where the policy lets the task go on, and ends the task otherwise.
func TestGuard(t *testing.T) {
	var got []string
	wire := func(b *bench) operator.Take[string, string] {
		return events(operator.MapValues(b.Task, b.node, func(v string) string {
			if v == "bad" {
				panic(v)
			}
			return v + "!"
		}, func(_ *engine.Rec, k, v string) { got = append(got, v) }))
	}
	if err := start(t, engine.Stop, wire).send("k=a", "k=bad"); err == nil || !strings.Contains(err.Error(), `"node"`) {
		t.Errorf("got %v", err)
	}
	b := start(t, engine.Skip, wire)
	if err := b.send("k=b", "k=bad", "k=c"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"a!", "b!", "c!"}) || !slices.Equal(b.drops, []string{"skipped"}) {
		t.Errorf("got %q, drops %q", got, b.drops)
	}
}

// A function in the middle of a sequence that fails is blamed for its own failures, not for those of its children.
func TestSequenceBlame(t *testing.T) {
	child := &engine.Node{Name: "child"}
	b := start(t, engine.Skip, func(b *bench) operator.Take[string, string] {
		last := operator.Peek(b.Task, child, func(_, v string) {
			if v == "child" {
				panic(v)
			}
		}, func(_ *engine.Rec, _, v string) { b.sent = append(b.sent, v) })
		return events(operator.FlatMapValues(b.Task, b.node, func(v string) iter.Seq[string] {
			return func(yield func(string) bool) {
				_ = yield("first") && yield(v) && yield("last")
				if v == "own" {
					panic(v)
				}
			}
		}, last))
	})
	var blamed []string
	b.Env().Dropped = func(d engine.Drop) { blamed = append(blamed, d.Node) }
	if err := b.send("k=child", "k=own", "k=none"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(blamed, []string{"child", "node"}) {
		t.Errorf("blamed %q", blamed)
	}
	if got := strings.Join(b.sent, " "); got != "first last first own last first none last" {
		t.Errorf("sent %s", got)
	}
}

// What an operator changes in the record for its children is as before for the next one.
func TestRecordIsPutBack(t *testing.T) {
	var seen []engine.Rec
	b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		nowhere := func(*engine.Rec, string, string) {}
		look := func(r *engine.Rec, _, _ string) { seen = append(seen, *r) }
		later := operator.MapRecord(b.Task, b.node, func(r processor.Record[string, string]) processor.Record[string, string] {
			r.Time, r.NullKey, r.Headers = r.Time.Add(time.Hour), true, r.Headers.With("a", nil)
			return r
		}, nowhere)
		table, err := operator.Rows[string, int64](b.Task, "rows")
		if err != nil {
			t.Fatal(err)
		}
		count := operator.Count[string, string](b.Task, b.node, table, func(r *engine.Rec, k string, c operator.Change[int64]) {})
		return events(engine.FanOut([]engine.Receive[string, string]{later, look, count, look, operator.SelectKey(b.Task, b.node, func(_, v string) string { return v }, nowhere), look}))
	})
	if err := b.send("k=v"); err != nil {
		t.Fatal(err)
	}
	for _, r := range seen {
		if !reflect.DeepEqual(r, seen[0]) || r.Time != 1 || r.NullKey || r.Headers != nil {
			t.Errorf("seen %+v", r)
		}
	}
}

// A store that is not there, or has other types, is an error when the task is made.
func TestRows(t *testing.T) {
	start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		if _, err := operator.Rows[string, int64](b.Task, "gone"); err == nil {
			t.Error("a store that is not there was opened")
		}
		if _, err := operator.Rows[string, string](b.Task, "rows"); err == nil {
			t.Error("a store was opened with other types")
		}
		return events(func(*engine.Rec, string, string) {})
	})
}

// Pointers to rows are the user's to keep.
func TestPointersStay(t *testing.T) {
	var kept []*string
	b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		lookup := func(_ *engine.Rec, k string) (string, int64, bool, bool) { return k + " row", 1, true, true }
		return events(operator.LeftJoinTable(b.Task, b.node, lookup, nil, func(v string, row *string) string {
			kept = append(kept, row)
			return v
		}, func(*engine.Rec, string, string) {}))
	})
	for i := range 200 {
		if err := b.send(fmt.Sprintf("%d=v", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range kept {
		if *p != fmt.Sprintf("%d row", i) {
			t.Fatalf("row %d is %s", i, *p)
		}
	}
}

// binding is a serde that must know its topic.
type binding struct {
	serde.Serde[string]
	at *serde.Target
}

func (b binding) Bind(_ context.Context, at serde.Target) (serde.Serde[string], error) {
	*b.at = at
	if at.Topic == "gone" {
		return nil, fmt.Errorf("no registry")
	}
	return b.Serde, nil
}

func TestBound(t *testing.T) {
	var at serde.Target
	s := binding{serde.String(), &at}
	start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		if got, err := operator.Bound[string](b.Task, s, "topic", true); err != nil || got != serde.String() || at != (serde.Target{Topic: "topic", Key: true}) {
			t.Errorf("got %v, %v, bound to %+v", got, err, at)
		}
		at = serde.Target{}
		if got, err := operator.Bound[string](b.Task, s, "topic", true); err != nil || got != serde.String() || at != (serde.Target{}) {
			t.Errorf("asked again, as after a rewind: %v, %v, bound to %+v", got, err, at)
		}
		if _, err := operator.Bound[string](b.Task, s, "gone", false); err == nil || !strings.Contains(err.Error(), `value of topic "gone"`) {
			t.Errorf("got %v", err)
		}
		return events(func(*engine.Rec, string, string) {})
	})
}
