package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

type account struct {
	Name   string
	Number int64
}

func opened[W any](store.Handle[W]) (w W) { return w }

func TestHandleTypes(t *testing.T) {
	h := store.NewKeyValue("accounts", serde.JSON[account](), serde.Int64(), store.FiniteKeys(10))
	var _ store.KeyValue[account, int64] = opened(h)
	var _ store.Queryable[store.KeyValueReader[account, int64]] = h
	var _ store.Keyed[account] = h
	if h.Name() != "accounts" {
		t.Errorf("name is %q", h.Name())
	}
	var zero store.KeyValueHandle[string, string]
	if zero.Name() != "" || state.Of(zero) != nil {
		t.Error("a handle that was never declared has a name")
	}
}

func TestDeclaration(t *testing.T) {
	h := store.NewKeyValue("words.v-1_x", serde.String(), serde.Int64(), store.TTL(90*time.Second).Expect(7), store.InMemory(),
		store.Version(3), store.Changelog("segment.bytes", "1048576"))
	d := state.Of(h)
	if len(d.Faults) > 0 {
		t.Fatalf("faults: %v", d.Faults)
	}
	if d.Full() != "words.v-1_x-v3" || d.TTL != 90_000 || d.Expected != 7 || !d.InMemory || d.Config["segment.bytes"] != "1048576" ||
		d.Kind != "keyvalue" || d.Key != "string" || d.Value != "int64" || !strings.Contains(d.Place, "handle_test.go:") {
		t.Errorf("declared %+v", d)
	}
}

func faultsOf[K comparable](key serde.Serde[K]) []state.Fault {
	return state.Of(store.NewKeyValue("rows", key, serde.Int64(), store.FiniteKeys(1))).Faults
}

func jsonKey[K comparable]() []state.Fault { return faultsOf(serde.JSON[K]()) }

func TestFaults(t *testing.T) {
	declare := func(name string, b store.Bound, opts ...store.Option) []state.Fault {
		return state.Of(store.NewKeyValue(name, serde.String(), serde.Int64(), b, opts...)).Faults
	}
	finite := store.FiniteKeys(1)
	for name, c := range map[string]struct {
		faults []state.Fault
		want   string
	}{
		"no bound":         {declare("a", store.Bound{}), "no bound"},
		"only expected":    {declare("a", store.Bound{}.Expect(3)), "no bound"},
		"no TTL":           {declare("a", store.TTL(0)), "TTL of 0s"},
		"negative TTL":     {declare("a", store.TTL(-time.Hour)), "TTL of -1h"},
		"TTL under a ms":   {declare("a", store.TTL(time.Microsecond)), "TTL of 1µs"},
		"no keys":          {declare("a", store.FiniteKeys(0)), "0 expected"},
		"expects nothing":  {declare("a", store.TTL(time.Hour).Expect(-1)), "-1 expected"},
		"no name":          {declare("", finite), "no name"},
		"a space":          {declare("a b", finite), "illegal character at 1"},
		"a slash":          {declare("a/b", finite), "illegal character at 1"},
		"a directory":      {declare("..", finite), "directory"},
		"long name":        {declare(strings.Repeat("a", 201), finite), "201 characters"},
		"version 0":        {declare("a", finite, store.Version(0)), "version 0"},
		"cleanup policy":   {declare("a", finite, store.Changelog("cleanup.policy", "delete")), "cleanup.policy"},
		"timestamp type":   {declare("a", finite, store.Changelog("message.timestamp.type", "LogAppendTime")), "message.timestamp.type"},
		"unnamed config":   {declare("a", finite, store.Changelog("", "x")), "without a name"},
		"pointer key":      {jsonKey[*int](), "pointers"},
		"interface key":    {jsonKey[any](), "interface"},
		"channel key":      {jsonKey[chan int](), "channels"},
		"float key":        {faultsOf(serde.Float64()), "NaN"},
		"complex key":      {jsonKey[complex128](), "NaN"},
		"no key serde":     {faultsOf[string](nil), "key has no serde"},
		"no value serde":   {state.Of(store.NewKeyValue[string, int64]("a", serde.String(), nil, finite)).Faults, "value has no serde"},
		"good":             {declare("a", finite), ""},
		"struct of floats": {jsonKey[struct{ X float64 }](), ""},
		"array":            {faultsOf(serde.UUID()), ""},
	} {
		switch {
		case c.want == "" && len(c.faults) > 0:
			t.Errorf("%s: %v", name, c.faults)
		case c.want == "":
		case len(c.faults) != 1 || !strings.Contains(c.faults[0].Problem, c.want) || c.faults[0].Remedy == "":
			t.Errorf("%s: %v, want one about %q with a remedy", name, c.faults, c.want)
		}
	}
}

type stores []state.Live

func (s stores) Stores(string) []state.Live { return s }

// A reader goes through the tasks' stores in order, and stops when its context ends.
func TestReaderOverTasks(t *testing.T) {
	h := store.NewKeyValue("rows", serde.String(), serde.Int64(), store.FiniteKeys(1))
	var view stores
	for i, keys := range [][]string{{"b", "d"}, {"a", "c"}} {
		w := newFixture(h, nil)
		for _, k := range keys {
			w.kv.Put(k, int64(i))
		}
		w.commit(t)
		w.kv.Put("dirty", 1)
		view = append(view, w.live)
	}
	r := state.Of(h).Read(view).(store.KeyValueReader[string, int64])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if v, ok, err := r.Get(ctx, "c"); v != 1 || !ok || err != nil {
		t.Errorf("c is %v %v %v", v, ok, err)
	}
	if _, ok, err := r.Get(ctx, "dirty"); ok || err != nil {
		t.Errorf("an uncommitted key is there: %v %v", ok, err)
	}
	var got []string
	for e, err := range r.Range(ctx, "b", "d") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Key)
	}
	if s := strings.Join(got, " "); s != "b d c" {
		t.Errorf("a range over the partitions is %q", s)
	}
	for range r.Range(ctx, "d", "b") {
		t.Error("a reversed range has an entry")
	}
	n := 0
	for _, err := range r.All(ctx) {
		if cancel(); n > 0 && err == nil {
			t.Error("the loop went on after its context ended")
		}
		n++
	}
	if _, _, err := r.Get(ctx, "c"); n != 2 || err == nil {
		t.Errorf("%d rounds, error %v", n, err)
	}
}
