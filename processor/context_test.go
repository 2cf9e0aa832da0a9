package processor_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store/memstore"
	"github.com/kolkstreams/kolk/topology"
)

var (
	in   = topology.NewTopic("in", serde.String(), serde.String())
	out  = topology.NewTopic("out", serde.String(), serde.String())
	side = processor.NewOutput[string, int64]("side")
)

// script is a processor whose functions are the test's.
type script struct {
	init    func(ctx *processor.Context[string, string]) error
	process func(ctx *processor.Context[string, string], r processor.Record[string, string]) error
}

func (s script) Init(ctx *processor.Context[string, string]) error {
	if s.init == nil {
		return nil
	}
	return s.init(ctx)
}

func (s script) Process(ctx *processor.Context[string, string], r processor.Record[string, string]) error {
	return s.process(ctx, r)
}

// stage is a task with one processor.
type stage struct {
	*engine.Task
	sent []string
	next int64
	wall int64
}

func (s *stage) Emit(topic string, _ int32, key, value []byte, at int64, _ []engine.Header) error {
	s.sent = append(s.sent, fmt.Sprintf("%s %s=%s@%d", topic, key, value, at))
	return nil
}

type contextKey struct{}

func open(t *testing.T, p script) (*stage, error) {
	t.Helper()
	b := topology.New()
	x := b.Stream(in).Process("script", func() script { return p })
	x.To(out)
	x.Output(side).MapValues(func(n int64) string { return fmt.Sprint(n) }).To(topology.NewTopic("side", serde.String(), serde.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{wall: 1000}
	s.Task, err = engine.Open(engine.GraphOf(top).Subs[0], 2, engine.Env{App: "app", Context: context.WithValue(t.Context(), contextKey{}, "task's"), Log: slog.New(slog.DiscardHandler), Output: s,
		Partitions: func(string) int32 { return 3 }, Disk: memstore.New(), Wall: func() int64 { return s.wall }})
	if err == nil {
		s.Start(0, 0, 0, engine.Meta{PartitionTime: -1})
	}
	return s, err
}

func (s *stage) send(at int64, value string) error {
	s.Add(0, []engine.Record{{Key: []byte("k"), Value: []byte(value), Time: at, Offset: s.next}}, s.next+1, s.next+1)
	s.next++
	_, err := s.Process(s.wall)
	return err
}

// What a context knows of its task.
func TestContext(t *testing.T) {
	var seen []string
	s, err := open(t, script{
		init: func(ctx *processor.Context[string, string]) error {
			if _, ok := ctx.Metadata(); ok || !ctx.StreamTime().IsZero() {
				t.Error("a record or time is known before the first record")
			}
			return nil
		},
		process: func(ctx *processor.Context[string, string], r processor.Record[string, string]) error {
			m, ok := ctx.Metadata()
			seen = append(seen, fmt.Sprint(ctx.TaskID(), m, ok, ctx.StreamTime().UnixMilli(), ctx.WallTime().UnixMilli(), ctx.Context().Value(contextKey{})))
			ctx.RequestCommit()
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []int64{50, 20} {
		if err := s.send(at, "v"); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("0_2{in 2 %d} true 50 1000task's", i); seen[i] != want {
			t.Errorf("got %s, want %s", seen[i], want)
		}
	}
	if !s.WantsCommit() {
		t.Error("no commit was asked for")
	}
}

// A record forwarded takes the place of the one at hand, and gives it back.
func TestForward(t *testing.T) {
	s, err := open(t, script{process: func(ctx *processor.Context[string, string], r processor.Record[string, string]) error {
		if r.Value == "old" {
			r.Time = time.Time{}
		}
		r.Time = r.Time.Add(time.Millisecond)
		ctx.Forward(r)
		ctx.ForwardTo(side, r.WithValue(int64(7)))
		ctx.ForwardTo(processor.NewOutput[string, int64]("nobody's"), r.WithValue(int64(7)))
		r.NullKey = true
		ctx.Forward(r)
		if r.Value == "types" {
			ctx.ForwardTo(processor.NewOutput[string, string]("side"), r)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.send(5, "v"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.sent, ", "); got != "out k=v@6, side k=7@6, out =v@6" {
		t.Errorf("sent %s", got)
	}
	if err := s.send(6, "types"); err == nil || !strings.Contains(err.Error(), `output "side"`) {
		t.Errorf("got %v", err)
	}
	if s, err = open(t, script{process: func(ctx *processor.Context[string, string], r processor.Record[string, string]) error {
		r.Time = time.Time{}
		ctx.Forward(r)
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	if err := s.send(5, "v"); err == nil || !strings.Contains(err.Error(), `"script"`) || !strings.Contains(err.Error(), "before 1970") {
		t.Errorf("got %v", err)
	}
}

// Timers follow their clock, may stop themselves, and have no record.
func TestTimers(t *testing.T) {
	var fired []string
	s, err := open(t, script{
		init: func(ctx *processor.Context[string, string]) error {
			for name, clock := range map[string]processor.Clock{"stream": processor.StreamTime, "wall": processor.WallTime} {
				var timer *processor.Timer
				timer = ctx.Every(100*time.Millisecond, clock, func(now time.Time) error {
					_, ok := ctx.Metadata()
					fired = append(fired, fmt.Sprint(name, now.UnixMilli(), ok))
					ctx.Forward(processor.Record[string, string]{Key: name, Value: "tick", Time: now})
					if now.UnixMilli() >= 1300 {
						timer.Stop()
					}
					return nil
				})
			}
			return nil
		},
		process: func(*processor.Context[string, string], processor.Record[string, string]) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{30, 99, 100, 1350, 1500} {
		if err := s.send(at, "v"); err != nil {
			t.Fatal(err)
		}
	}
	for _, wall := range []int64{1099, 1100, 1320, 1600} {
		if err := s.Punctuate(wall); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(fired, ", "), "stream30 false, stream100 false, stream1350 false, wall1100 false, wall1320 false"; got != want {
		t.Errorf("fired %s, want %s", got, want)
	}
	if got := s.sent[0]; got != "out stream=tick@30" {
		t.Errorf("sent %s", got)
	}
}

// An error of Init is the task's.
func TestInitFails(t *testing.T) {
	_, err := open(t, script{init: func(*processor.Context[string, string]) error { return fmt.Errorf("no license") }})
	if err == nil || !strings.Contains(err.Error(), `processor "script"`) || !strings.Contains(err.Error(), "no license") {
		t.Errorf("got %v", err)
	}
}
