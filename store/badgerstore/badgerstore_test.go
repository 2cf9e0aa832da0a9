package badgerstore

import (
	"io"
	"log/slog"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/storetest"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// testConfig has small memtables and segments, so that few rows lead through all of Badger.
func testConfig() Config {
	return Config{memtable: 1 << 20, segmentMemtable: 1 << 20, segmentRows: 600, segmentBytes: 200 << 10, OpenSegments: 2, LoadMemory: 64 << 10, Logger: quiet,
		BootID: func() string { return "boot" }}
}

func TestBackend(t *testing.T) {
	storetest.Backend(t, func(dir string, fault func(string) error) (state.Backend, error) {
		cfg := testConfig()
		cfg.fault = fault
		return Open(dir, cfg)
	})
}

// TestBackendTinySegments gives every segment of more than three rows a database of its own.
func TestBackendTinySegments(t *testing.T) {
	storetest.Backend(t, func(dir string, fault func(string) error) (state.Backend, error) {
		cfg := testConfig()
		cfg.fault, cfg.segmentRows = fault, 4
		return Open(dir, cfg)
	})
}
