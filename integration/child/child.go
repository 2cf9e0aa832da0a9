// Package child starts programs that do not outlive the one that started them: brokers, contenders, and the instances that a chaos run kills.
//
// On Linux the kernel kills a child when its parent ends, however that ends, so a test that is killed leaves no broker behind.
// Elsewhere only the ends that the parent knows of are covered.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a program that was started. Its methods may be called from several goroutines.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; set before done is closed
}

// Start starts cmd, which the caller has set up but for SysProcAttr.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = endsWithParent()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that forked ends, so that thread is held until the child has gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and its output has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended: nil after status 0. It waits for the end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// State is what the system knows of the ended process: status and processor time. It waits for the end.
func (p *Process) State() *os.ProcessState {
	<-p.done
	return p.cmd.ProcessState
}

// Signal sends a signal; a process that has ended already is no error.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to %s (%d): %w", sig, p.cmd.Path, p.Pid(), err)
	}
	return nil
}

// Kill ends the process at once and waits for its end.
func (p *Process) Kill() error { return p.Stop(syscall.SIGKILL, time.Minute) }

// Stop sends a signal that should end the process and waits for the end. A process still there after the limit is killed, which is an error.
func (p *Process) Stop(sig os.Signal, limit time.Duration) error {
	if err := p.Signal(sig); err != nil {
		return err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		err := fmt.Errorf("%s (%d) did not end within %v after %v", p.cmd.Path, p.Pid(), limit, sig)
		return errors.Join(err, p.Signal(syscall.SIGKILL))
	}
}
