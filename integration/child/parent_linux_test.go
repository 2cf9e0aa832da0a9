package child_test

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/kolkstreams/kolk/integration/child"
)

// A child ends with its parent even if the parent is killed. The test runs itself as that parent.
func TestEndsWithParent(t *testing.T) {
	if os.Getenv("CHILD_TEST_PARENT") != "" {
		cmd := exec.Command("sh", "-c", "echo started; exec sleep 600")
		cmd.Stdout = os.Stdout
		if _, err := child.Start(cmd); err != nil {
			t.Fatal(err)
		}
		select {} // until killed
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestEndsWithParent$")
	parent.Env = append(os.Environ(), "CHILD_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := child.Start(parent)
	if err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("first line %q, %v", line, err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The grandchild holds the pipe open until it is gone.
	if _, err := r.ReadString('\n'); err == nil {
		t.Error("the child of a killed parent still writes")
	}
}
