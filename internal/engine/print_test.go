package engine_test

import (
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
)

func TestPrintsThatDiffer(t *testing.T) {
	was := engine.Print(&state.Decl{Name: "a", Kind: "keyvalue", Key: "string", Value: "int64", TTL: 5})
	for _, c := range []struct {
		now           state.Decl
		texts, hashes string
	}{
		{state.Decl{Name: "b", Kind: "keyvalue", Key: "string", Value: "int64", Expected: 7, Version: 2}, "", ""}, // names and bounds do not count
		{state.Decl{Kind: "keyvalue", Key: "string", Value: "json"}, "value was int64 and is json", "value was something else and is json"},
		{state.Decl{Kind: "window", Key: "bytes", Value: "int64"}, "kind was keyvalue and is window, key was string and is bytes", "kind was something else and is window, key was something else and is bytes"},
	} {
		is := engine.Print(&c.now)
		if got := engine.Differ(was, engine.Hash(was), is); got != c.texts {
			t.Errorf("with texts: %q, not %q", got, c.texts)
		}
		if got := engine.Differ("", engine.Hash(was), is); got != c.hashes {
			t.Errorf("by hashes alone: %q, not %q", got, c.hashes)
		}
	}
}
