package kolk

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
)

// State is where an App stands.
type State int

// The states, in the usual order. Failed and Stopped are final.
const (
	Created   State = iota
	Joining         // connecting, creating internal topics, waiting for the group
	Restoring       // some task is not restored yet; those that are run
	Running         // every task of this instance runs
	Stopping
	Stopped
	Failed
)

var stateNames = [...]string{"created", "joining", "restoring", "running", "stopping", "stopped", "failed"}

// String is the state in lower case.
func (s State) String() string { return stateNames[s] }

// TaskState is where a task stands.
type TaskState int

// The states of a task.
const (
	TaskClosed TaskState = iota
	TaskRestoring
	TaskRunning
)

var taskStateNames = [...]string{"closed", "restoring", "running"}

// String is the state in lower case.
func (s TaskState) String() string { return taskStateNames[s] }

// Health is a snapshot of how the App is doing.
type Health struct {
	State   State
	Since   time.Time
	Reason  string // why it is in this state, in words
	Err     error  // of Failed
	Ready   bool   // the group has assigned, and every task of this instance runs
	Tasks   []TaskHealth
	Globals []GlobalHealth
	Notices []Notice // what needs a look: passed bounds, stalled restores, commits that fail; none means that all is well
	Commits int64    // committed transactions, or offset commits, since the start
	Records int64    // input records processed since the start, those that were rolled back included
}

// Degraded says that the App works, but something needs a look: see Notices.
func (h Health) Degraded() bool { return len(h.Notices) > 0 }

// TaskHealth is one task's part of Health.
type TaskHealth struct {
	Task       string
	State      TaskState
	Worker     int
	Lag        int64 // offsets between what is processed and the end of the inputs, as far as it is known
	StreamTime time.Time
	ClosedIdle time.Time         // when stream time last went on without a record, by Config.CloseIdle; zero if it has not since the task was assigned
	Restores   []RestoreProgress // one per store that is or was read back, since the task was assigned
	Stores     []StoreHealth
	Dropped    map[string]int64 // dropped records by reason, since the task was assigned
	Misses     []Misses         // what joins did not find, and sessions that were cut, since the task was assigned, by node and cause
	Misplaced  []Misplaced      // inputs with keys that lie in the wrong partition
}

// Misses is how many records a join did not find anything for, or a session was cut at, for one cause: "no_row"; "row_newer", if the row is younger than the record, or an update older than the
// row; "expired", if the record is older than the table's history; "closed", if the time of a record's partners in another stream is over, which an inner join of two streams counts only for those that
// come when it is; "null_key"; "cut", if MaxLength made the record begin a session of its own. Inner joins of streams drop these records, which TaskHealth.Dropped counts too. A foreign-key join
// counts "no_row" at the node that answers subscriptions, `<name>-subscription-join-foreign`, in the task of the right side.
type Misses struct {
	Join    string // the node of the topology
	Cause   processor.Reason
	Records int64
}

// Misplaced is an input with keys that lie in another partition than its partitioner gives them: Java's hash, or the topic's PartitionedBy. They meet neither the rows of a
// join nor the other records of their key. A sample of the keys of every input of a task with state or a join is checked: its first records and then one in about a hundred. Null keys, and topics
// that kolk itself writes, are not. A notice says what to do.
type Misplaced struct {
	Topic              string
	Sampled, Elsewhere int64 // keys that were looked at, and of these those in a wrong partition, since the task was assigned
	Partition          int32 // where the first of these lies
	Offset             int64
	Key                string // that key, as text
	Wanted             int32  // where it belongs
}

// StoreHealth is one store's size and bound.
type StoreHealth struct {
	Name           string
	Entries, Bytes int64 // exact as of the last commit
	Pending        int64 // bytes of committed changes that are not on disk yet
	Expected       int64 // from the bound; 0 if none was given
}

// RestoreProgress is how far a store's restore is.
type RestoreProgress struct {
	Task, Store   string
	Topic         string
	Partition     int32
	Position, End int64
	Records       int64 // handed to the store so far
	Bytes         int64
	RecordsPerSec float64
	Left          time.Duration
	Stalled       time.Duration // since the position last moved, if that is long ago
	Done          bool
}

// Notice is one thing to look at, with the node or store and what to do.
type Notice struct{ Subject, Problem, Remedy string }

// status is what Health and WaitReady see.
type status struct {
	hooks *Hooks
	log   *slog.Logger

	mu       sync.Mutex
	changed  chan struct{} // closed at each change
	state    State
	since    time.Time
	reason   string
	err      error
	assigned bool // the group has spoken
	tasks    map[string]*taskStatus
	notices  map[string]Notice // by subject
	globals  []*globalStatus
	told     map[string]bool // topics whose keys were reported to lie elsewhere
	commits  int64
	records  int64
}

type taskStatus struct {
	TaskHealth
	restores []*storeProgress
	places   []engine.Placement
}

type storeProgress struct {
	task, store string
	p           *changelog.Progress
}

func (s *storeProgress) read() RestoreProgress {
	st := s.p.State()
	r := RestoreProgress{Task: s.task, Store: s.store, Topic: st.Topic, Partition: st.Partition, Position: st.Position, End: st.End,
		Records: st.Records, Bytes: st.Bytes, RecordsPerSec: st.Rate, Left: st.Left, Done: st.Done}
	if !st.StalledSince.IsZero() {
		r.Stalled = time.Since(st.StalledSince)
	}
	return r
}

func newStatus(hooks *Hooks, log *slog.Logger) *status {
	return &status{hooks: hooks, log: log, changed: make(chan struct{}), since: time.Now(), tasks: make(map[string]*taskStatus), notices: make(map[string]Notice), told: make(map[string]bool)}
}

// touch tells those who wait; the lock is held.
func (s *status) touch() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *status) set(to State, reason string) {
	s.mu.Lock()
	from := s.state
	if from == Failed || from == Stopped || (from == Stopping && to < Stopping) {
		s.mu.Unlock()
		return
	}
	if from != to {
		s.state, s.since = to, time.Now()
	}
	s.reason = reason
	s.touch()
	s.mu.Unlock()
	if from != to {
		s.log.Info("state changed", "from", from.String(), "to", to.String(), "reason", reason)
		s.hooks.state(from, to)
	}
}

func (s *status) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.set(Failed, err.Error())
}

// settle works the App's state out of its tasks'.
func (s *status) settle() {
	s.mu.Lock()
	restoring := 0
	for _, t := range s.tasks {
		if t.State == TaskRestoring {
			restoring++
		}
	}
	assigned := s.assigned
	total := len(s.tasks)
	s.mu.Unlock()
	switch {
	case !assigned:
		s.set(Joining, "waiting for the group to assign tasks")
	case restoring > 0:
		s.set(Restoring, plural(restoring, "task is", "tasks are")+" being restored")
	default:
		s.set(Running, plural(total, "task", "tasks")+" assigned")
	}
}

func (s *status) group(assigned bool) {
	s.mu.Lock()
	s.assigned = assigned
	s.mu.Unlock()
	s.settle()
}

func (s *status) task(id string, worker int, to TaskState) {
	s.mu.Lock()
	t := s.tasks[id]
	from := TaskClosed
	if t != nil {
		from = t.State
	}
	switch {
	case to == TaskClosed:
		delete(s.tasks, id)
	case t == nil:
		s.tasks[id] = &taskStatus{TaskHealth: TaskHealth{Task: id, State: to, Worker: worker}}
	default:
		t.State = to
	}
	s.mu.Unlock()
	if from != to {
		s.log.Info("task state changed", "task", id, "from", from.String(), "to", to.String())
		s.hooks.task(id, from, to)
	}
	s.settle()
}

// restoring adds a store whose changelog is being read.
func (s *status) restoring(task, store string) *storeProgress {
	p := &storeProgress{task: task, store: store, p: new(changelog.Progress)}
	s.mu.Lock()
	if t := s.tasks[task]; t != nil {
		t.restores = append(t.restores, p)
	}
	s.mu.Unlock()
	return p
}

// report takes over what a worker knows of a task. places are what is known of where its inputs' keys lie.
func (s *status) report(h TaskHealth, places []engine.Placement) {
	var news []engine.Placement
	s.mu.Lock()
	if t := s.tasks[h.Task]; t != nil {
		h.State, h.Worker = t.State, t.Worker
		for _, p := range places {
			if p.Elsewhere == 0 {
				continue
			}
			e := p.Example
			h.Misplaced = append(h.Misplaced, Misplaced{Topic: p.Topic, Sampled: p.Sampled, Elsewhere: p.Elsewhere, Partition: e.Partition, Offset: e.Offset, Key: e.Key, Wanted: e.Wanted})
			if !s.told[p.Topic] {
				s.told[p.Topic] = true
				news = append(news, p)
			}
		}
		t.TaskHealth, t.places = h, places
	}
	s.mu.Unlock()
	for _, p := range news { // without the key: keys are not logged
		s.log.Warn("keys lie in other partitions than they belong to; see the notice in Health", "topic", p.Topic, "partition", p.Example.Partition, "offset", p.Example.Offset, "belongs to", p.Example.Wanted, "remedy", p.Remedy())
	}
}

// misplaced are notices of topics with keys that lie elsewhere, over all tasks; the lock is held.
func (s *status) misplaced() (out []Notice) {
	topics := make(map[string]engine.Placement)
	for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
		for _, p := range s.tasks[id].places {
			if sum, ok := topics[p.Topic]; ok {
				p = sum.Add(p)
			}
			topics[p.Topic] = p
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		if p := topics[topic]; p.Elsewhere > 0 {
			out = append(out, Notice{Subject: "topic " + topic, Problem: p.Problem(), Remedy: p.Remedy()})
		}
	}
	return out
}

func (s *status) count(commits, records int64) {
	s.mu.Lock()
	s.commits += commits
	s.records += records
	s.mu.Unlock()
}

// notice sets or, with an empty problem, clears what is to be said of a subject.
func (s *status) notice(n Notice) {
	s.mu.Lock()
	old, had := s.notices[n.Subject]
	if n.Problem == "" {
		delete(s.notices, n.Subject)
	} else {
		s.notices[n.Subject] = n
	}
	s.mu.Unlock()
	switch {
	case n.Problem == "" && had:
		s.log.Info("notice cleared", "subject", n.Subject, "was", old.Problem)
	case n.Problem != "" && !had:
		s.log.Warn("notice", "subject", n.Subject, "problem", n.Problem, "remedy", n.Remedy)
	}
}

func (s *status) snapshot() (Health, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Health{State: s.state, Since: s.since, Reason: s.reason, Err: s.err, Commits: s.commits, Records: s.records}
	h.Ready = s.state == Running && s.assigned
	for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
		t := s.tasks[id]
		th := t.TaskHealth
		for _, r := range t.restores {
			p := r.read()
			th.Restores = append(th.Restores, p)
			if p.Stalled > 0 {
				h.Notices = append(h.Notices, Notice{Subject: "task " + id, Problem: "the restore of store " + p.Store + " stands still", Remedy: "look whether the changelog's leader answers, and for transactions of a dead instance"})
			}
		}
		h.Tasks = append(h.Tasks, th)
		for _, st := range th.Stores {
			h.bounded("store "+st.Name+" of task "+id, st, "declare the right number, or a TTL")
		}
	}
	for _, g := range s.globals {
		gh := g.health()
		h.Globals = append(h.Globals, gh)
		h.bounded("global table "+gh.Store.Name, gh.Store, "declare the right number")
		for _, p := range gh.Restores {
			if p.Stalled > 0 {
				h.Notices = append(h.Notices, Notice{Subject: "global table " + gh.Store.Name, Problem: fmt.Sprintf("the copy of partition %d of topic %s stands still", p.Partition, p.Topic),
					Remedy: "look whether the topic's leader answers, and for transactions that nobody ends"})
			}
		}
	}
	h.Notices = append(h.Notices, s.misplaced()...)
	for _, subject := range slices.Sorted(maps.Keys(s.notices)) {
		h.Notices = append(h.Notices, s.notices[subject])
	}
	return h, s.changed
}

// bounded notes a store with many more entries than it was declared to have.
func (h *Health) bounded(subject string, st StoreHealth, remedy string) {
	if st.Expected > 0 && st.Entries > 2*st.Expected {
		h.Notices = append(h.Notices, Notice{Subject: subject, Problem: "it holds more than twice the entries that its bound expects", Remedy: "look whether its keys grow with time; " + remedy})
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
