package topologytest

import (
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
)

// settle runs the tasks, and commits unless the test does.
func (d *Driver) settle() {
	d.t.Helper()
	d.run()
	if !d.opts.manual {
		d.commit(true)
	}
}

// Commit commits what was done since the last commit, with ManualCommit. Without, there is nothing left to commit.
func (d *Driver) Commit() {
	d.t.Helper()
	d.commit(true)
}

// commit ends the transaction. Unless told is set, the tasks do not hear of it.
func (d *Driver) commit(told bool) {
	d.t.Helper()
	if d.failed {
		return
	}
	d.closing = true
	defer func() { d.closing = false }()
	for again := true; again; {
		for _, t := range d.tasks {
			d.running = t
			if err := t.Prepare(); err != nil {
				d.fail("topologytest: %v", err)
				return
			}
		}
		again = d.run()
	}
	if d.failed {
		return
	}
	for _, t := range d.tasks {
		if !t.Moved() {
			continue
		}
		err := t.Flush(func(decl *state.Decl, key, value []byte, at int64) error {
			if decl.Source == "" {
				l, _ := d.changelog(decl, t.Partition)
				l.append(t.Partition, key, value, at, engine.LogHeaders(decl, value), d.sends-1)
			}
			return nil
		})
		if err != nil {
			d.fail("topologytest: %v", err)
			return
		}
		for _, c := range t.Cuts(t.hashes) {
			topic := t.Sub.Inputs[c.Input].Full(Application)
			if t.Partition < d.partitions(topic) {
				d.offsets[place{topic, t.Partition}] = cut{c.Next, c.Metadata}
			}
		}
		if !told {
			continue
		}
		if err := t.Committed(); err != nil {
			d.fail("topologytest: %v", err)
			return
		}
		if t.commits++; t.commits%everyNth == 0 {
			d.checkpoint(t)
		}
	}
	d.pending, d.kept, d.settled = nil, len(d.drops), d.sends
}

func (d *Driver) checkpoint(t *task) {
	d.t.Helper()
	data, err := d.saved(t, false)
	var c *engine.Checkpoint
	if err == nil {
		c, err = t.Freeze(data)
	}
	if err == nil {
		err = c.Apply()
	}
	if err == nil {
		err = t.Applied(c)
	}
	if err != nil {
		d.fail("topologytest: %v", err)
	}
}

// Abort drops what was done since the last commit and does it again, record by record as it was sent, as after a failed transaction. What a timer
// of the wall clock had done is not done again before it is due. It wants ManualCommit, or there is nothing to lose and the test fails.
func (d *Driver) Abort() {
	d.t.Helper()
	if !d.loses("Abort") {
		return
	}
	if d.aborts++; d.aborts%2 == 0 && !d.stage() {
		return
	}
	for _, e := range d.pending {
		e.aborted = true
	}
	d.pending, d.drops = nil, d.drops[:d.kept]
	for _, t := range d.tasks {
		d.running = t
		err := t.Rewind()
		if err == nil {
			err = d.begin(t) // also forgets how much further the inputs go
		}
		if err != nil {
			d.fail("topologytest: %v", err)
			return
		}
	}
	if d.shown = d.settled; !d.rewindGlobals() {
		return
	}
	for d.shown < d.sends && !d.failed {
		d.shown++
		d.fresh = true
		d.run()
	}
}

// stage hands everything to a transaction that will not end well: half of those that fail do so at their end.
func (d *Driver) stage() bool {
	d.t.Helper()
	for _, t := range d.tasks {
		d.running = t
		err := t.Prepare()
		if err == nil {
			err = t.Flush(func(*state.Decl, []byte, []byte, int64) error { return nil })
		}
		if err != nil {
			d.fail("topologytest: %v", err)
			return false
		}
	}
	return true
}

// Crash commits and dies before the local stores have heard of it, then starts again from what they hold and the rest of the changelogs. Like
// Abort it wants ManualCommit, or there is nothing to lose and the test fails.
func (d *Driver) Crash() {
	d.t.Helper()
	if !d.loses("Crash") {
		return
	}
	d.commit(false)
	if !d.failed && d.openAll(false) {
		d.run()
	}
}

func (d *Driver) loses(what string) bool {
	d.t.Helper()
	if !d.opts.manual && !d.failed {
		d.fail("topologytest: %s loses nothing, as each Send commits: start the driver with ManualCommit", what)
	}
	return !d.failed
}

// Restart commits, closes all tasks, throws their local state away and restores it from the changelogs, compacted as far as a broker may.
func (d *Driver) Restart() {
	d.t.Helper()
	d.commit(true)
	if d.failed {
		return
	}
	for _, t := range d.tasks {
		d.shut(t)
	}
	if d.openAll(true) {
		d.run()
	}
}

func (d *Driver) shut(t *task) {
	d.t.Helper()
	d.running = t
	if err := t.Close(); err != nil {
		d.fail("topologytest: %v", err)
	}
}

// close ends the tasks at the end of the test.
func (d *Driver) close() {
	if d.failed {
		return // their state is unknown
	}
	for _, t := range d.tasks {
		d.shut(t)
	}
	d.tasks = nil
}
