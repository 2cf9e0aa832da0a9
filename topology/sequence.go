package topology

import (
	"fmt"
	"slices"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/operator"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

// Sequence finds, per key, records that follow each other as the pattern says, and makes a result of each match; see Pattern for the rules. The result has the time and headers of
// the record that completed the match; one that a ThenNot at the end let through has the time that was its last, and no headers.
//
// name names the store and, if the stream was given new keys, the repartition topic. The store has two rows for each key that has partial matches: one holds all of them and the
// records that they took, each once, and is written anew, to the changelog too, when one of them moves. Keep values small, or MaxPartial. The steps, their names and Within
// are part of the state's fingerprint, as the state refers to them: for others give a store.Version.
//
// Records with a null key or value, and late ones (see Pattern), are dropped and counted. If a function of the pattern, or f, fails and the application's policy is to go on, the
// record is left out, and the partial matches stay as they were; of a match that time decided only the result is left out.
func (s Stream[K, V]) Sequence[R any](name string, p Pattern[V], f func(K, Match[V]) R, opts ...StateOption) Stream[K, R] {
	if s.s == nil {
		return Stream[K, R]{}
	}
	b := s.s.at.b
	o := gather(b, opts)
	nodeName := b.number("KSTREAM-SEQUENCE-", o)
	decl := &state.Decl{Name: name, Kind: "keyvalue", Place: o.place}
	ref := &storeRef{decl: decl, in: true}
	b.stores = append(b.stores, ref)
	in := s.s
	if in.rekeyed != nil {
		in = repartition(in, name, nil, decl, settings{place: o.place})
	}
	out := add[K, R](b, nodeName, o, in.at.node)
	out.needs(f != nil)
	out.uses(decl)
	out.alike = append(out.alike, []*node{in.at.node})
	sought, ok := p.sought(out.node)
	for _, rule := range o.onDrop {
		if slices.Contains(rule.Reasons, "overflow") {
			out.fault("OnDrop does not apply to overflow, which is a partial match given up and no record", "leave the reason out; kolk.Hooks and the counters tell of it")
		}
	}

	var (
		key   serde.Serde[K]
		value serde.Serde[V]
	)
	ref.node = out.node
	ref.ready = func() {
		var hasKey, hasValue bool
		key, hasKey = in.key.need(out.node, "key")
		if value, hasValue = in.value.need(out.node, "value"); !hasKey || !hasValue || !ok {
			return
		}
		fresh := operator.SequenceStore(name, key, value, sought, o.store...)
		for _, f := range fresh.Faults {
			b.faults.add(out.id, name, f.Problem, f.Remedy, o.place)
		}
		fresh.Place = o.place
		if fresh.Version == 0 {
			fresh.Version = b.version
		}
		*decl = *fresh
	}
	in.at.attach(func(w *wiring) engine.Receive[K, V] {
		r, err := operator.Sequence(w.task, out.run, name, sought, key, value, func(k K, m operator.Match[V]) R { return f(k, Match[V]{m}) }, out.receive(w))
		w.fail(err)
		return r
	})
	after := revalued(in, out)
	after.fromKey = nil // a match may be sent in the turn of another key's record
	return Stream[K, R]{after}
}

// Pattern is what Sequence looks for in the records of one key. It begins with First; the methods return longer copies. Times, Optional and Where say more about the step before
// them. Within is compulsory, since it bounds the state.
//
//	topology.First("test", CardEvent.Small).Times(2).
//		Then("large", CardEvent.Large).
//		ThenNot("confirmed", CardEvent.Confirmed).
//		Within(10 * time.Minute)
//
//	minute        0     1     2     3     4     5    ...   10    11
//	records       test  other test  large                        any record, of any key
//	              │           │     │                     │     │
//	partial match 1─────────2─────3 waits ··············· ┤     └ stream time has passed
//	                                no confirmation       │       minute 10: match
//	                                until here            └ minute 0 + Within
//
// # Order
//
// Records are taken in the order in which they arrive, whatever their event times; event time counts for Within alone. The order of arrival is that of the input partition. What
// merges several topics, or reads them by MaxIdle, has the order in which the task takes their records.
//
// # Partial matches
//
// Each record that fits the first step begins a partial match. Each record of the key is shown to all its partial matches, the oldest first, before it may begin one. A partial match
// takes the first record that fits its next step, and never forks: there is one way to read the input for each first record. With a, b1, b2 the pattern "a, then b" has the
// match (a, b1) only.
//
//   - Then: other records may lie between. Next: the very next record of the key must fit; any other ends the partial match.
//   - Times(n): the step wants n records; between them others may lie, after Next none. Without Times it takes exactly one. Once n are there the next step is looked for, and
//     until it comes further records that fit are taken as well (n times or more). A record that fits both belongs to the next step. A last step with Times is complete with the nth.
//   - Optional: the step may be missing. Steps are tried in their order, up to the first that is not optional.
//   - Where: the record must also fit what the partial match has taken so far, by all the functions given to the step.
//   - ThenNot: a record that fits, comes after the step before it is complete and is not taken itself ends the partial match. If an Optional step before the ThenNot is still to come,
//     the match may only go on through that step. Where on a ThenNot lets only those count that fit what was taken.
//
// # Time
//
// Within(d) is how long after its first record a match may last: all records that it takes, or that a ThenNot at its end forbids, have event times of at most d after that of the first,
// d included. Whether the time is over is decided by the stream time of the node itself: the largest event time among the records that it has taken, of all keys of the task. Like every node's, it is committed,
// and survives restarts and moves. When a record raises stream time, first all partial matches of all keys whose time is over by then are ended, those that wait for a ThenNot at
// the end as matches, in the order of the ends of their time, then of the encoded keys, then of their beginning; only then is the record itself looked at. So the same
// input gives the same results in the same order, however often it is read.
//
//	A, ThenNot B within 10         A@0 B@10: nothing, as 10 is inside
//	                               A@0 B@11: match, sent when B@11 comes, with the time 10
//	                               A@0 X@5 B@3: nothing: B comes late, but its time is not over
//
// While no records come, of any key, stream time stands still and nothing is decided, unless kolk.Config.CloseIdle lets it go on.
//
// A record that is older than stream time by more than d is late: no match that it could begin may still end, and all that could take it began after it. It is dropped, counted under
// "late". OnDrop applies. Records that are less late are taken in their turn.
//
// # After a match
//
// A match of one key gives up the partial ones that began before its end, that is before or with its last record: matches share no records, and a record that completes one begins none.
// If a record completes several, the oldest is the match. With Overlap nothing is given up: every partial match goes on to its own end.
//
//	A, then B                      A1 A2 B1 B2: (A1, B1)
//	the same with Overlap          A1 A2 B1 B2: (A1, B1) (A2, B1)
//
// # Bounds
//
// A key has at most MaxPartial partial matches at a time, 100 unless set; the oldest is given up for a further one, counted under processor.Overflow. So the work for a record is at most
// MaxPartial times the number of steps, and nothing stays longer than Within of stream time.
type Pattern[V any] struct {
	steps   []step[V]
	within  time.Duration
	overlap bool
	most    int
	limited bool     // MaxPartial was called
	faults  []string // problem and remedy in turn: what was called in the wrong place
}

type step[V any] struct {
	operator.Test[V]
	not, strict, optional, repeats bool
	times                          int
}

// First begins a pattern with a record for which is is true.
func First[V any](name string, is func(V) bool) Pattern[V] {
	return Pattern[V]{}.with(step[V]{Test: operator.Test[V]{Name: name, Is: is}})
}

// Then wants a later record for which is is true. Others may lie between.
func (p Pattern[V]) Then(name string, is func(V) bool) Pattern[V] {
	return p.with(step[V]{Test: operator.Test[V]{Name: name, Is: is}})
}

// Next wants that the very next record of the key is one for which is is true; any other ends the partial match.
func (p Pattern[V]) Next(name string, is func(V) bool) Pattern[V] {
	return p.with(step[V]{Test: operator.Test[V]{Name: name, Is: is}, strict: true})
}

// ThenNot wants that no record for which is is true comes between the steps around it or, at the end, before the time is over: the match is then sent when stream time
// passes it.
func (p Pattern[V]) ThenNot(name string, is func(V) bool) Pattern[V] {
	return p.with(step[V]{Test: operator.Test[V]{Name: name, Is: is}, not: true})
}

// Times wants the last step n times or more; after Next, without others between.
func (p Pattern[V]) Times(n int) Pattern[V] {
	return p.change(fmt.Sprintf("Times(%d)", n), func(s *step[V]) { s.times, s.repeats = n, true })
}

// Optional lets the last step be missing: a record that fits the step after it is taken too. The first and the last step cannot be optional.
func (p Pattern[V]) Optional() Pattern[V] {
	return p.change("Optional", func(s *step[V]) { s.optional = true })
}

// Where wants for the last step that the records so far and the new one fit together. For the first step's first record sofar is empty. It is valid during the call only.
func (p Pattern[V]) Where(fits func(sofar Match[V], v V) bool) Pattern[V] {
	if fits == nil {
		return p.wrong("a Where has no function", "give one, or leave Where out")
	}
	return p.change("Where", func(s *step[V]) {
		s.Where = append(slices.Clone(s.Where), func(m operator.Match[V], v V) bool { return fits(Match[V]{m}, v) })
	})
}

// Within is how long after its first record a match may end, in whole milliseconds of event time, at least one.
func (p Pattern[V]) Within(d time.Duration) Pattern[V] {
	p.within = d
	return p
}

// Overlap lets matches of one key share records. Unless set, a match gives up the partial ones that began before its end.
func (p Pattern[V]) Overlap() Pattern[V] {
	p.overlap = true
	return p
}

// MaxPartial is how many partial matches one key may have at a time, at least 1; 100 unless set. The oldest is given up for a further one, counted under "overflow"; OnDrop does not
// apply to it.
func (p Pattern[V]) MaxPartial(n int) Pattern[V] {
	p.most, p.limited = n, true
	return p
}

func (p Pattern[V]) with(s step[V]) Pattern[V] {
	p.steps = append(slices.Clone(p.steps), s)
	return p
}

func (p Pattern[V]) change(method string, f func(*step[V])) Pattern[V] {
	if len(p.steps) == 0 {
		return p.wrong(method+" comes before any step", "begin the pattern with topology.First")
	}
	p.steps = slices.Clone(p.steps)
	f(&p.steps[len(p.steps)-1])
	return p
}

func (p Pattern[V]) wrong(problem, remedy string) Pattern[V] {
	p.faults = append(slices.Clone(p.faults), problem, remedy)
	return p
}

// defaultMaxPartial is how many partial matches a key may have if the user says nothing.
const defaultMaxPartial = 100

// sought is the pattern as the operator takes it. What is wrong with it is a fault at n.
func (p Pattern[V]) sought(n *node) (out *operator.Sought[V], ok bool) {
	ok = true
	fault := func(problem, remedy string) {
		ok = false
		n.fault(problem, remedy)
	}
	for i := 0; i < len(p.faults); i += 2 {
		fault(p.faults[i], p.faults[i+1])
	}
	out = &operator.Sought[V]{Within: p.within.Milliseconds(), Overlap: p.overlap, MaxPartial: defaultMaxPartial}
	switch {
	case p.within == 0:
		fault("the pattern has no Within", "say how long after its first record a match may end; it bounds the state")
	case p.within < time.Millisecond:
		fault(fmt.Sprintf("the pattern is to end within %v", p.within), "give Within at least one millisecond")
	}
	if p.limited {
		if out.MaxPartial = p.most; p.most < 1 {
			fault(fmt.Sprintf("MaxPartial(%d) leaves no room for a partial match", p.most), "give at least 1, or leave MaxPartial out for 100")
		}
	}
	if len(p.steps) == 0 {
		if len(p.faults) == 0 {
			fault("the pattern has no steps", "begin it with topology.First")
		}
		return out, false
	}
	for i, s := range p.steps {
		if problem := badName(s.Name); problem != "" {
			fault("a step of the pattern: "+problem, nameRemedy)
		}
		for _, other := range p.steps[:i] {
			if other.Name == s.Name {
				fault(fmt.Sprintf("two steps are named %q", s.Name), "give each step a name of its own")
			}
		}
		if s.Is == nil {
			fault(fmt.Sprintf("step %q has no function", s.Name), "give one that says which records fit")
		}
		if s.repeats && s.times < 1 {
			fault(fmt.Sprintf("step %q is wanted %d times", s.Name, s.times), "give Times at least 1; for a step that may be missing use Optional")
		}
		if !s.not {
			step := operator.Step[V]{Test: s.Test, Strict: s.strict, Optional: s.optional, Repeats: s.repeats, Times: max(1, s.times)}
			step.Not, out.Not = out.Not, operator.Test[V]{}
			if s.strict && i > 0 && p.steps[i-1].not {
				fault(fmt.Sprintf("the ThenNot %q before the Next %q says nothing, as no record may lie between", p.steps[i-1].Name, s.Name), "leave it out, or use Then")
			}
			out.Steps = append(out.Steps, step)
			continue
		}
		switch {
		case i == 0:
			fault(fmt.Sprintf("the pattern begins with the ThenNot %q", s.Name), "begin it with topology.First")
		case p.steps[i-1].not:
			fault(fmt.Sprintf("the ThenNot %q follows another without a step between", s.Name), "make one of them, with a function for both")
		}
		if s.repeats {
			fault(fmt.Sprintf("the ThenNot %q has Times", s.Name), "leave Times out: one record that fits is enough to end the partial match")
		}
		if s.optional {
			fault(fmt.Sprintf("the ThenNot %q is optional", s.Name), "leave it out")
		}
		out.Not = s.Test
	}
	if first := p.steps[0]; first.optional && !first.not {
		fault(fmt.Sprintf("the first step %q is optional", first.Name), "begin with a step that is always there: time counts from its record")
	}
	if last := len(out.Steps) - 1; last > 0 && out.Steps[last].Optional {
		fault(fmt.Sprintf("the last step %q is optional", out.Steps[last].Name), "leave it out: the match would be complete without it")
	}
	return out, ok
}

// Match is the records that made a pattern true, or those that a partial match has so far.
type Match[V any] struct{ m operator.Match[V] }

// At is the record of the named step, the last one if it was repeated; the zero V if there is none.
func (m Match[V]) At(name string) V { return m.m.At(name) }

// Has says that the named step was taken, for optional ones.
func (m Match[V]) Has(name string) bool { return m.m.Has(name) }

// Times are the event times of the first and the last record that were taken, in order of arrival: the last may be earlier than the first. Zero if there are none.
func (m Match[V]) Times() (first, last time.Time) { return m.m.Times() }
