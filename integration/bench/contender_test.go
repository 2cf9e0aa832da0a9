package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/integration/contract"
)

// script is a contender made of shell.
func script(t *testing.T, text string) contender {
	t.Helper()
	path := filepath.Join(t.TempDir(), "contender")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return contender{name: "script", command: []string{path}}
}

func TestRunAndStop(t *testing.T) {
	c := script(t, `trap 'exit 0' TERM; echo '{"event":"restored","records":3}'; echo '{"event":"running"}'; while :; do read x </dev/null; done`)
	r, err := start(c, contract.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.waitRunning(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.restored == nil || r.restored.Records != 3 {
		t.Errorf("restored %+v, want 3 records", r.restored)
	}
	if _, _, err := r.stop(); err != nil {
		t.Error(err)
	}
}

func TestRunThatFails(t *testing.T) {
	r, err := start(script(t, `echo chatter; echo no such topic >&2; exit 1`), contract.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	err = r.waitRunning(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no such topic") || !strings.Contains(err.Error(), "exit status 1") {
		t.Errorf("error %v, want the status and what it said", err)
	}
}

func TestStopThatFails(t *testing.T) {
	r, err := start(script(t, `trap 'echo cannot commit >&2; exit 4' TERM; echo '{"event":"running"}'; while :; do read x </dev/null; done`), contract.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.waitRunning(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.stop(); err == nil || !strings.Contains(err.Error(), "cannot commit") {
		t.Errorf("error %v, want what it said", err)
	}
}

func TestBuildRefuses(t *testing.T) {
	for _, c := range []struct{ names, extra []string }{
		{[]string{"nobody"}, nil},
		{nil, []string{"no-command"}},
		{nil, []string{"blank= "}},
	} {
		if _, err := build(t.Context(), t.TempDir(), c.names, c.extra); err == nil {
			t.Errorf("%v was built", c)
		}
	}
}

func TestBuildExtra(t *testing.T) {
	all, err := build(t.Context(), t.TempDir(), nil, []string{"mine=/bin/mine --fast"})
	if err != nil || len(all) != 1 || all[0].name != "mine" || len(all[0].command) != 2 || !all[0].runs(StreamJoin) {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var b tail
	for range 100 {
		if _, err := b.Write([]byte(strings.Repeat("x", 1<<12))); err != nil {
			t.Fatal(err)
		}
	}
	b.Write([]byte("the end"))
	if s := b.String(); !strings.HasSuffix(s, "the end") || len(s) > 1<<17 {
		t.Errorf("%d bytes, ending in %q", len(s), s[len(s)-10:])
	}
}
