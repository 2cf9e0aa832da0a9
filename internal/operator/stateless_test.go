package operator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/processor"
)

// A function that gives a record an impossible time, or takes away its key, has failed.
func TestImpossibleRecords(t *testing.T) {
	nowhere := func(*engine.Rec, string, string) {}
	for name, c := range map[string]struct {
		wire func(b *bench) engine.Receive[string, string]
		want string
	}{
		"time": {func(b *bench) engine.Receive[string, string] {
			return operator.MapRecord(b.Task, b.node, func(r processor.Record[string, string]) processor.Record[string, string] {
				r.Time = time.Time{}
				return r
			}, nowhere)
		}, "before 1970"},
		"time of values": {func(b *bench) engine.Receive[string, string] {
			return operator.MapRecordValues(b.Task, b.node, func(r processor.FixedKeyRecord[string, string]) processor.FixedKeyRecord[string, string] {
				r.Time = time.Time{}
				return r
			}, nowhere)
		}, "before 1970"},
		"key": {func(b *bench) engine.Receive[string, string] {
			return operator.MapRecordValues(b.Task, b.node, func(r processor.FixedKeyRecord[string, string]) processor.FixedKeyRecord[string, string] {
				return processor.FixedKeyRecord[string, string]{Time: r.Time}
			}, nowhere)
		}, "without a key"},
	} {
		err := start(t, engine.Stop, func(b *bench) operator.Take[string, string] { return events(c.wire(b)) }).send("k=v")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"node"`) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The first branch that takes a record gets it.
func TestSplit(t *testing.T) {
	b := start(t, engine.Stop, func(b *bench) operator.Take[string, string] {
		to := func(name string) engine.Receive[string, string] {
			return func(_ *engine.Rec, _, v string) { b.sent = append(b.sent, name+v) }
		}
		return events(operator.Split(b.Task, b.node, []operator.Branch[string, string]{
			{Node: b.node, Take: func(_, v string) bool { return v == "a" }, Next: to("first ")},
			{Node: b.node, Take: func(_, v string) bool { return v != "c" }, Next: to("second ")},
		}))
	})
	if err := b.send("k=a", "k=b", "k=c"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(append(b.sent, b.drops...), ", "); got != "first a, second b, unmatched" {
		t.Errorf("got %s", got)
	}
}
