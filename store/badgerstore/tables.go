package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// checkTables looks at the ends of a database's tables before Badger does: of a table that was cut off Badger reads lengths that are none,
// and panics on a goroutine of its own, which would end the process at every start.
func checkTables(o badger.Options) error {
	f, err := os.Open(filepath.Join(o.Dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	manifest, _, err := badger.ReplayManifestFile(f, o.ExternalMagicVersion, o)
	if err != nil {
		return err
	}
	for id := range manifest.Tables {
		if err := checkTable(filepath.Join(o.Dir, fmt.Sprintf("%06d.sst", id))); err != nil {
			return err
		}
	}
	return nil
}

// checkTable checks that the lengths at a table's end fit the file: index, its length (4), checksum, its length (4).
func checkTable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	for _, what := range []string{"checksum", "index"} {
		var b [4]byte
		if end < 4 {
			return fmt.Errorf("table %s ends before its %s", path, what)
		}
		if _, err := f.ReadAt(b[:], end-4); err != nil {
			return fmt.Errorf("table %s: %w", path, err)
		}
		end -= 4 + int64(binary.BigEndian.Uint32(b[:]))
		if end < 0 {
			return fmt.Errorf("table %s of %d bytes is too short for its %s", path, info.Size(), what)
		}
	}
	return nil
}
