package engine

import (
	"cmp"
	"slices"
)

// When all inputs of a task are read to their ends and stay so, nothing moves stream time, and what waits for it waits on. With Env.CloseIdle the
// clock on the wall moves it then: the task's stream time, and that of each operator, go on from where they were, by as much as has passed since the
// task became idle. They do so only when something is due: a task that holds nothing back stands still.
//
// All of it is part of the next commit, like what a record does: the operators' clocks are committed anyhow, the task's is committed as one more.

// Pace is the stream time of an operator that has its own, and what the operator holds back until it has come.
type Pace struct {
	Node *Node
	// Clock is the operator's Task.Clock. While it is -1 no record has come and it stands still.
	Clock *int64
	// Due is the stream time at which the operator next has something to send or to end; the largest time if it holds nothing back. Nil means never.
	Due func() int64
	// Run does what is due at Clock. It is nil if Due is.
	Run func(r *Rec)
}

// pace is a Pace in its task.
type pace struct {
	Pace
	before []*pace // of the operators that its records come through
	passed int64   // how much of the idle time its clock has seen
	held   bool    // an operator before it held something back when the step began
}

// idle is a time without records.
type idle struct {
	since  int64 // when all inputs were found at their ends, on the clock of IdleDue; -1 while they are not
	passed int64 // how much of the time since then has moved stream time
}

// idleStep is how long stream time stands at least between two moves of the wall clock, in ms, if CloseIdle is not shorter: each asks the brokers, and ends in a commit.
const idleStep = 1000

// idleClock is the name under which the stream time that a task has reached without records is committed. No node or store has it.
const idleClock = ":idle"

// Pace registers the stream time of an operator. Build calls it.
func (t *Task) Pace(p Pace) { t.paces = append(t.paces, &pace{Pace: p}) }

// arrange brings the paces into an order in which records flow.
func (t *Task) arrange() {
	above := make(map[*pace]map[*Node]bool, len(t.paces))
	for _, p := range t.paces {
		above[p] = make(map[*Node]bool)
		p.Node.above(above[p])
	}
	slices.SortStableFunc(t.paces, func(a, b *pace) int { return cmp.Compare(len(above[a]), len(above[b])) })
	for _, p := range t.paces {
		for _, other := range t.paces {
			if other != p && other.Due != nil && above[p][other.Node] && other.Node != p.Node {
				p.before = append(p.before, other)
			}
		}
	}
}

// above adds the nodes that n's records come through.
func (n *Node) above(to map[*Node]bool) {
	if n == nil {
		return
	}
	for _, parent := range n.Parents {
		if !to[parent] {
			to[parent] = true
			parent.above(to)
		}
	}
}

// holds says whether the operator holds something back.
func (p *pace) holds() bool { return *p.Clock >= 0 && p.Due != nil && p.Due() != noTimer }

// waits says whether an operator before this one holds something back. What that will send has times of long ago: if the clock went on, it would come late.
func (p *pace) waits() bool { return slices.ContainsFunc(p.before, (*pace).holds) }

// AtEnd says that an input was found to end at an offset: an answer of the broker, and not a guess from what was fetched before.
func (t *Task) AtEnd(input int, end int64) {
	q := &t.queues[input]
	q.end = max(q.end, end)
}

// caughtUp says whether all that is known of the inputs has been processed.
func (t *Task) caughtUp() bool {
	for i := range t.queues {
		if q := &t.queues[i]; q.len() > 0 || q.started && q.position < q.end {
			return false
		}
	}
	return true
}

// IdleDue is when CloseIdle is to be called, as long as no records come: the largest time if never. now is a clock in ms that is never put forward or
// back. It is to be asked whenever the task has nothing to do: from the first time on at which it is found at the end of its inputs, it is idle. After an
// error the task must be rewound or closed.
func (t *Task) IdleDue(now int64) (due int64, err error) {
	if t.env.CloseIdle <= 0 || t.failed != nil {
		return noTimer, t.failed
	}
	defer t.caught("process", &err)
	t.pin()
	return t.idleDue(now), nil
}

func (t *Task) idleDue(now int64) int64 {
	if t.streamTime < 0 || !t.caughtUp() {
		t.idle.since = -1
		return noTimer
	}
	if t.idle.since < 0 {
		t.idle = idle{since: now}
		for _, p := range t.paces {
			p.passed = 0
		}
	}
	due := int64(noTimer)
	at := func(passed, clock, when int64) {
		if when != noTimer {
			due = min(due, saturate(passed, max(0, when-clock)))
		}
	}
	at(t.idle.passed, t.streamTime, t.due)
	for _, x := range t.expiry {
		if t.stores[x.slot].Stats().Entries > 0 {
			at(t.idle.passed, t.streamTime, x.next)
		}
	}
	for _, p := range t.paces {
		if p.holds() && !p.waits() {
			at(p.passed, *p.Clock, p.Due())
		}
	}
	if due == noTimer {
		return noTimer
	}
	if t.idle.passed > 0 {
		due = max(due, saturate(t.idle.passed, min(t.env.CloseIdle, idleStep)))
	}
	return saturate(t.idle.since, max(due, t.env.CloseIdle))
}

// CloseIdle moves stream time to where the wall clock has it at now, and does what is due then. It does nothing before IdleDue, nor if a record has come since IdleDue was
// asked: then the task is not idle since now, which may be a while ago. The caller has made sure that no input had anything to read at that time. After an error the task must be rewound or closed.
func (t *Task) CloseIdle(now int64) (did bool, err error) {
	if t.failed != nil {
		return false, t.failed
	}
	defer t.caught("process", &err)
	t.pin()
	if t.env.CloseIdle <= 0 || t.idle.since < 0 || t.idleDue(now) > now {
		return false, nil
	}
	passed := now - t.idle.since
	for _, p := range t.paces {
		p.held = p.waits() // as it is now: what is let go below has just come where it comes
	}
	t.streamTime = saturate(t.streamTime, passed-t.idle.passed)
	t.idle.passed, t.moved = passed, true
	*t.Clock(idleClock) = t.streamTime
	for _, p := range t.paces {
		by := passed - p.passed
		p.passed = passed
		if p.held || *p.Clock < 0 {
			continue
		}
		*p.Clock = saturate(*p.Clock, by)
		if p.Run != nil {
			t.timed(*p.Clock)
			p.Run(&t.rec)
		}
	}
	t.passed()
	return true, nil
}
