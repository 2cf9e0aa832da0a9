package topologytest

import (
	"context"
	"slices"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/memstore"
)

// global is a global table with how far it has followed each partition.
type global struct {
	*engine.Global
	next []int64
}

// openGlobals makes the global tables anew, with nothing in them. Tasks that were open must be opened again.
func (d *Driver) openGlobals() {
	d.globals = nil
	for _, table := range d.graph.Globals {
		g, err := engine.OpenGlobal(context.Background(), table, state.Env{Backend: memstore.New()})
		if err != nil {
			d.fail("topologytest: global table %q: %v", table.Store.Name, err)
			return
		}
		d.globals = append(d.globals, &global{g, make([]int64, d.partitions(table.Topic))})
	}
}

func (d *Driver) openGlobal(store string) *engine.Global {
	for _, g := range d.globals {
		if g.Table.Store.Name == store {
			return g.Global
		}
	}
	return nil
}

// rewindGlobals empties the global tables, for an input that comes again from where it was last committed.
func (d *Driver) rewindGlobals() bool {
	d.t.Helper()
	for _, g := range d.globals {
		var gone []engine.Record
		for p, next := range g.next {
			for _, r := range d.log(g.Table.Topic).from(int32(p), 0, next) {
				if why, err := g.Check(&r); why == "" && err == nil {
					gone = append(gone, engine.Record{Key: r.Key})
				}
			}
		}
		if err := g.Apply(gone); err != nil {
			d.fail("topologytest: %v", err)
			return false
		}
		clear(g.next)
	}
	return d.feedGlobals()
}

// feedGlobals gives the global tables what their topics have: what the test has sent, as far as it is shown, and what is committed.
func (d *Driver) feedGlobals() bool {
	d.t.Helper()
	for _, g := range d.globals {
		l := d.log(g.Table.Topic)
		for p := range g.next {
			var batch []engine.Record
			for ; g.next[p] < l.end(int32(p)); g.next[p]++ {
				e := l.parts[p][g.next[p]]
				if e.sent && e.input >= d.shown || !e.sent && slices.Contains(d.pending, e) {
					break
				}
				if e.aborted {
					continue
				}
				why, err := g.Check(&e.Record)
				if err != nil {
					d.fail("topologytest: %v", err)
					return false
				}
				if why == "" {
					batch = append(batch, e.Record)
				} else {
					d.drops = append(d.drops, Dropped{Raw: e.raw(), Task: "global", Node: g.Table.Node.Name, Reason: reason(why)})
				}
			}
			if err := g.Apply(batch); err != nil {
				d.fail("topologytest: %v", err)
				return false
			}
		}
	}
	return true
}
