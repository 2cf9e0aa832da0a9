package badgerstore

import (
	"io"
	"os"
)

// Lock makes dir if need be and locks it against other processes, until the result is closed or the process ends. It is for directories
// that hold several stores; each Store locks its own. ErrLocked says that somebody else has it, and names the process where known.
func Lock(dir string) (io.Closer, error) {
	f, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	return dirLock{f}, nil
}

type dirLock struct{ f *os.File }

// Close gives the lock back.
func (l dirLock) Close() error { return l.f.Close() }
