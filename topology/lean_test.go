package topology_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Guards against programs that take half a minute to compile: a method without a type parameter of its own once brought windows, sessions
// and buffers along for every pair of types, 2,900 functions for each.
func TestProgramsCompileWhatTheyUse(t *testing.T) {
	run := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, args...).Output()
		if err != nil {
			t.Fatalf("%s %v: %v", name, args, err)
		}
		return strings.TrimSpace(string(out))
	}
	archive := run("go", "list", "-export", "-f", "{{.Export}}", "./testdata/lean")
	functions := make(map[string]int)
	for line := range strings.Lines(run("go", "tool", "nm", archive)) {
		if f := strings.SplitN(strings.TrimSpace(line), " ", 3); len(f) == 3 && (f[1] == "T" || f[1] == "t") {
			name, _, _ := strings.Cut(f[2], "[")
			functions[strings.TrimPrefix(name, "github.com/kolkstreams/kolk/")]++
			if strings.Contains(name, "store.(*keyValue") && strings.Contains(f[2], "lean.order") {
				t.Errorf("a store of orders is compiled, and only counts are kept: %s", f[2])
			}
		}
	}
	if functions["topology.Stream"] == 0 || functions["store.(*keyValue"] == 0 {
		t.Fatalf("what it uses is not there: %v", functions)
	}
	for _, part := range []string{"topology.WindowTable", "internal/operator.(*suppressor", "store.(*windows", "store.(*sessions", "store.(*timed", "store.windowView", "store.sessionView"} {
		if n := functions[part]; n > 0 {
			t.Errorf("%d functions of %s are compiled, which it does not use", n, part)
		}
	}
}
