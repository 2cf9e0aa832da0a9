//go:build linux || darwin

package badgerstore

import (
	"errors"
	"os"
	"syscall"
)

// flock takes the file's lock, or says that another has it. The kernel lets it go when the process ends, however it ends.
func flock(f *os.File) (ok bool, err error) {
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// freeBytes is what an ordinary user may still write to the file system of dir.
func freeBytes(dir string) (int64, error) {
	var st syscall.Statfs_t
	for {
		err := syscall.Statfs(dir, &st)
		if err == nil {
			return int64(st.Bavail) * int64(st.Bsize), nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return 0, err
		}
	}
}
