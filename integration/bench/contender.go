package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kolkstreams/kolk/integration/child"
	"github.com/kolkstreams/kolk/integration/contract"
	"github.com/kolkstreams/kolk/integration/java"
)

// Contenders that the driver can build.
const (
	Kolk         = "kolk"
	Streams      = "streams"       // Kafka Streams
	Raw          = "raw"           // the ceiling, without durable state
	RawChangelog = "raw-changelog" // the ceiling, with a changelog
)

// contender is a program that follows the contract.
type contender struct {
	name      string
	command   []string
	scenarios []string // nil: all
}

func (c contender) runs(scenario string) bool {
	return c.scenarios == nil || slices.Contains(c.scenarios, scenario)
}

// build compiles the named contenders; extra are further ones, as name=command.
func build(ctx context.Context, cache string, names, extra []string) (all []contender, err error) {
	for _, name := range names {
		c := contender{name: name}
		switch name {
		case Kolk:
			c.command, err = goBuild(ctx, cache, "cmd/contender")
		case Streams:
			c.command, err = java.Build(ctx, cache)
			c.scenarios = slices.DeleteFunc(slices.Clone(scenarios), func(s string) bool { return s == Dedup })
		case Raw:
			c.command, err = goBuild(ctx, cache, "raw")
			c.scenarios = []string{Count, Start}
		case RawChangelog:
			c.command, err = goBuild(ctx, cache, "raw")
			c.command = append(c.command, "--changelog")
			c.scenarios = []string{Count, Start, Restore}
		default:
			err = fmt.Errorf("unknown contender %q; name others with -with name=command", name)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	for _, e := range extra {
		name, command, ok := strings.Cut(e, "=")
		if !ok || name == "" || strings.TrimSpace(command) == "" {
			return nil, fmt.Errorf("contender %q is not name=command", e)
		}
		all = append(all, contender{name: name, command: strings.Fields(command)})
	}
	return all, nil
}

// goBuild compiles a package of this module.
func goBuild(ctx context.Context, cache, pkg string) ([]string, error) {
	out := filepath.Join(cache, "bin", filepath.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "github.com/kolkstreams/kolk/integration/"+pkg)
	if msg, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build contender %s, from within its module: %w\n%s", pkg, err, msg)
	}
	return []string{out}, nil
}

// run is a contender that was started.
type run struct {
	*child.Process
	started  time.Time
	running  time.Time // when it said so
	restored *contract.Event
	events   chan contract.Event // closed at the end of its output
	stderr   *tail
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf.Len() > 1<<16 {
		t.buf.Next(t.buf.Len() - 1<<15)
	}
	return t.buf.Write(b)
}

// String is the end of what was written.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

func start(c contender, f contract.Flags) (*run, error) {
	r := &run{events: make(chan contract.Event, 16), stderr: &tail{}}
	cmd := exec.Command(c.command[0], append(slices.Clone(c.command[1:]), f.Args()...)...)
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, r.stderr
	r.started = time.Now()
	var err error
	if r.Process, err = child.Start(cmd); err != nil {
		return nil, err
	}
	go func() {
		<-r.Done()
		in.Close()
	}()
	go func() {
		defer close(r.events)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return // the end; half a line says nothing
			}
			var e contract.Event
			if err := json.Unmarshal(line, &e); err != nil {
				fmt.Fprintf(r.stderr, "on standard output: %s", line)
				continue
			}
			r.events <- e
		}
	}()
	return r, nil
}

// waitRunning returns when the process has said that it runs.
func (r *run) waitRunning(ctx context.Context) error {
	for {
		select {
		case e, ok := <-r.events:
			if !ok {
				return r.ended()
			}
			switch e.Event {
			case "restored":
				r.restored = &e
			case "running":
				r.running = time.Now()
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("not running: %w\n%s", ctx.Err(), r.stderr)
		}
	}
}

// ended is the error of a process that ended by itself.
func (r *run) ended() error {
	return fmt.Errorf("the process ended by itself (%v):\n%s", r.Err(), r.stderr)
}

// stop asks the process to end and returns how long that took and the processor time of its whole life.
func (r *run) stop() (took time.Duration, cpu float64, err error) {
	asked := time.Now()
	go func() {
		for range r.events { // a late event must not block it
		}
	}()
	err = r.Stop(syscall.SIGTERM, 90*time.Second)
	s := r.State()
	if code := s.ExitCode(); err == nil && code != 0 && code != 128+int(syscall.SIGTERM) { // the JVM reports the signal
		err = fmt.Errorf("ended with %v after SIGTERM:\n%s", s, r.stderr)
	}
	return time.Since(asked), (s.UserTime() + s.SystemTime()).Seconds(), err
}
