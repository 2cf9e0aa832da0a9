package kolk

import (
	"maps"
	"sync"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/internal/engine"
)

// GlobalHealth is a global table's part of Health.
type GlobalHealth struct {
	Store    StoreHealth
	Topic    string
	Restores []RestoreProgress // one per partition that was or is copied at the start; the task is "global"
	Dropped  map[string]int64  // records that are no rows, by reason, since the start
}

// globalStatus is what is known of a global table, by the goroutine that fills it and those that ask.
type globalStatus struct {
	table *engine.GlobalTable

	mu       sync.Mutex
	open     *engine.Global // nil while it is closed
	size     StoreHealth
	restores []*storeProgress
	dropped  map[string]int64
}

// global adds a global table.
func (s *status) global(table *engine.GlobalTable) *globalStatus {
	g := &globalStatus{table: table, dropped: make(map[string]int64), size: StoreHealth{Name: table.Store.Name, Expected: table.Store.Expected}}
	s.mu.Lock()
	s.globals = append(s.globals, g)
	s.mu.Unlock()
	return g
}

// opened says where the table is now; nil before it is closed.
func (g *globalStatus) opened(table *engine.Global) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.measure()
	g.open = table
}

// restoring adds a partition that is being copied.
func (g *globalStatus) restoring() *storeProgress {
	p := &storeProgress{task: "global", store: g.table.Store.Name, p: new(changelog.Progress)}
	g.mu.Lock()
	g.restores = append(g.restores, p)
	g.mu.Unlock()
	return p
}

// drop counts a record that is no row.
func (g *globalStatus) drop(reason string) {
	g.mu.Lock()
	g.dropped[reason]++
	g.mu.Unlock()
}

// measure takes the table's size; the lock is held.
func (g *globalStatus) measure() {
	if g.open != nil {
		st := g.open.Stats()
		g.size.Entries, g.size.Bytes, g.size.Pending = st.Entries, st.Bytes, st.Pending
	}
}

// health is what Health says of the table.
func (g *globalStatus) health() GlobalHealth {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.measure()
	h := GlobalHealth{Store: g.size, Topic: g.table.Topic, Dropped: maps.Clone(g.dropped)}
	for _, p := range g.restores {
		h.Restores = append(h.Restores, p.read())
	}
	return h
}
