package java

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/integration/maven"
)

// The program compiles, and runs far enough to refuse a scenario that does not exist.
func TestBuild(t *testing.T) {
	cache, err := maven.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	command, err := Build(t.Context(), cache)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := append(command[1:], "--scenario", "nothing", "--app-id", "a", "--brokers", "127.0.0.1:1", "--state-dir", t.TempDir(), "--threads", "1",
		"--guarantee", "exactly_once", "--in", "in", "--out", "out", "--partitions", "1")
	out, err := exec.CommandContext(ctx, command[0], args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "unknown scenario nothing") {
		t.Errorf("ended with %v:\n%s", err, out)
	}
}
