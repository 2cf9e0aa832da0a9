package chaos

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// fleet are the instances of a run.
type fleet struct {
	run     *run
	mu      sync.Mutex
	all     []*member // that have not been removed
	starts  int
	later   sync.WaitGroup // what was put off: restarts and thaws
	failure error          // of what was put off
}

// member is an instance over its restarts. A name makes it static.
type member struct {
	*Process
	name, dir string
	busy      bool // something that was done to it is not over
}

// spec is how a member is run.
func (f *fleet) spec(m *member) Spec {
	f.starts++
	s := Spec{Brokers: f.run.Seeds, Application: f.run.Application, Job: f.run.Job, StateDir: m.dir, Guarantee: f.run.Guarantee, Workers: 2,
		Session: f.run.Session, Commit: 100 * time.Millisecond, Checkpoint: 2 * time.Second,
		Seen: filepath.Join(f.run.Dir, "seen", fmt.Sprintf("%d.seen", f.starts))}
	if f.run.Guarantee == AtLeastOnce {
		s.Commit = 500 * time.Millisecond // the default of 30 s would hide what happens between commits
	}
	if m.name == staticName {
		s.InstanceID = m.name
	}
	return s
}

// staticName is the member with a group.instance.id.
const staticName = "static"

// add starts a new instance. Without a name it gets one by its number, and the first one is static.
func (f *fleet) add(name string) (*member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name == "" {
		name = staticName
		if f.starts > 0 {
			name = fmt.Sprintf("i%d", f.starts)
		}
	}
	m := &member{name: name, dir: filepath.Join(f.run.Dir, "state", name)}
	if err := f.start(m); err != nil {
		return nil, err
	}
	f.all = append(f.all, m)
	return m, nil
}

// start runs a member; the lock is held.
func (f *fleet) start(m *member) error {
	s := f.spec(m)
	p, err := StartInstance(s, filepath.Join(f.run.Dir, "log", fmt.Sprintf("%03d-%s.log", f.starts, m.name)))
	m.Process = p
	return err
}

// restart runs a member that has ended. With blank its state is left behind.
func (f *fleet) restart(m *member, blank bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if blank {
		m.dir = filepath.Join(f.run.Dir, "state", fmt.Sprintf("%s-%d", m.name, f.starts))
	}
	m.busy = false
	return f.start(m)
}

// after does something in a while, with the member out of reach until then.
func (f *fleet) after(m *member, d time.Duration, do func() error) {
	f.mu.Lock()
	m.busy = true
	f.mu.Unlock()
	f.later.Go(func() {
		time.Sleep(d)
		err := do()
		f.mu.Lock()
		defer f.mu.Unlock()
		m.busy = false
		f.failure = errors.Join(f.failure, err)
	})
}

// free are the members to which something can be done.
func (f *fleet) free() (out []*member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.all {
		if !m.busy && m.Alive() {
			out = append(out, m)
		}
	}
	return out
}

// remove takes a member off the list.
func (f *fleet) remove(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = slices.DeleteFunc(f.all, func(o *member) bool { return o == m })
}

// unasked is an error if some instance has ended by itself, or something that was put off failed.
func (f *fleet) unasked() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := []error{f.failure}
	for _, m := range f.all {
		if err := m.Unasked(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}

// tasks is how many tasks run, in members that are not frozen or down.
func (f *fleet) tasks() (n int) {
	for _, m := range f.free() {
		n += len(m.Running())
	}
	return n
}

// errUnsettled means that tasks were not all running in time.
var errUnsettled = errors.New("chaos: not all tasks run")

// joined is whether every member that is not busy has been ready once.
func (f *fleet) joined() bool {
	return !slices.ContainsFunc(f.free(), func(m *member) bool { return !slices.ContainsFunc(m.Events(), Named("ready")) })
}

// settled returns when every task runs in one member, and every member has joined.
func (f *fleet) settled(limit time.Duration) error {
	want := f.run.job.Tasks(f.run.Partitions)
	for until := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		if err := errors.Join(f.unasked(), f.run.ctx.Err()); err != nil {
			return err
		}
		n := f.tasks()
		if n == want && f.joined() {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%w after %v: %d of %d", errUnsettled, limit, n, want)
		}
	}
}

// quit ends all members in good order.
func (f *fleet) quit() error {
	f.later.Wait()
	err := f.unasked()
	for _, m := range f.free() {
		err = errors.Join(err, m.Quit())
		f.remove(m)
	}
	return err
}

// end kills what is left. It is no error that something is.
func (f *fleet) end() error {
	f.later.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, m := range f.all {
		if m.Alive() {
			errs = append(errs, m.Signal(syscall.SIGKILL))
		}
		<-m.Done()
	}
	return errors.Join(errs...)
}
