package store_test

import (
	"flag"
	"io"
	"log/slog"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/badgerstore"
	"github.com/kolkstreams/kolk/store/storetest"
)

// Opening a database takes long, so there are fewer random runs than in memory.
func onDisk(t *testing.T, runs string, suite func(*testing.T, storetest.OpenBackend)) {
	checks := flag.Lookup("rapid.checks").Value.String()
	if err := flag.Set("rapid.checks", runs); err != nil {
		t.Fatal(err)
	}
	defer flag.Set("rapid.checks", checks)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	suite(t, func(dir string, _ func(string) error) (state.Backend, error) {
		return badgerstore.Open(dir, badgerstore.Config{Memory: 8 << 20, Logger: quiet})
	})
}

func TestKeyValueOnDisk(t *testing.T) { onDisk(t, "1", storetest.KeyValue) }

func TestWindowOnDisk(t *testing.T) { onDisk(t, "10", storetest.Window) }

func TestSessionOnDisk(t *testing.T) { onDisk(t, "10", storetest.Session) }
