package topology

import "github.com/kolkstreams/kolk/internal/state"

// tableInfo is what decides whether a table is stored, and whether it sends old values.
type tableInfo struct {
	node   *node
	parent *tableInfo // the table it is made of, row by row; nil for sources and aggregates
	rows   *storeRef  // its store, if it has or may have one
	always bool       // it is stored in any case
	filter bool       // old values save it needless deletes, so it wants them if they cost nothing
	passes bool       // it only delays the rows of its parent

	// What others ask of it.
	wantsOld bool // somebody needs old values
	read     bool // somebody looks up rows
	asked    bool // its handle was taken

	old bool // it sends old values
}

// decideTables settles, for all tables, what is stored and who sends old values. As in Kafka Streams a source table is stored only if
// something needs it; unlike there it does not matter in which order things were declared.
func (b *Builder) decideTables() {
	for _, n := range b.nodes {
		n.tables = nil // Build may have been called before
	}
	for _, t := range b.tables {
		t.always = t.always || t.rows != nil && t.rows.decl.TTL > 0 // its deletes must reach what follows
	}
	for _, t := range b.tables {
		if t.wantsOld {
			t.sendOld()
		}
		if t.read {
			t.base().always = true
		}
		if t.asked {
			t.always = true
		}
	}
	for _, t := range b.tables {
		if t.filter && t.parent.offersOld() {
			t.old = true
		}
		t.old = t.old || t.stored() && t.filter
	}
	for _, t := range b.tables {
		if t.stored() {
			t.rows.in = true
			t.node.uses(t.rows.decl)
			if t.rows.source != nil {
				t.rows.source.tables = append(t.rows.source.tables, t.rows.decl)
			}
		}
	}
	for _, n := range b.nodes {
		for _, t := range n.looksUp {
			n.uses(t.base().rows.decl)
		}
	}
}

func (t *tableInfo) stored() bool { return t.rows != nil && t.always }

// sendOld makes t send old values, whatever must be stored for it.
func (t *tableInfo) sendOld() {
	switch {
	case t.old:
		return
	case t.parent == nil:
		t.always = true
	case !t.stored():
		t.parent.sendOld()
	}
	t.old = true
}

// offersOld makes t send old values if nothing more need be stored for it.
func (t *tableInfo) offersOld() bool {
	if !t.old {
		t.old = t.stored() || t.parent != nil && t.parent.offersOld()
	}
	return t.old
}

// base is the table whose store is read for rows of t.
func (t *tableInfo) base() *tableInfo {
	for t.parent != nil && !t.stored() {
		t = t.parent
	}
	return t
}

// bound is the store whose bound the rows of t follow.
func (t *tableInfo) bound() *storeRef {
	for t.parent != nil {
		t = t.parent
	}
	return t.rows
}

func (n *node) uses(d *state.Decl) {
	for _, was := range n.stores {
		if was == d {
			return
		}
	}
	n.stores = append(n.stores, d)
}
