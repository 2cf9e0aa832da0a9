package badgerstore

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
)

var (
	// ErrLocked says that another process, or another Store of this one, has the directory open.
	ErrLocked = errors.New("state directory is in use")
	// ErrDiskFull says that the file system has too few free bytes for what was to be written. Nothing of it was.
	ErrDiskFull = errors.New("disk full")
	// ErrCorrupt says that the directory's content is damaged. The remedy is Wipe, and to restore from the changelog.
	ErrCorrupt = errors.New("state directory is damaged")
	// ErrClosed is the error of a Store that was closed.
	ErrClosed = errors.New("store is closed")
)

// environment are errors that say nothing about the files' content.
var environment = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT, syscall.EACCES, syscall.EPERM, syscall.EROFS}

// damage wraps an error of Badger's with ErrCorrupt, unless it came from the environment. Badger loses the chain of some, so their text
// is looked at too.
func damage(dir, doing string, err error) error {
	for _, e := range environment {
		if errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) {
			return fmt.Errorf("%s in %s: %w", doing, dir, err)
		}
	}
	return fmt.Errorf("%s in %s: %w: %w", doing, dir, ErrCorrupt, err)
}

// guarded calls f and makes a panic an error: Badger panics on some damaged files.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("badger panicked: %v", r)
		}
	}()
	return f()
}

// openDB opens a Badger database.
func openDB(o badger.Options) (db *badger.DB, err error) {
	err = guarded(func() error {
		var err error
		db, err = badger.OpenManaged(o)
		return err
	})
	return db, err
}
