package kolk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/store/badgerstore"
)

// The process id names the producers: it must survive a restart, so that the restarted process ends what its predecessor left open.
func TestStateDirKeepsTheProcess(t *testing.T) {
	c := &Config{Application: "app", StateDir: t.TempDir()}
	first, err := openStateDir(c)
	if err != nil {
		t.Fatal(err)
	}
	id := first.process
	first.close()
	again, err := openStateDir(c)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if again.process != id || id == "" {
		t.Errorf("process id was %q and is %q", id, again.process)
	}
	other, err := openStateDir(&Config{Application: "other", StateDir: c.StateDir})
	if err != nil {
		t.Fatalf("another application in the same folder: %v", err)
	}
	defer other.close()
	if other.process == id {
		t.Error("two applications have one process id")
	}
}

func TestStateDirIsLocked(t *testing.T) {
	c := &Config{Application: "app", StateDir: t.TempDir()}
	first, err := openStateDir(c)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	_, err = openStateDir(c)
	if !errors.Is(err, ErrStateDir) || !errors.Is(err, badgerstore.ErrLocked) || !strings.Contains(err.Error(), filepath.Join(c.StateDir, "app")) {
		t.Errorf("second process: %v", err)
	}
}

func TestStateDirCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openStateDir(&Config{Application: "app", StateDir: file})
	if !errors.Is(err, ErrStateDir) || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

func TestReach(t *testing.T) {
	d, err := openStateDir(&Config{Application: "app", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if _, ok := d.reach("counts", 1); ok {
		t.Error("a task that was never here has state")
	}
	d.setReach("counts", 1, 42)
	if n, ok := d.reach("counts", 1); !ok || n != 42 {
		t.Errorf("reach is %d, %v", n, ok)
	}
	if err := os.WriteFile(d.taskDir("counts", 2)+".reach", []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := d.reach("counts", 2); ok {
		t.Error("junk counts as state")
	}
}

// Without a StateDir an application with nothing on disk still runs, under an id of its own.
func TestNoStateDir(t *testing.T) {
	a, err := openStateDir(&Config{Application: "app"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := openStateDir(&Config{Application: "app"})
	if err != nil {
		t.Fatal(err)
	}
	if a.process == "" || a.process == b.process {
		t.Errorf("process ids %q and %q", a.process, b.process)
	}
}
