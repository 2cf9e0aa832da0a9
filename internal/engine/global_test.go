package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
)

// copied is a store of text.
type copied struct {
	state.Live
	rows map[string]string
	fail error
}

func (c *copied) Restore(key, value []byte, _ int64) error {
	if c.fail != nil {
		panic(state.Broken{Store: "palette", Err: c.fail})
	}
	if value == nil {
		delete(c.rows, string(key))
	} else {
		c.rows[string(key)] = string(value)
	}
	return nil
}

func newGlobal(t *testing.T) (*Global, *copied) {
	t.Helper()
	live := &copied{rows: map[string]string{}}
	table := &GlobalTable{Topic: "colors", Node: &Node{Name: "palette"}, Store: &state.Decl{Name: "palette", Open: func(state.Env) state.Live { return live }},
		Check: func(context.Context) (func(_, value []byte) error, error) {
			return func(_, value []byte) error {
				if string(value) == "bad" {
					return errors.New("bad")
				}
				return nil
			}, nil
		}}
	g, err := OpenGlobal(t.Context(), table, state.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return g, live
}

// look is what a task reads.
func look(t *testing.T, task *Task, key string) (value string) {
	t.Helper()
	err := task.Global("palette").Read(func() ([]byte, error) { return []byte(key), nil },
		func(v []byte, _ int64) { value = string(v) },
		func(l state.Live) { value = l.(*copied).rows[key] })
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func put(t *testing.T, g *Global, pairs ...string) {
	t.Helper()
	var batch []Record
	for i := 0; i < len(pairs); i += 2 {
		r := Record{Key: []byte(pairs[i])}
		if pairs[i+1] != "" {
			r.Value = []byte(pairs[i+1])
		}
		batch = append(batch, r)
	}
	if err := g.Apply(batch); err != nil {
		t.Fatal(err)
	}
}

// A record sees a global table as it was when the record began, and whole batches only.
func TestGlobalSnapshot(t *testing.T) {
	g, live := newGlobal(t)
	env := Env{Globals: map[string]*Global{"palette": g}}
	one, two := &Task{env: env}, &Task{env: env}
	put(t, g, "a", "1", "b", "1")
	if len(live.rows) != 2 || g.Above() != 0 {
		t.Fatalf("with nobody reading, %v is in the store and %d rows above it", live.rows, g.Above())
	}
	see := func(task *Task, a, b, c string) {
		t.Helper()
		if got, want := fmt.Sprintln(look(t, task, "a"), look(t, task, "b"), look(t, task, "c")), fmt.Sprintln(a, b, c); got != want {
			t.Errorf("a record sees %q, want %q", got, want)
		}
	}
	one.Global("palette")
	two.Global("palette")
	one.pin()
	see(one, "1", "1", "")
	put(t, g, "a", "2", "c", "2")
	two.pin()
	put(t, g, "a", "3", "b", "", "a", "4")
	see(one, "1", "1", "")
	see(two, "2", "1", "2")
	one.unpin()
	if err := g.Settle(); err != nil {
		t.Fatal(err)
	}
	if live.rows["a"] != "2" || live.rows["b"] != "1" || g.Above() != 2 {
		t.Errorf("%v is in the store, %d rows above it", live.rows, g.Above())
	}
	see(two, "2", "1", "2")
	one.pin()
	see(one, "4", "", "2")
	one.unpin()
	two.letGo()
	if err := g.Settle(); err != nil || g.Above() != 0 || live.rows["a"] != "4" || len(live.rows) != 2 {
		t.Errorf("%v is in the store, %d rows above it, %v", live.rows, g.Above(), err)
	}
}

func TestGlobalCheck(t *testing.T) {
	g, live := newGlobal(t)
	if why, err := g.Check(&Record{Value: []byte("x")}); why != "null_key" || err != nil {
		t.Errorf("without a key: %q, %v", why, err)
	}
	if why, err := g.Check(&Record{Key: []byte("k"), Value: []byte("x")}); why != "" || err != nil {
		t.Errorf("a row: %q, %v", why, err)
	}
	bad := &Record{Key: []byte("k"), Value: []byte("bad"), Offset: 7}
	if _, err := g.Check(bad); err == nil {
		t.Error("what cannot be read is taken")
	}
	g.Table.Node.OnError = Policy{Kind: Skip}
	if why, err := g.Check(bad); why != "skipped" || err != nil {
		t.Errorf("what cannot be read, to be skipped: %q, %v", why, err)
	}
	live.fail = errors.New("disk")
	if err := g.Apply([]Record{{Key: []byte("k")}}); !errors.Is(err, live.fail) {
		t.Errorf("a store that fails: %v", err)
	}
}
