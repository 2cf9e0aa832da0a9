package kolk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
)

// registry is what serdes of a schema registry are told, and whether it answers.
type registry struct {
	mu    sync.Mutex
	down  bool
	bound map[string]int // topics, with /key or /value
}

// registered is a serde that writes nothing before it knows its topic, and puts a mark before what it writes.
type registered struct {
	*registry
	to string
}

func (s registered) String() string { return "registered" }

func (s registered) Bind(_ context.Context, at serde.Target) (serde.Serde[string], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errors.New("no registry")
	}
	what := "/value"
	if at.Key {
		what = "/key"
	}
	s.bound[at.Topic+what]++
	return registered{s.registry, at.Topic}, nil
}

func (s registered) Encode(dst []byte, v string) ([]byte, error) {
	if s.to == "" {
		return nil, errors.New("it does not know its topic")
	}
	return append(append(dst, 7), v...), nil
}

func (s registered) Decode(src []byte) (string, error) {
	if s.to == "" || len(src) == 0 || src[0] != 7 {
		return "", fmt.Errorf("it does not know its topic, or %x", src)
	}
	return string(src[1:]), nil
}

// Serdes that must know their topic are told it for inputs, outputs, repartition topics, changelogs and global tables, and while whoever they ask is away the application waits for it,
// says so, and goes on.
func TestBoundSerdes(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "painted": 1}, func(w *world) {
		w.create("colors", 1, "cleanup.policy", "compact")
		reg := &registry{down: true, bound: make(map[string]int)}
		s := registered{registry: reg}
		in, side, out := topology.NewTopic[string, string]("words", s, s), topology.NewTopic[string, string]("colors", s, s), topology.NewTopic[string, string]("painted", s, s)
		b := topology.New()
		b.Default[string](s)
		palette := b.GlobalTable("palette", side, few)
		b.Stream(in).GroupBy(func(_, v string) string { return v }).Reduce("last", few, func(_, v string) string { return v }).Stream().
			JoinGlobal(palette, func(k, _ string) (string, bool) { return k, true }, func(v, color string) string { return v + " is " + color }).To(out)
		send := func(topic, k, v string) { w.produce(topic, []byte("\x07"+k), []byte("\x07"+v), 1_700_000_000_000) }
		send("colors", "a", "red")
		send("words", "x", "a")
		c := w.config("app")
		r := w.start(b, c)
		w.wait(5 * time.Second)
		h := r.app.Health()
		if len(h.Notices) == 0 || !strings.Contains(h.Notices[0].Problem, `topic "colors": no registry`) || h.Ready {
			t.Fatalf("while nobody answers: %+v", h)
		}
		reg.mu.Lock()
		reg.down = false
		reg.mu.Unlock()
		r.ready()
		w.settled("app", "words", "app-last-repartition")
		if got := w.values("painted"); !slices.Equal(got, []string{"\x07a is red"}) {
			t.Errorf("got %q", got)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		reg.mu.Lock()
		defer reg.mu.Unlock()
		want := []string{"app-last-changelog/key", "app-last-changelog/value", "app-last-repartition/key", "app-last-repartition/value",
			"colors/key", "colors/value", "painted/key", "painted/value", "words/key", "words/value"}
		if got := slices.Sorted(maps.Keys(reg.bound)); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
		for _, rec := range w.read("app-last-changelog") {
			if rec.Key[0] != 7 || rec.Value[0] != 7 {
				t.Errorf("the changelog has %x=%x", rec.Key, rec.Value)
			}
		}
	})
}
