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

// follower is the internal topic of a foreign-key join that has as many partitions as another input.
func follower(name, ending string, of *engine.Input) *engine.Input {
	return &engine.Input{Topic: engine.Topic{Name: name, Repartition: true, Ending: ending}, Follows: of}
}

// foreign is a foreign-key join of two inputs. Its left side also reads, and each side writes, what is given.
func foreign(left, right *engine.Input, more *engine.Input, leftWrites, rightWrites string) []*engine.Sub {
	l := sub([]*engine.Input{left, follower("f", "response", left)}, leftWrites)
	if more != nil {
		l.Inputs = append(l.Inputs, more)
		l = alike(l, 1, 2)
	}
	r := sub([]*engine.Input{right, follower("f", "registration", right)}, rightWrites)
	l.Outputs = append(l.Outputs, &engine.Output{Topic: r.Inputs[1].Topic})
	r.Outputs = append(r.Outputs, &engine.Output{Topic: l.Inputs[1].Topic})
	return []*engine.Sub{l, r}
}

// A foreign-key join needs no equal counts: each of its topics follows one side.
func TestLayoutOfForeignJoins(t *testing.T) {
	for _, c := range []struct {
		name                string
		subs                []*engine.Sub
		left, right         string // whose counts the response and registration topics have
		wantLeft, wantRight int32
	}{
		{"users' topics", foreign(user("a"), user("b"), nil, "", ""), "a", "b", 4, 6},
		{"repartition topics", append(foreign(again("l", 0), again("r", 0), nil, "", ""), sub([]*engine.Input{user("a")}, "l"), sub([]*engine.Input{user("b")}, "r")),
			"app-l-repartition", "app-r-repartition", 4, 6},
		{"the left side writes the right one's", foreign(user("a"), again("r", 0), nil, "r", ""), "a", "app-r-repartition", 4, 4},
		{"the right side writes the left one's", foreign(again("l", 0), user("b"), nil, "", "l"), "app-l-repartition", "b", 6, 6},
		{"the result is joined with a repartition topic", append(foreign(user("a"), user("b"), again("z", 0), "", ""), sub([]*engine.Input{user("b")}, "z")),
			"a", "app-z-repartition", 4, 4},
		{"both are repartition topics", append(foreign(again("l", 0), user("b"), again("z", 0), "", ""), sub([]*engine.Input{user("a")}, "l"), sub([]*engine.Input{user("b")}, "z")),
			"app-l-repartition", "app-z-repartition", 6, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, bad := engine.Layout(&engine.Graph{Subs: c.subs}, "app", map[string]int32{"a": 4, "b": 6})
			if len(bad) > 0 {
				t.Fatalf("misfits %+v", bad)
			}
			if got[c.left] != c.wantLeft || got["app-f-response"] != c.wantLeft || got[c.right] != c.wantRight {
				t.Errorf("got %v", got)
			}
			if n := got["app-f-registration"]; n != got[c.subs[1].Inputs[0].Full("app")] {
				t.Errorf("%d partitions of the registration topic: %v", n, got)
			}
		})
	}
	subs := foreign(user("a"), user("b"), user("c"), "", "")
	if _, bad := engine.Layout(&engine.Graph{Subs: subs}, "app", map[string]int32{"a": 4, "b": 6, "c": 5}); len(bad) != 1 || bad[0].Topic != "c" || !strings.Contains(bad[0].Problem, "a has 4") {
		t.Errorf("misfits %+v", bad)
	}
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
