package storetest

import (
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// Versioned checks versioned stores over a backend against a model: puts in any order, deletes, ties, puts that are too old, reads as of any time,
// commits, aborts, checkpoints, crashes, lost disks, and changelogs of which a broker has kept the last record of each key.
func Versioned(t *testing.T, open OpenBackend) {
	root := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(root, "versioned")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := &versionedWorld{t: rt, root: dir, openBackend: open, now: newVersions(), committed: newVersions(), history: rapid.SampledFrom([]int64{1, 10, 100}).Draw(rt, "history")}
		w.handle = store.NewVersioned("rows", serde.String(), serde.Bytes(), store.FiniteKeys(100), time.Duration(w.history)*time.Millisecond)
		if rapid.Bool().Draw(rt, "tight memory") {
			w.limit = 1
		}
		w.open()
		defer func() { w.backend.Close(false) }()
		for range rapid.IntRange(1, 120).Draw(rt, "operations") {
			w.step()
		}
		w.settle()
	})
}
