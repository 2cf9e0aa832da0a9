package store

import (
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/internal/seal"
	"github.com/kolkstreams/kolk/internal/state"
)

// Bound says why a store does not grow for ever. The zero Bound is refused by Build.
type Bound struct {
	ttl    time.Duration
	keys   int64
	timed  bool // made by TTL
	finite bool // made by FiniteKeys
	expect bool // Expect was called
}

// TTL deletes an entry once stream time is d past the entry's time, that of its last write. Reads are exact; the deletion reaches the
// changelog, and what follows a table, within about d/8 of stream time. d is counted in whole milliseconds and is at least one. Refused for
// global tables and for SourceIsChangelog.
func TTL(d time.Duration) Bound { return Bound{ttl: d, timed: true} }

// FiniteKeys promises that keys come from a set that does not grow with time, of about the expected size, at least 1. Nothing is deleted;
// a store that holds more than twice as many shows in health and metrics.
func FiniteKeys(expected int64) Bound { return Bound{keys: expected, finite: true} }

// Expect adds the expected number of entries, at least 1, to a TTL, so that health can watch it.
func (b Bound) Expect(entries int64) Bound {
	b.keys, b.expect = entries, true
	return b
}

func (b Bound) declare(d *state.Decl) {
	fault := func(problem, remedy string) {
		d.Faults = append(d.Faults, state.Fault{Problem: problem, Remedy: remedy})
	}
	switch {
	case b.timed && b.ttl < time.Millisecond:
		fault(fmt.Sprintf("a TTL of %v deletes every entry at once", b.ttl), "give a time of at least one millisecond")
	case b.timed:
		d.TTL = b.ttl.Milliseconds()
	case !b.finite:
		fault("the store has no bound", "say why it does not grow for ever: store.TTL(d), or store.FiniteKeys(n) if its keys are a finite set")
	}
	if !b.finite && !b.expect {
		return
	}
	if b.keys <= 0 {
		fault(fmt.Sprintf("%d expected entries", b.keys), "give the number of entries you expect, at least 1")
		return
	}
	d.Expected = b.keys
}

// Option changes a store, whether declared for processors or owned by an operator of package topology.
type Option interface {
	seal.Store
	seal.State
	seal.Table
	declare(*state.Decl)
}

// InMemory keeps the store in memory only. The changelog still holds it, and a restart reads it back.
func InMemory() Option { return option{set: func(d *state.Decl) { d.InMemory = true }} }

// Changelog sets a topic configuration of the changelog, such as "segment.bytes". It wins over kolk.Config.InternalTopics. Refused are
// "cleanup.policy" and "message.timestamp.type", on which the meaning of a changelog rests.
func Changelog(key, value string) Option {
	return option{set: func(d *state.Decl) {
		switch key {
		case "cleanup.policy", "message.timestamp.type":
			d.Faults = append(d.Faults, state.Fault{
				Problem: fmt.Sprintf("the changelog's %s cannot be chosen", key),
				Remedy:  "leave it out: the store could not be restored from a changelog with another one",
			})
			return
		case "":
			d.Faults = append(d.Faults, state.Fault{Problem: "a topic configuration without a name", Remedy: `name it, as in store.Changelog("segment.bytes", "104857600")`})
			return
		}
		if d.Config == nil {
			d.Config = make(map[string]string)
		}
		d.Config[key] = value
	}}
}

// Version says that the meaning of the state has changed while its types have not, which no fingerprint can see: another currency, another
// key of the same type. The store starts empty, under names of its own: version n of store "words" has the changelog
// `<application>-words-v<n>-changelog`, and its repartition topic, if it has one, is named so too. Input goes on where it was: to fill the
// new state from history, run it as another application first (kolk dualrun), or reset the offsets with kolk reset. The old state and its
// topics stay, unread, until kolk reset removes them; going back to the old version finds them as they were left. Handles, queries and
// metrics keep the plain name. n is at least 1; without Version names have no suffix.
func Version(n int) Option {
	return option{set: func(d *state.Decl) {
		if n < 1 {
			d.Faults = append(d.Faults, state.Fault{Problem: fmt.Sprintf("version %d", n), Remedy: "count versions from 1; leave Version out for names without a suffix"})
			return
		}
		d.Version = n
	}}
}

type (
	storeMark = seal.StoreMark
	stateMark = seal.StateMark
	tableMark = seal.TableMark
)

type option struct {
	storeMark
	stateMark
	tableMark
	set func(*state.Decl)
}

func (o option) declare(d *state.Decl) { o.set(d) }
