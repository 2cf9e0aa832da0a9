package exactlyonce

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Guarantee is what a commit promises.
type Guarantee uint8

const (
	// ExactlyOnce ties input offsets, state changes and output together in one transaction. It is the zero value.
	ExactlyOnce Guarantee = iota
	// AtLeastOnce writes changes and output first and commits the offsets after: a crash between repeats records.
	AtLeastOnce
)

// String returns "exactly-once" or "at-least-once".
func (g Guarantee) String() string {
	if g == AtLeastOnce {
		return "at-least-once"
	}
	return "exactly-once"
}

// state is where the cycle stands.
type state uint8

const (
	idle        state = iota // between two cycles; a transaction may be open
	guarding                 // asking whether the tasks are still this member's own
	staging                  // the participant hands out its changes
	flushing                 // waiting for every acknowledgement
	joining                  // AddOffsetsToTxn
	sending                  // TxnOffsetCommit, or OffsetCommit
	awaiting                 // for a new generation, to send again
	ending                   // EndTxn that commits
	comparing                // the outcome is unknown: asking for the stable offsets
	aborting                 // EndTxn that aborts
	reopening                // a new client for the same transactional id
	applying                 // telling the participant that it is committed
	rollingBack              // telling the participant that it is not
	refused                  // stopped until the group assigns again
	dead                     // stopped for good
	opening                  // the first client
)

var stateNames = [...]string{"idle", "guarding", "staging", "flushing", "joining", "sending", "awaiting", "ending", "comparing",
	"aborting", "reopening", "applying", "rolling back", "refused", "dead", "opening"}

func (s state) String() string { return stateNames[s] }

// txnState is where the transaction stands, beside the cycle: records open it at any time, also while staging.
type txnState uint8

const (
	txnNone        txnState = iota
	txnBeginning            // in the client
	txnRegistering          // AddPartitionsToTxn
	txnOpen                 // records may be produced
)

// eventKind is what happened.
type eventKind uint8

const (
	evRecord   eventKind = iota // the first record since the last cycle is about to be produced
	evCommit                    // the caller wants to commit
	evAbort                     // the caller wants to abort
	evDone                      // the action is done
	evFailed                    // the action failed: req and err
	evOwner                     // the guard: these tasks are this member's own; identity
	evStranger                  // the guard: they are not; also while staging and flushing without a transaction
	evTimeout                   // no new generation came in time
	evDenied                    // compared: the stable offsets are not the ones sent
	evResume                    // the group has assigned again
	evOpen                      // the driver is being opened
)

// event is one input of the machine. now is read by the caller: the machine has no clock.
type event struct {
	kind     eventKind
	req      Request // of evFailed
	err      error
	now      time.Time
	offsets  int      // of evCommit: how many there are to commit
	acked    int64    // records of this transaction that the cluster has acknowledged so far
	identity Identity // of evOwner
}

// actionKind is what the caller has to do next.
type actionKind uint8

const (
	actNone       actionKind = iota // go on processing
	actBegin                        // BeginTransaction
	actRegister                     // AddPartitionsToTxn
	actGuard                        // ask for the identity
	actStage                        // Participant.Stage
	actFlush                        // wait for every acknowledgement
	actAddOffsets                   // AddOffsetsToTxn
	actTxnOffsets                   // TxnOffsetCommit
	actOffsets                      // OffsetCommit
	actAwait                        // wait until the identity has another generation
	actEndCommit                    // EndTxn, commit
	actEndAbort                     // drop what is buffered; EndTxn, abort
	actDiscard                      // drop what is buffered; there is no transaction
	actReopen                       // close the client, open another with the same id
	actCompare                      // ask for the stable offsets and compare
	actCommitted                    // Participant.Committed
	actRollback                     // Participant.Rollback
	actReturn                       // hand the outcome to the caller
)

var actionNames = [...]string{"none", "begin", "register", "guard", "stage", "flush", "add-offsets", "txn-offsets", "offsets", "await",
	"end-commit", "end-abort", "discard", "reopen", "compare", "committed", "rollback", "return"}

func (a actionKind) String() string { return actionNames[a] }

// action is one output: wait, then do.
type action struct {
	kind actionKind
	wait time.Duration
}

// Pauses before a request is sent again.
const (
	registerPause = 5 * time.Millisecond
	offsetsPause  = 10 * time.Millisecond
	comparePause  = 20 * time.Millisecond
	reopenPause   = 200 * time.Millisecond
)

// Two fencings can hit an honest worker in short order: the new owner of several tasks fences once for each. The third
// within the window, under the same membership, is another process with the same id.
const (
	fenceLimit  = 3
	fenceWindow = time.Minute
)

// machine is the commit cycle without goroutine, socket or clock. step takes what happened and answers what to do next; the
// driver does it and reports back, until the answer is actNone or actReturn.
type machine struct {
	guarantee Guarantee
	implicit  bool // transaction.version 2 and up: offsets and partitions join a transaction by themselves, epochs move on
	timeout   time.Duration

	state      state
	txn        txnState
	opened     time.Time // when the transaction began, or the first record since the last commit was produced
	registered bool      // AddPartitionsToTxn may have opened a transaction that the client does not know of
	broken     error     // beginning failed: the client is of no use
	acked      int64

	plain    bool      // this cycle commits offsets alone
	unknown  bool      // this cycle's EndTxn got no clear answer
	renew    bool      // this cycle needs a new client
	since    time.Time // since when the request in hand is being retried
	failing  time.Time // since when it answers what ends in failure
	then     Meaning   // what follows when awaiting lasts too long
	identity Identity
	fences   []time.Time
	fencedIn bool // this transaction counted a fencing

	out     Outcome
	replays int
}

// step advances the machine by one event.
func (m *machine) step(ev event) action {
	m.acked = max(m.acked, ev.acked)
	switch ev.kind {
	case evRecord:
		return m.record(ev)
	case evOpen:
		m.state = opening
		return action{kind: actReopen}
	case evCommit, evAbort:
		return m.start(ev)
	case evResume:
		if m.state == refused {
			m.state, m.fences = idle, nil
		}
		return action{}
	case evFailed:
		return m.failed(ev)
	}
	if m.txn == txnBeginning || m.txn == txnRegistering {
		return m.transactionDone()
	}
	return m.next(ev)
}

// record opens a transaction lazily.
func (m *machine) record(ev event) action {
	if m.txn != txnNone || m.broken != nil || m.state == refused || m.state == dead {
		return action{}
	}
	m.opened = ev.now
	if m.guarantee == AtLeastOnce {
		m.txn = txnOpen
		return action{}
	}
	m.txn = txnBeginning
	return action{kind: actBegin}
}

func (m *machine) transactionDone() action {
	m.since = time.Time{}
	if m.txn == txnBeginning && m.implicit {
		// The request may reach the broker even if its answer does not come back.
		m.txn, m.registered = txnRegistering, true
		return action{kind: actRegister}
	}
	m.txn = txnOpen
	return action{}
}

// start begins a cycle.
func (m *machine) start(ev event) action {
	switch m.state {
	case refused:
		return m.conclude(Refused, ErrRefused)
	case dead:
		return m.conclude(Fatal, ErrClosed)
	}
	m.plain, m.unknown, m.renew, m.since, m.failing = false, false, false, time.Time{}, time.Time{}
	m.out = Outcome{TimedOut: m.broken != nil && m.out.TimedOut}
	if ev.kind == evAbort && m.broken == nil {
		return m.undo(Aborted, nil)
	}
	if m.broken != nil {
		return m.undoBroken()
	}
	if ev.offsets == 0 {
		if m.txn != txnNone {
			return m.undo(Aborted, ErrNoOffsets)
		}
		m.out.Kind = Nothing
		return action{kind: actReturn}
	}
	m.state = guarding
	return action{kind: actGuard}
}

// undoBroken ends a cycle whose transaction could not begin.
func (m *machine) undoBroken() action {
	if errors.Is(m.broken, ErrSharedID) {
		return m.undo(Fatal, m.broken)
	}
	m.renew = true
	return m.undo(Aborted, m.broken)
}

// next is the way without errors.
func (m *machine) next(ev event) action {
	switch m.state {
	case guarding:
		if ev.kind == evStranger {
			return m.undo(Refused, ErrRefused)
		}
		if m.identity != ev.identity {
			m.identity, m.fences = ev.identity, nil
		}
		m.state = staging
		return action{kind: actStage}
	case staging:
		if ev.kind == evStranger {
			return m.undo(Refused, ErrRefused)
		}
		if m.broken != nil {
			return m.undoBroken()
		}
		if m.txn == txnNone {
			m.plain = true
			return m.send()
		}
		m.state = flushing
		return action{kind: actFlush}
	case flushing:
		if ev.kind == evStranger {
			return m.undo(Refused, ErrRefused)
		}
		if m.guarantee == AtLeastOnce {
			m.plain = true
			return m.send()
		}
		if !m.implicit {
			m.state = joining
			return action{kind: actAddOffsets}
		}
		return m.send()
	case joining:
		m.since = time.Time{}
		return m.send()
	case sending:
		if m.plain {
			return m.apply()
		}
		m.state = ending
		return action{kind: actEndCommit}
	case awaiting:
		switch ev.kind {
		case evOwner:
			m.identity, m.fences = ev.identity, nil
			return m.send()
		case evTimeout:
			return m.act(Row{Meaning: m.then}, m.out.Err)
		default:
			return m.undo(Refused, fmt.Errorf("%w: %w", ErrRefused, m.out.Err))
		}
	case ending:
		return m.apply()
	case aborting:
		return m.rollback()
	case opening:
		m.state, m.since = idle, time.Time{}
		return action{kind: actReturn}
	case reopening:
		m.out.Reopened, m.renew, m.broken, m.since = true, false, nil, time.Time{}
		if m.unknown {
			m.state = comparing
			return action{kind: actCompare}
		}
		return m.rollback()
	case comparing:
		if ev.kind == evDenied {
			return m.rollback()
		}
		return m.apply()
	case applying:
		m.state, m.replays = idle, 0
		m.closeTransaction()
		m.out.Kind = Committed
		return action{kind: actReturn}
	case rollingBack:
		return m.finish()
	}
	return action{}
}

// send commits the offsets, in the transaction or alone.
func (m *machine) send() action {
	m.state = sending
	if m.plain {
		return action{kind: actOffsets}
	}
	return action{kind: actTxnOffsets}
}

func (m *machine) apply() action {
	m.state, m.out.Err, m.out.TimedOut = applying, nil, false
	return action{kind: actCommitted}
}

func (m *machine) rollback() action {
	m.state = rollingBack
	return action{kind: actRollback}
}

// finish says how a cycle ended that did not commit.
func (m *machine) finish() action {
	m.closeTransaction()
	switch m.out.Kind {
	case Refused:
		m.state = refused
	case Fatal, Abandoned:
		m.state = dead
	default:
		m.state = idle
		m.replays++
		m.out.Replays = m.replays
	}
	return action{kind: actReturn}
}

func (m *machine) closeTransaction() {
	m.txn, m.registered, m.acked, m.opened, m.broken, m.fencedIn = txnNone, false, 0, time.Time{}, nil, false
}

// conclude answers a commit or an abort while the machine is stopped: what is dirty goes back.
func (m *machine) conclude(kind Kind, err error) action {
	m.out = Outcome{Kind: kind, Err: err}
	return m.rollback()
}

// undo ends a cycle that will not commit, as gently as the state of the client allows.
func (m *machine) undo(kind Kind, err error) action {
	m.out.Kind, m.out.Err = kind, err
	if kind == Abandoned {
		return m.rollback()
	}
	if m.renew {
		return m.reopen()
	}
	if m.txn == txnNone {
		return m.rollback()
	}
	if m.guarantee == AtLeastOnce {
		m.state = aborting
		return action{kind: actDiscard}
	}
	if m.registered && m.acked == 0 {
		// No produce succeeded, so the client may send no EndTxn, and what was registered would stay open at the broker.
		m.renew = true
		return m.reopen()
	}
	m.state = aborting
	return action{kind: actEndAbort}
}

// reopen asks for a new client. A process that stops anyway leaves that to the next one.
func (m *machine) reopen() action {
	if m.out.Kind == Fatal {
		return m.rollback()
	}
	m.state, m.since = reopening, time.Time{}
	return action{kind: actReopen}
}

// failed looks the error up and does what the table says.
func (m *machine) failed(ev event) action {
	row := Classify(ev.req, ev.err)
	if row.Meaning == Retry && m.tooLong(row, ev.now) {
		row.Meaning = row.Then
	}
	_, code := row.Err.(*kerr.Error)
	overdue := m.txn != txnNone && m.guarantee == ExactlyOnce && ev.now.Sub(m.opened) >= m.timeout
	if overdue && code && (row.Meaning == Renew || row.Meaning == Unknown) {
		m.out.TimedOut = true // our own transaction timeout, as far as can be known: nobody else took the id
	} else if row.Fenced && m.fenced(ev.now) {
		if ev.req == ReqBegin || ev.req == ReqRegister {
			return m.beginFailed(Row{Meaning: Renew}, event{err: fmt.Errorf("%w: %w", ErrSharedID, ev.err)})
		}
		// What became of the transaction does not matter to a process that stops; a new client would fence the other one.
		m.out.Kind, m.out.Err = Fatal, fmt.Errorf("%w: %w", ErrSharedID, ev.err)
		return m.rollback()
	}
	if row.Meaning == Await {
		m.then, m.state, m.out.Err = row.Then, awaiting, ev.err
		return action{kind: actAwait}
	}
	if row.Meaning == Replay && (row.Err == errAnyTransport || row.Err == errEnded) && m.guarantee == ExactlyOnce && !m.implicit && m.txn != txnNone {
		// Before transaction.version 2 an abort does not move the epoch on: a request that is still under way could
		// join the next transaction. A new client fences it.
		row.Meaning = Renew
	}
	if ev.req == ReqBegin || ev.req == ReqRegister {
		return m.beginFailed(row, ev)
	}
	return m.act(row, ev.err)
}

// tooLong says whether a request has been retried for longer than the transaction timeout. What ends in failure has a clock
// of its own, so that a long outage followed by one stale answer does not end the process.
func (m *machine) tooLong(row Row, now time.Time) bool {
	if m.since.IsZero() {
		m.since = now
	}
	if row.Then != Fail {
		m.failing = time.Time{}
		return row.Then != Retry && now.Sub(m.since) >= m.timeout
	}
	if m.failing.IsZero() {
		m.failing = now
	}
	return now.Sub(m.failing) >= m.timeout
}

// beginFailed keeps a failure to begin for the commit: whoever produces need not look.
func (m *machine) beginFailed(row Row, ev event) action {
	switch row.Meaning {
	case Retry:
		return action{kind: actRegister, wait: registerPause}
	case Skip:
		m.txn, m.since = txnOpen, time.Time{}
	default:
		m.txn, m.since, m.broken = txnOpen, time.Time{}, ev.err
	}
	return action{}
}

// fenced counts a fencing, once in a cycle, and says whether there were too many.
func (m *machine) fenced(now time.Time) bool {
	if m.fencedIn {
		return false
	}
	m.fencedIn = true
	recent := m.fences[:0]
	for _, t := range m.fences {
		if now.Sub(t) < fenceWindow {
			recent = append(recent, t)
		}
	}
	m.fences = append(recent, now)
	return len(m.fences) >= fenceLimit
}

// act carries out a meaning in the state the machine is in.
func (m *machine) act(row Row, err error) action {
	// A cycle that is being undone keeps the reason it began with.
	if m.state == opening {
		return m.openFailed(row, err)
	}
	kind, cause := Aborted, err
	if m.state == aborting || m.state == reopening || m.state == comparing {
		kind, cause = m.out.Kind, m.out.Err
	}
	switch row.Meaning {
	case Retry:
		return m.again()
	case Renew:
		m.renew = true
		return m.undo(kind, cause)
	case Unknown:
		m.unknown, m.renew = true, true
		return m.undo(Aborted, err)
	case Refuse:
		return m.undo(Refused, fmt.Errorf("%w: %w", ErrRefused, err))
	case Reject:
		return m.undo(Rejected, err)
	case Fail:
		if m.state == reopening || m.state == comparing {
			m.out.Kind, m.out.Err = Fatal, errors.Join(err, cause)
			return m.rollback()
		}
		return m.undo(Fatal, err)
	case Abandon:
		return m.undo(Abandoned, errors.Join(err, cause))
	default:
		return m.undo(kind, cause)
	}
}

// openFailed has nothing to undo: there is no participant yet.
func (m *machine) openFailed(row Row, err error) action {
	if row.Meaning == Retry {
		return m.again()
	}
	m.state, m.out = dead, Outcome{Kind: Fatal, Err: err}
	return action{kind: actReturn}
}

// again repeats the request in hand.
func (m *machine) again() action {
	switch m.state {
	case joining:
		return action{kind: actAddOffsets, wait: offsetsPause}
	case reopening, opening:
		return action{kind: actReopen, wait: reopenPause}
	case comparing:
		return action{kind: actCompare, wait: comparePause}
	default:
		a := m.send()
		a.wait = offsetsPause
		return a
	}
}
