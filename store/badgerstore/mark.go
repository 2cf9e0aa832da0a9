package badgerstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// mark is the file that says whether what is on disk can be trusted after a restart.
type mark struct {
	Format   int    `json:"format"`
	State    string `json:"state"`
	Boot     string `json:"boot,omitempty"` // of the machine, while running
	Memtable int64  `json:"memtable"`       // bytes
}

const (
	markName   = "STATE"
	markFormat = 2 // 1: no delete lingered
	running    = "RUNNING"
	clean      = "CLEAN"
)

// readMark returns nil if there is none, or none that can be read: it then is not to be trusted.
func readMark(dir string) (*mark, error) {
	b, err := os.ReadFile(filepath.Join(dir, markName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state mark in %s: %w", dir, err)
	}
	var m mark
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, nil
	}
	return &m, nil
}

// distrust says why the directory's rows are not to be used; "" if they are.
func (m *mark) distrust(boot string) string {
	switch {
	case m == nil:
		return "it has no readable mark of its state"
	case m.Format != markFormat:
		return fmt.Sprintf("its format is %d, this program knows format %d", m.Format, markFormat)
	case m.State == clean:
		return ""
	case m.State != running:
		return fmt.Sprintf("its mark says %q", m.State)
	case m.Boot == "" || boot == "":
		return "it was not closed, and it is unknown whether the machine was started anew since"
	case m.Boot != boot:
		return "it was not closed before the machine was started anew, so writes may be missing"
	}
	return ""
}

// write puts the mark on disk so that a machine crash leaves this one or the one before.
func (m mark) write(dir string) error {
	b, err := json.Marshal(m)
	if err == nil {
		err = replaceFile(dir, markName, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the state mark in %s: %w", dir, err)
	}
	return nil
}

func replaceFile(dir, name string, content []byte) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
