package parity

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

// inWindows is a table of windows, whatever the type of its values is.
type inWindows struct {
	stream   func() func(topic string) // the updates or results, and then a sink
	suppress func(name string) inWindows
}

// frame is a grouped stream in windows or sessions.
type frame struct {
	spec     topology.Windowed[string, *string]
	sessions topology.Sessions[string, *string]
	session  bool
	final    bool // results when a window closes, instead of updates
	key      serde.Serde[window.Key[string]]
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// specOf is the windows that a node asks for; ok is false for sessions.
func specOf(n Node) (w window.Spec, ok bool) {
	switch n.Op {
	case "tumbling":
		w = window.Tumbling(ms(n.Size))
	case "hopping":
		w = window.Hopping(ms(n.Size), ms(n.Advance))
	case "sliding":
		w = window.Sliding(ms(n.Difference))
	default:
		return w, false
	}
	return w.Grace(ms(n.Grace)), true
}

// frame puts a grouped stream into windows.
func (g *graph) frame(n Node, from topology.Grouped[string, *string]) {
	f := frame{final: n.Emit == "close"}
	if w, ok := specOf(n); ok {
		f.spec, f.key = from.Windowed(w), window.KeySerde(serde.String(), w)
	} else {
		f.session, f.key = true, window.SessionKeySerde(serde.String())
		f.sessions = from.Sessions(window.Sessions(ms(n.Gap)).Grace(ms(n.Grace)))
	}
	g.frames[n.ID] = f
}

// framed is an aggregation in windows.
func (g *graph) framed(n Node, f frame) error {
	add := func(_ string, v *string, sum string) string { return sum + "+" + text(v) }
	merge := func(_ string, a, b string) string { return a + "|" + b }
	switch n.Op {
	case "count":
		var t topology.WindowTable[string, int64]
		if f.session {
			t = f.sessions.Count(n.Store)
		} else {
			t = f.spec.Count(n.Store)
		}
		g.windows[n.ID] = windowsOf(t, f, optionals, func(v *int64) *int64 { return v })
		g.stored[n.Store] = windowReader(t.Store(), f.session, func(v int64) any { return float64(v) })
	case "reduce":
		var t topology.WindowTable[string, *string]
		if f.session {
			t = f.sessions.Reduce(n.Store, plus)
		} else {
			t = f.spec.Reduce(n.Store, plus)
		}
		g.windows[n.ID] = windowsOf(t, f, optional, side)
		g.stored[n.Store] = windowReader(t.Store(), f.session, func(v *string) any { return *v })
	case "aggregate":
		var t topology.WindowTable[string, string]
		if f.session {
			t = f.sessions.Aggregate(n.Store, serde.String(), add, merge)
		} else {
			t = f.spec.Aggregate(n.Store, serde.String(), add)
		}
		g.windows[n.ID] = windowsOf(t, f, optional, func(v *string) *string { return v })
		g.stored[n.Store] = windowReader(t.Store(), f.session, func(v string) any { return v })
	default:
		return errUnsupported
	}
	return nil
}

// windowsOf hides the type of a table's values. point makes what is written of a value, or of none.
func windowsOf[V, P any](t topology.WindowTable[string, V], f frame, value serde.Serde[P], point func(*V) P) inWindows {
	return inWindows{
		stream: func() func(topic string) {
			var s topology.WindowStream[string, P]
			if f.final {
				s = t.Final().MapValues(func(v V) P { return point(&v) })
			} else {
				s = t.Changes(func(_ window.Key[string], c topology.Change[V]) P { return point(c.New) })
			}
			return func(topic string) { s.To(topology.NewTopic(topic, f.key, value)) }
		},
		suppress: func(name string) inWindows {
			return windowsOf(t.Suppress(name, topology.UntilWindowCloses()), f, value, point)
		},
	}
}

// windowReader reads all rows of a store of windows.
func windowReader[V any](h store.WindowHandle[string, V], session bool, show func(V) any) func(*topologytest.Driver) ([]Stored, error) {
	return func(d *topologytest.Driver) (rows []Stored, err error) {
		for e, err := range d.Store(h).All(ctx, time.UnixMilli(0), time.UnixMilli(math.MaxInt64/2)) {
			if err != nil {
				return nil, err
			}
			key := map[string]any{"key": e.Key.Key, "start": float64(e.Key.Start().UnixMilli()), "end": float64(e.Key.End().UnixMilli())}
			rows = append(rows, Stored{Key: key, Value: show(e.Value), Time: e.Time.UnixMilli()})
		}
		slices.SortFunc(rows, byKey)
		return rows, nil
	}
}

// cogroup is an aggregate of several grouped streams.
func (g *graph) cogroup(n Node) error {
	var c topology.Cogrouped[string, string]
	for i, id := range n.Groups {
		from, ok := g.groups[id]
		if !ok {
			return fmt.Errorf("there is no group %s", id)
		}
		tag := string(rune('a' + i))
		c = c.And(from, func(_ string, v *string, sum string) string { return sum + tag + text(v) })
	}
	g.sum(n, c.Aggregate(n.Store, serde.String(), bound))
	return nil
}

// suppressTable holds back the updates of a table.
func suppressTable(n Node, from topology.Table[string, *string]) topology.Table[string, *string] {
	var opts []topology.SuppressOption
	if n.MaxRecords > 0 {
		opts = append(opts, topology.MaxRecords(n.MaxRecords))
	}
	return from.Suppress(n.Name, topology.UntilTimeLimit(ms(n.Limit)), opts...)
}
