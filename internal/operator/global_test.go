package operator

import (
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/serde"
)

// A task whose process does not have the table is not made.
func TestGlobalIsOpen(t *testing.T) {
	if _, err := Global(&engine.Task{}, "palette", serde.String(), serde.String()); err == nil {
		t.Error("a global table that is not open is read")
	}
}
