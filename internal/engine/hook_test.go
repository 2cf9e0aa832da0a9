package engine

import (
	"errors"
	"testing"
)

// These stand for the public types that carry hooks.
type (
	holder struct{ Held }
	bound  struct {
		Place
		Link[string, int]
		Check[string]
	}
	fixed   struct{ Fixed[string] }
	headers struct{ Headers }
	topic   struct{ Ends[string, int] }
	policy  struct{ HeldPolicy }
)

func TestHeldGraph(t *testing.T) {
	var h holder
	if GraphOf(&h) != nil {
		t.Error("a topology that was never built has a graph")
	}
	g := &Graph{}
	if Hold(&h, g); GraphOf(&h) != g {
		t.Error("the graph is lost")
	}
	if p := PolicyOf(policy{}); p != (Policy{}) {
		t.Errorf("policy %+v", p)
	}
	if p := PolicyOf(policy{HoldPolicy(Policy{Kind: Skip})}); p.Kind != Skip {
		t.Errorf("policy %+v", p)
	}
}

func TestContexts(t *testing.T) {
	var c bound
	task, node, sum := new(Task), new(Node), 0
	other := Receive[string, int](func(*Rec, string, int) {})
	Bind(&c, task, node, func(_ *Rec, _ string, v int) { sum += v }, map[string]any{"other": other})
	if TaskOf(&c.Place) != task || NodeOf(&c.Place) != node {
		t.Error("bound to another place")
	}
	if Next(&c.Link)(nil, "k", 3); sum != 3 {
		t.Errorf("sum %d", sum)
	}
	if _, ok := OutputOf(&c.Place, "other").(Receive[string, int]); !ok || OutputOf(&c.Place, "none") != nil {
		t.Error("outputs are mixed up")
	}
	wrong := errors.New("wrong partition")
	if err := CheckOf(&c.Check, "a"); err != nil {
		t.Errorf("unchecked: %v", err)
	}
	SetCheck(&c, func(k string) error {
		if k == "a" {
			return nil
		}
		return wrong
	})
	if CheckOf(&c.Check, "a") != nil || CheckOf(&c.Check, "b") != wrong {
		t.Error("the check is not asked")
	}
}

func TestRecordHooks(t *testing.T) {
	var r fixed
	if _, _, set := KeyOf(&r.Fixed); set || HasKey(&r) {
		t.Error("a literal has a key")
	}
	Fix(&r, "k", true)
	if k, null, set := KeyOf(&r.Fixed); k != "k" || !null || !set || !HasKey(&r) {
		t.Errorf("key %q, null %v, set %v", k, null, set)
	}
	var h headers
	list := []Header{{Key: "a"}}
	if SetHeaders(&h, list); len(HeadersOf(&h)) != 1 || len(ListOf(&h.Headers)) != 1 {
		t.Error("headers are lost")
	}
	if e := EndsOf(topic{Ends[string, int]{Partition: func(string, int, int) int { return 7 }}}); e.Key != nil || e.Partition("", 0, 0) != 7 {
		t.Error("ends are lost")
	}
}
