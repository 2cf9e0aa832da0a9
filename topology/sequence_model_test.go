package topology_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kolkstreams/kolk/topology"
)

// A spec is a pattern over values such as "ab7": a record fits a step if its value has the first letter of the step's name.
type spec struct {
	steps   []specStep
	within  int64
	overlap bool
	most    int
}

type specStep struct {
	name                                  string
	not, strict, optional, repeats, where bool
	times                                 int
}

// parseSpec reads "first a*2; then b?; not n; next c^; within 10; overlap; max 3". A ^ is a Where: the digit in the value is larger than those of all that was taken.
func parseSpec(text string) (p spec, err error) {
	p.most = 100
	for part := range strings.SplitSeq(text, ";") {
		verb, arg, _ := strings.Cut(strings.TrimSpace(part), " ")
		s := specStep{times: 1}
		switch verb {
		case "within":
			_, err = fmt.Sscan(arg, &p.within)
		case "max":
			_, err = fmt.Sscan(arg, &p.most)
		case "overlap":
			p.overlap = true
		case "first", "then", "next", "not":
			s.not, s.strict = verb == "not", verb == "next"
			arg, s.where = strings.CutSuffix(arg, "^")
			arg, s.optional = strings.CutSuffix(arg, "?")
			if s.name, arg, s.repeats = strings.Cut(arg, "*"); s.repeats {
				_, err = fmt.Sscan(arg, &s.times)
			}
			p.steps = append(p.steps, s)
		default:
			err = fmt.Errorf("%q is no part of a pattern", part)
		}
		if err != nil {
			return p, fmt.Errorf("pattern %q: %w", text, err)
		}
	}
	return p, nil
}

// String writes what parseSpec reads.
func (p spec) String() string {
	var out []string
	for i, s := range p.steps {
		text := "then "
		switch {
		case i == 0:
			text = "first "
		case s.not:
			text = "not "
		case s.strict:
			text = "next "
		}
		text += s.name
		if s.repeats {
			text += fmt.Sprint("*", s.times)
		}
		if s.optional {
			text += "?"
		}
		if s.where {
			text += "^"
		}
		out = append(out, text)
	}
	out = append(out, fmt.Sprint("within ", p.within))
	if p.overlap {
		out = append(out, "overlap")
	}
	return strings.Join(append(out, fmt.Sprint("max ", p.most)), "; ")
}

func (s specStep) fits(v string) bool { return strings.Contains(v, s.name[:1]) }

// digit is the one digit of a value, 0 if it has none.
func digit(v string) byte {
	if i := strings.IndexAny(v, "0123456789"); i >= 0 {
		return v[i] - '0'
	}
	return 0
}

// larger is the Where of all specs; at is how to look up what a step has taken.
func (p spec) larger(at func(string) (string, bool), v string) bool {
	for _, s := range p.steps {
		if was, ok := at(s.name); ok && digit(was) >= digit(v) {
			return false
		}
	}
	return true
}

// show is a match as text.
func (p spec) show(at func(string) (string, bool), first, last int64) string {
	var out []string
	for _, s := range p.steps {
		if v, ok := at(s.name); ok {
			out = append(out, s.name+"="+v)
		}
	}
	return fmt.Sprintf("%s %d..%d", strings.Join(out, " "), first, last)
}

func lookup(m topology.Match[string]) func(string) (string, bool) {
	return func(name string) (string, bool) { return m.At(name), m.Has(name) }
}

// pattern is the spec as a user writes it.
func (p spec) pattern() (out topology.Pattern[string]) {
	for i, s := range p.steps {
		switch {
		case i == 0:
			out = topology.First(s.name, s.fits)
		case s.not:
			out = out.ThenNot(s.name, s.fits)
		case s.strict:
			out = out.Next(s.name, s.fits)
		default:
			out = out.Then(s.name, s.fits)
		}
		if s.repeats {
			out = out.Times(s.times)
		}
		if s.optional {
			out = out.Optional()
		}
		if s.where {
			out = out.Where(func(sofar topology.Match[string], v string) bool { return p.larger(lookup(sofar), v) })
		}
	}
	if p.overlap {
		out = out.Overlap()
	}
	return out.Within(ms(p.within)).MaxPartial(p.most)
}

// event is a record of a test, and also a match: then value is its text.
type event struct {
	key, value string
	at         int64
}

func (e event) String() string { return fmt.Sprintf("%s:%s@%d", e.key, e.value, e.at) }

// naive is the documentation of Pattern as a program, for one partition. It remembers everything: a partial match is judged by looking through
// all records of the key since it began.
type naive struct {
	spec
	clock    int64
	seen     map[string][]event // by key, all that were not late
	attempts []*attempt         // of all keys, in order of beginning
	out      []event
	late     int
	overflow int
}

// attempt is a partial match: which record of the key was taken for which step, in order.
type attempt struct {
	key   string
	taken []took
}

type took struct{ step, index int }

func newNaive(p spec) *naive { return &naive{spec: p, clock: -1, seen: map[string][]event{}} }

func (n *naive) event(a *attempt, i int) event { return n.seen[a.key][a.taken[i].index] }
func (n *naive) first(a *attempt) event        { return n.event(a, 0) }
func (n *naive) end(a *attempt) int            { return a.taken[len(a.taken)-1].index }
func (n *naive) deadline(a *attempt) int64     { return n.first(a).at + n.within }

func (n *naive) at(a *attempt) func(string) (string, bool) {
	return func(name string) (v string, ok bool) {
		if a == nil {
			return "", false
		}
		for i, t := range a.taken {
			if n.steps[t.step].name == name {
				v, ok = n.event(a, i).value, true
			}
		}
		return v, ok
	}
}

// fits says whether a record fits a step, or a ThenNot, of an attempt.
func (n *naive) fits(step int, a *attempt, v string) bool {
	s := n.steps[step]
	return s.fits(v) && (!s.where || n.larger(n.at(a), v))
}

// state is the step an attempt is at, and whether that has as many records as it wants.
func (n *naive) state(a *attempt) (step int, full bool) {
	step = a.taken[len(a.taken)-1].step
	count := 0
	for _, t := range a.taken {
		if t.step == step {
			count++
		}
	}
	return step, count >= n.steps[step].times
}

// forbidden says whether one of the records after the last that was taken fits a ThenNot between two places of the pattern.
func (n *naive) forbidden(a *attempt, from, to int, records []event) bool {
	for s := from + 1; s < to; s++ {
		if n.steps[s].not && slices.ContainsFunc(records, func(e event) bool { return n.fits(s, a, e.value) }) {
			return true
		}
	}
	return false
}

// nexts are the steps that may come after one, the nearest first; the last may be the end of the pattern.
func (n *naive) nexts(step int) (out []int) {
	for s := step + 1; s < len(n.steps); s++ {
		if n.steps[s].not {
			continue
		}
		out = append(out, s)
		if !n.steps[s].optional {
			return out
		}
	}
	return append(out, len(n.steps))
}

// take is the step at which the newest record of the key is taken; -1 if it is not.
func (n *naive) take(a *attempt) int {
	all := n.seen[a.key]
	v := all[len(all)-1].value
	between := all[n.end(a)+1 : len(all)-1]
	step, full := n.state(a)
	if full {
		for _, s := range n.nexts(step) {
			if s < len(n.steps) && !(n.steps[s].strict && len(between) > 0) && !n.forbidden(a, step, s, between) && n.fits(s, a, v) {
				return s
			}
		}
	}
	if (!full || n.steps[step].repeats) && !(n.steps[step].strict && len(between) > 0) && n.fits(step, a, v) {
		return step
	}
	return -1
}

// hopeless says that an attempt which has not taken the newest record cannot be completed any more.
func (n *naive) hopeless(a *attempt) bool {
	since := n.seen[a.key][n.end(a)+1:]
	step, full := n.state(a)
	if !full {
		return n.steps[step].strict
	}
	return !slices.ContainsFunc(n.nexts(step), func(s int) bool {
		return !(s < len(n.steps) && n.steps[s].strict) && !n.forbidden(a, step, s, since)
	})
}

// complete says that an attempt has all its steps.
func (n *naive) complete(a *attempt) bool {
	step, full := n.state(a)
	return full && n.nexts(step)[0] == len(n.steps)
}

func (n *naive) remove(gone func(*attempt) bool) { n.attempts = slices.DeleteFunc(n.attempts, gone) }

// match sends a match, and gives up what it must.
func (n *naive) match(a *attempt, at int64) {
	end := n.end(a)
	n.out = append(n.out, event{a.key, n.show(n.at(a), n.first(a).at, n.event(a, len(a.taken)-1).at), at})
	n.remove(func(o *attempt) bool { return o == a || !n.overlap && o.key == a.key && o.taken[0].index <= end })
}

func (n *naive) timeOver() {
	for {
		var next *attempt
		for _, a := range n.attempts {
			if n.deadline(a) >= n.clock {
				continue
			}
			if next == nil || n.deadline(a) < n.deadline(next) || n.deadline(a) == n.deadline(next) && a.key < next.key {
				next = a
			}
		}
		switch {
		case next == nil:
			return
		case n.complete(next):
			n.match(next, n.deadline(next))
		default:
			n.remove(func(o *attempt) bool { return o == next })
		}
	}
}

func (n *naive) record(e event) {
	if e.at+n.within < n.clock {
		n.late++
		return
	}
	n.clock = max(n.clock, e.at)
	n.timeOver()
	n.seen[e.key] = append(n.seen[e.key], e)
	index := len(n.seen[e.key]) - 1
	waits := n.steps[len(n.steps)-1].not
	for _, a := range slices.Clone(n.attempts) {
		if a.key != e.key || !slices.Contains(n.attempts, a) {
			continue
		}
		if s := n.take(a); s >= 0 {
			a.taken = append(a.taken, took{s, index})
			if !waits && n.complete(a) {
				n.match(a, e.at)
				if !n.overlap {
					return
				}
			}
		} else if n.hopeless(a) {
			n.remove(func(o *attempt) bool { return o == a })
		}
	}
	if !n.fits(0, nil, e.value) {
		return
	}
	mine := 0
	for _, a := range n.attempts {
		if a.key == e.key {
			mine++
		}
	}
	if mine >= n.most {
		oldest := slices.IndexFunc(n.attempts, func(a *attempt) bool { return a.key == e.key })
		n.attempts = slices.Delete(n.attempts, oldest, oldest+1)
		n.overflow++
	}
	a := &attempt{e.key, []took{{0, index}}}
	n.attempts = append(n.attempts, a)
	if !waits && n.complete(a) {
		n.match(a, e.at)
	}
}
