package topology

import (
	"slices"

	"github.com/kolkstreams/kolk/internal/state"
)

// tableInfo is what decides whether a table is stored, and whether it sends old values.
type tableInfo struct {
	node   *node
	parent *tableInfo // the table it is made of, row by row; nil for sources and aggregates
	rows   *storeRef  // its store, if it has or may have one
	always bool       // it is stored in any case
	filter bool       // old values save it needless deletes, so it wants them if they cost nothing
	passes bool       // it only delays the rows of its parent
	fades  bool       // a row of it may lose its partner without being told, as windows expire one by one on each side

	sides []*tableInfo     // the two tables whose rows of one key it joins
	like  []*tableInfo     // the tables that have at least as many rows, if that is not its parent
	spare func() *storeRef // makes a store for it, if something needs one and it was given none

	// What others ask of it.
	wantsOld bool // somebody needs old values
	likesOld bool // somebody takes old values if they cost nothing
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
			for _, base := range t.bases() {
				base.store()
			}
		}
		if t.asked {
			t.always = true
		}
	}
	for _, t := range b.tables {
		if t.filter && t.parent.offersOld() {
			t.old = true
		}
		if t.likesOld {
			t.offersOld()
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
			for _, base := range t.bases() {
				n.uses(base.rows.decl)
			}
		}
	}
}

func (t *tableInfo) stored() bool { return t.rows != nil && t.always }

// store makes t stored.
func (t *tableInfo) store() {
	if t.rows == nil && t.spare != nil {
		t.rows = t.spare()
	}
	t.always = true
}

// sendOld makes t send old values, whatever must be stored for it.
func (t *tableInfo) sendOld() {
	switch {
	case t.old:
		return
	case t.stored():
	case t.parent != nil:
		t.parent.sendOld()
	case t.sides != nil:
		if t.fades {
			t.node.fault("the old values of its rows cannot be worked out: when a row changes, its window may have expired on the other side", "store its rows: call Stored with a name on the join")
		} else if t.tangled() {
			t.node.fault("the old values of its rows cannot be worked out: its sides change at different times, as one comes from the other, or waits for a commit", "store its rows: call Stored with a name on the join")
		}
		for _, side := range t.sides {
			side.sendOld()
		}
	default:
		t.store()
	}
	t.old = true
}

// offersOld makes t send old values if nothing more need be stored for it.
func (t *tableInfo) offersOld() bool {
	switch {
	case t.old:
	case t.stored():
		t.old = true
	case t.parent != nil:
		t.old = t.parent.offersOld()
	case t.sides != nil && !t.fades && !t.tangled():
		t.old = t.sides[0].offersOld() && t.sides[1].offersOld()
	}
	return t.old
}

// bases are the tables whose stores are read for rows of t.
func (t *tableInfo) bases() []*tableInfo {
	switch {
	case t.stored():
	case t.parent != nil:
		return t.parent.bases()
	case t.sides != nil:
		return slices.Concat(t.sides[0].bases(), t.sides[1].bases())
	}
	return []*tableInfo{t}
}

// tangled says that an update of one side of a join may find the rows of the other side newer than what that side has sent on: the store that
// they are read from is on the way of the update too, or the other side waits for a commit.
func (t *tableInfo) tangled() bool {
	for i, side := range t.sides {
		if side.waits() {
			return true
		}
		for _, base := range t.sides[1-i].bases() {
			if side.node.follows(base.node) {
				return true
			}
		}
	}
	return false
}

// waits says whether updates are held on the way from the stores to t.
func (t *tableInfo) waits() bool {
	switch {
	case t.stored():
		return false
	case t.passes:
		return true
	case t.parent != nil:
		return t.parent.waits()
	}
	return slices.ContainsFunc(t.sides, (*tableInfo).waits)
}

// follows says whether n is o or comes after it, without a topic between.
func (n *node) follows(o *node) bool {
	return n == o || slices.ContainsFunc(n.parents, func(p *node) bool { return p.follows(o) })
}

// bound are the stores of whose rows, all together, t has no more.
func (t *tableInfo) bound() (out []*storeRef) {
	switch {
	case t.parent != nil:
		return t.parent.bound()
	case t.like != nil:
		for _, x := range t.like {
			out = append(out, x.bound()...)
		}
	case t.rows != nil:
		out = append(out, t.rows)
	}
	return out
}

func (n *node) uses(d *state.Decl) {
	for _, was := range n.stores {
		if was == d {
			return
		}
	}
	n.stores = append(n.stores, d)
}
