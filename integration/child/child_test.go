package child_test

import (
	"bufio"
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/integration/child"
)

func TestEnds(t *testing.T) {
	p, err := child.Start(exec.Command("sh", "-c", "exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	if err, ok := errors.AsType[*exec.ExitError](p.Err()); !ok || err.ExitCode() != 3 {
		t.Fatalf("ended with %v, want status 3", p.Err())
	}
	if err := p.Kill(); err != nil {
		t.Errorf("Kill after the end: %v", err)
	}
}

func TestStop(t *testing.T) {
	p, err := child.Start(exec.Command("sleep", "600"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(syscall.SIGTERM, time.Minute); err != nil {
		t.Fatal(err)
	}
	if status := p.State().Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("ended by %v, want SIGTERM", p.State())
	}
}

func TestStopKillsWhatWillNotEnd(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo ready; exec sleep 600")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("first line %q, %v", line, err)
	}
	if err := p.Stop(syscall.SIGTERM, 10*time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf("Stop returned %v, want that it did not end", err)
	}
	if status := p.State().Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("ended by %v, want SIGKILL", p.State())
	}
}

func TestUnknownProgram(t *testing.T) {
	if _, err := child.Start(exec.Command("/no/such/program")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one that says the program does not exist", err)
	}
}
