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
func TestKeyValueOnDisk(t *testing.T) {
	checks := flag.Lookup("rapid.checks").Value.String()
	if err := flag.Set("rapid.checks", "1"); err != nil {
		t.Fatal(err)
	}
	defer flag.Set("rapid.checks", checks)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	storetest.KeyValue(t, func(dir string, _ func(string) error) (state.Backend, error) {
		return badgerstore.Open(dir, badgerstore.Config{Memory: 8 << 20, Logger: quiet})
	})
}
