package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/integration/chaos"
)

func TestMain(m *testing.M) {
	chaos.Child()
	os.Exit(m.Run())
}

// What is wrong in the flags is said before anything is started.
func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-kinds", "nonsense"}, {"-faults", "many"}, {"-nodes"}} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), args[0][1:]) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := run(t.Context(), []string{"-h"}); err != nil {
		t.Errorf("help: %v", err)
	}
}

// A job that does not exist ends as a failure that names it, and leaves the folder that it was told to keep.
func TestUnknownJob(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	err := run(t.Context(), []string{"-fake", "-job", "nonsense", "-faults", "0", "-keep", dir})
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}
