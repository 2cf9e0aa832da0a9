package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/kolkstreams/kolk/integration/child"
)

// Process is an instance, or a broker, in a process of its own. Its methods may be called from several goroutines.
type Process struct {
	*child.Process
	Started time.Time

	mu      sync.Mutex
	changed chan struct{} // closed with each event
	events  []Event
	running map[string]bool // its tasks that run
	ending  bool            // its end was asked for
}

// StartInstance runs this program again, as an instance. What it logs is appended to the file log.
func StartInstance(s Spec, log string) (*Process, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("start an instance: %w", err)
	}
	return startChild(log, instanceCommand, string(text))
}

func startChild(log string, args ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of a child: %w", err)
	}
	defer f.Close() // the child has its own copy
	p := &Process{Started: time.Now(), changed: make(chan struct{}), running: make(map[string]bool)}
	cmd := exec.Command(self, args...)
	cmd.Stderr = f
	cmd.Stdout = &lines{to: p.take}
	p.Process, err = child.Start(cmd)
	return p, err
}

// lines cuts what is written into lines.
type lines struct {
	to   func([]byte)
	rest []byte
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(b), nil
		}
		l.to(line)
		l.rest = rest
	}
}

var _ io.Writer = (*lines)(nil)

func (p *Process) take(line []byte) {
	var e Event
	if json.Unmarshal(line, &e) != nil {
		return // a panic of the child, say; it ends it, which is seen elsewhere
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Event == "task" {
		if e.State == "running" {
			p.running[e.Task] = true
		} else {
			delete(p.running, e.Task)
		}
	}
	p.events = append(p.events, e)
	close(p.changed)
	p.changed = make(chan struct{})
}

// Running are the tasks that the instance runs.
func (p *Process) Running() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.running))
}

// Events are those that the instance has told so far.
func (p *Process) Events() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// ErrNoEvent means that an event did not come in time.
var ErrNoEvent = errors.New("chaos: event did not come")

// Await returns the first event that fits, among those told already and those to come.
func (p *Process) Await(limit time.Duration, fits func(Event) bool) (Event, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		p.mu.Lock()
		changed := p.changed
		at := slices.IndexFunc(p.events, fits)
		p.mu.Unlock()
		if at >= 0 {
			return p.Events()[at], nil
		}
		select {
		case <-changed:
		case <-p.Done():
			if at := slices.IndexFunc(p.Events(), fits); at >= 0 {
				return p.Events()[at], nil
			}
			return Event{}, fmt.Errorf("%w: process %d has ended", ErrNoEvent, p.Pid())
		case <-timer.C:
			return Event{}, fmt.Errorf("%w within %v from process %d", ErrNoEvent, limit, p.Pid())
		}
	}
}

// Named fits events of a name.
func Named(name string) func(Event) bool { return func(e Event) bool { return e.Event == name } }

// Alive is whether the process runs, or is frozen.
func (p *Process) Alive() bool {
	select {
	case <-p.Done():
		return false
	default:
		return true
	}
}

// expect notes that the process's end is asked for.
func (p *Process) expect() {
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
}

// Kill ends the process at once, as a crash does.
func (p *Process) Kill() error {
	p.expect()
	return p.Process.Kill()
}

// Quit ends the process in good order.
func (p *Process) Quit() error {
	p.expect()
	if err := p.Stop(syscall.SIGTERM, time.Minute); err != nil {
		return err
	}
	if err := p.Err(); err != nil {
		return fmt.Errorf("process %d ended badly: %w: %s", p.Pid(), err, p.failure())
	}
	return nil
}

// failure is what a failed instance has said.
func (p *Process) failure() string {
	for _, e := range p.Events() {
		if e.Event == "failed" {
			return e.Error
		}
	}
	return "it said nothing"
}

// Unasked is an error if the process has ended without being told to.
func (p *Process) Unasked() error {
	p.mu.Lock()
	ending := p.ending
	p.mu.Unlock()
	if p.Alive() || ending {
		return nil
	}
	return fmt.Errorf("process %d ended by itself (%v): %s", p.Pid(), p.Err(), p.failure())
}

// StartFake runs this program again, as an in-process broker of its own, and returns its address.
func StartFake(dir, log string) (*Process, string, error) {
	p, err := startChild(log, brokerCommand, dir)
	if err != nil {
		return nil, "", err
	}
	e, err := p.Await(time.Minute, Named("listening"))
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("start a broker: %w", err), p.Kill())
	}
	return p, e.Address, nil
}
