package kolk

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kolkstreams/kolk/store/badgerstore"
)

// stateDir is the application's folder under Config.StateDir: a lock, the process id that survives restarts, and a folder per task.
//
//	<StateDir>/<application>/LOCK
//	<StateDir>/<application>/process
//	<StateDir>/<application>/tasks/<owner>_<partition>/       the task's store
//	<StateDir>/<application>/tasks/<owner>_<partition>.reach  how far it goes, for the assignment
//	<StateDir>/<application>/globals/<store>/                 a global table
type stateDir struct {
	path    string // empty without a StateDir
	lock    io.Closer
	process string
}

// openStateDir locks the folder and reads or makes the process id. Without a StateDir the process id lasts as long as the process.
func openStateDir(c *Config) (*stateDir, error) {
	if c.StateDir == "" {
		id, err := newProcessID()
		return &stateDir{process: id}, err
	}
	d := &stateDir{path: filepath.Join(c.StateDir, c.Application)}
	var err error
	if d.lock, err = badgerstore.Lock(d.path); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStateDir, err)
	}
	if err := os.MkdirAll(filepath.Join(d.path, "tasks"), 0o755); err != nil {
		d.close()
		return nil, fmt.Errorf("%w: create %s: %w; give a folder that this user may write", ErrStateDir, d.path, err)
	}
	if err := d.identify(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func newProcessID() (string, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make a process id: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// identify reads the process id, or makes one. It is written whole or not at all.
func (d *stateDir) identify() error {
	path := filepath.Join(d.path, "process")
	text, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(text)); err == nil && id != "" {
		d.process = id
		return nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: read %s: %w", ErrStateDir, path, err)
	}
	if d.process, err = newProcessID(); err != nil {
		return err
	}
	if err := replaceFile(path, []byte(d.process+"\n")); err != nil {
		return fmt.Errorf("%w: write %s: %w; is the disk full or read-only?", ErrStateDir, path, err)
	}
	return nil
}

func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if e := f.Sync(); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func (d *stateDir) close() {
	if d.lock != nil {
		d.lock.Close() // which unlocks
		d.lock = nil
	}
}

// taskDir is the folder of a task. It is named by what the sub-topology owns: its number may change when the graph is edited.
func (d *stateDir) taskDir(owner string, partition int32) string {
	return filepath.Join(d.path, "tasks", fmt.Sprintf("%s_%d", owner, partition))
}

// setReach notes how many changelog records a task's folder holds, for the assignment after a restart. It is a hint: what cannot be written or
// read counts as nothing.
func (d *stateDir) setReach(owner string, partition int32, reach int64) {
	if d.path == "" {
		return
	}
	// Without sync: after a crash of the machine the hint may be wrong, and a task goes where it need not.
	_ = os.WriteFile(d.taskDir(owner, partition)+".reach", []byte(strconv.FormatInt(reach, 10)), 0o644)
}

func (d *stateDir) reach(owner string, partition int32) (int64, bool) {
	if d.path == "" {
		return 0, false
	}
	text, err := os.ReadFile(d.taskDir(owner, partition) + ".reach")
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
