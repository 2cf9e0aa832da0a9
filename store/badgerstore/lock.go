package badgerstore

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const lockName = "LOCK"

// lockDir makes dir if need be and takes its lock. The lock file stays when the lock is let go: removing it would let two processes
// hold locks on two files of the same name.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("make state directory %s: %w", dir, err)
	}
	path := filepath.Join(dir, lockName)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, fmt.Errorf("state directory %s cannot be written: %w", dir, err)
		}
		ok, err := flock(f)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock state directory %s: %w", dir, err)
		}
		if !ok {
			defer f.Close()
			return nil, fmt.Errorf("%w: %s%s; give each process on a machine a state directory of its own", ErrLocked, dir, holder(f))
		}
		// Remove may have taken the file away between the open and the lock.
		mine, err1 := f.Stat()
		now, err2 := os.Stat(path)
		if err1 != nil || err2 != nil || !os.SameFile(mine, now) {
			f.Close()
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return nil, fmt.Errorf("make state directory %s: %w", dir, err)
			}
			continue
		}
		// The number is for the other's error message only.
		if err := f.Truncate(0); err == nil {
			_, err = f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
			if err != nil {
				f.Close()
				return nil, fmt.Errorf("state directory %s cannot be written: %w", dir, err)
			}
		}
		return f, nil
	}
}

func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 20))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" is held by process %d", pid)
}
