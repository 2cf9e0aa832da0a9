package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kolkstreams/kolk/internal/engine"
)

func user(name string) *engine.Input { return &engine.Input{Topic: engine.Topic{Name: name}} }

func again(name string, partitions int32) *engine.Input {
	return &engine.Input{Topic: engine.Topic{Name: name, Repartition: true}, Partitions: partitions}
}

// sub reads inputs and writes repartition topics.
func sub(inputs []*engine.Input, writes ...string) *engine.Sub {
	s := &engine.Sub{Inputs: inputs}
	for _, w := range writes {
		s.Outputs = append(s.Outputs, &engine.Output{Topic: engine.Topic{Name: w, Repartition: true}})
	}
	return s
}

func alike(s *engine.Sub, inputs ...int) *engine.Sub {
	s.Copartitioned = append(s.Copartitioned, engine.Copartition{Node: &engine.Node{Name: "join", Place: "main.go:7"}, Inputs: inputs})
	return s
}

func TestLayout(t *testing.T) {
	for _, c := range []struct {
		name  string
		subs  []*engine.Sub
		count map[string]int32
		want  map[string]int32
		bad   string // what a misfit's topic, problem and remedy must hold
	}{
		{"the largest source", []*engine.Sub{sub([]*engine.Input{user("a"), user("b")}, "r"), sub([]*engine.Input{again("r", 0)})},
			map[string]int32{"a": 3, "b": 5}, map[string]int32{"a": 3, "b": 5, "app-r-repartition": 5}, ""},
		{"what is there does not count", []*engine.Sub{sub([]*engine.Input{user("a")}, "r"), sub([]*engine.Input{again("r", 0)})},
			map[string]int32{"a": 3, "app-r-repartition": 9}, map[string]int32{"a": 3, "app-r-repartition": 3}, ""},
		{"asked for", []*engine.Sub{sub([]*engine.Input{user("a")}, "r"), sub([]*engine.Input{again("r", 7)})},
			map[string]int32{"a": 3}, map[string]int32{"a": 3, "app-r-repartition": 7}, ""},
		{"a chain, in any order", []*engine.Sub{sub([]*engine.Input{again("s", 0)}), sub([]*engine.Input{again("r", 0)}, "s"), sub([]*engine.Input{user("a")}, "r")},
			map[string]int32{"a": 4}, map[string]int32{"a": 4, "app-r-repartition": 4, "app-s-repartition": 4}, ""},
		{"a chain after one that was asked for", []*engine.Sub{sub([]*engine.Input{user("a")}, "r"), sub([]*engine.Input{again("r", 2)}, "s"), sub([]*engine.Input{again("s", 0)})},
			map[string]int32{"a": 4}, map[string]int32{"a": 4, "app-r-repartition": 2, "app-s-repartition": 2}, ""},
		{"joined with a topic of the user's", []*engine.Sub{sub([]*engine.Input{user("a")}, "r"), alike(sub([]*engine.Input{again("r", 0), user("b")}), 0, 1)},
			map[string]int32{"a": 4, "b": 6}, map[string]int32{"a": 4, "b": 6, "app-r-repartition": 6}, ""},
		{"two repartition topics joined", []*engine.Sub{sub([]*engine.Input{user("a")}, "r"), sub([]*engine.Input{user("b")}, "s"), alike(sub([]*engine.Input{again("r", 0), again("s", 0)}), 0, 1)},
			map[string]int32{"a": 4, "b": 6}, map[string]int32{"a": 4, "b": 6, "app-r-repartition": 6, "app-s-repartition": 6}, ""},
		{"one of them asked for", []*engine.Sub{sub([]*engine.Input{user("a")}, "r"), sub([]*engine.Input{user("b")}, "s"), alike(sub([]*engine.Input{again("r", 3), again("s", 0)}), 0, 1)},
			map[string]int32{"a": 4, "b": 6}, map[string]int32{"a": 4, "b": 6, "app-r-repartition": 3, "app-s-repartition": 3}, ""},
		{"topics of the user's that differ", []*engine.Sub{alike(sub([]*engine.Input{user("a"), user("b")}), 0, 1)},
			map[string]int32{"a": 4, "b": 6}, nil, `b it has 6 partitions and a has 4 at "join" (main.go:7)`},
		{"asked for against the user's", []*engine.Sub{sub([]*engine.Input{user("a")}, "r"), alike(sub([]*engine.Input{user("b"), again("r", 3)}), 0, 1)},
			map[string]int32{"a": 4, "b": 6}, nil, "app-r-repartition it has 3 partitions and b has 6 leave out topology.Partitions"},
		{"a circle", []*engine.Sub{sub([]*engine.Input{again("r", 0)}, "s"), sub([]*engine.Input{again("s", 0)}, "r")},
			nil, nil, "app-r-repartition follows from nothing give topology.Partitions"},
		{"a circle with a way in", []*engine.Sub{sub([]*engine.Input{user("a"), again("r", 0)}, "r")},
			map[string]int32{"a": 4}, map[string]int32{"a": 4, "app-r-repartition": 4}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, bad := engine.Layout(&engine.Graph{Subs: c.subs}, "app", c.count)
			if c.bad == "" {
				if len(bad) > 0 {
					t.Fatalf("misfits %+v", bad)
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Error(d)
				}
				return
			}
			if len(bad) == 0 {
				t.Fatalf("no misfit: %v", got)
			}
			text := bad[0].Topic + " " + bad[0].Problem + " " + bad[0].Remedy
			for word := range strings.FieldsSeq(c.bad) {
				if !strings.Contains(text, word) {
					t.Errorf("misfit %q lacks %q", text, word)
				}
			}
		})
	}
}

func TestTasks(t *testing.T) {
	s := sub([]*engine.Input{user("a"), user("b")})
	s.ID = 3
	if n := s.Tasks("app", map[string]int32{"a": 2, "b": 5}); n != 5 {
		t.Errorf("%d tasks", n)
	}
	if id := s.TaskID(4); id != "3_4" {
		t.Errorf("id %s", id)
	}
}

func TestTopicNames(t *testing.T) {
	for want, topic := range map[string]engine.Topic{"orders": {Name: "orders"}, "app-words-repartition": {Name: "words", Repartition: true}, "app-words-v2-repartition": {Name: "words", Repartition: true, Version: 2}} {
		if got := topic.Full("app"); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}
