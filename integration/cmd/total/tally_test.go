package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const passing = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"hello\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p"}
{"Action":"start","Package":"empty"}
{"Action":"skip","Package":"empty"}
`
	for _, c := range []struct {
		name  string
		files []string
		want  string
		ok    bool
	}{
		{"passing", []string{passing}, "2 passed, 0 failed\n", true},
		{"nothing ran", nil, "0 passed, 0 failed\n", false},
		{"two modules", []string{passing, `{"Action":"pass","Package":"q","Test":"TestB"}`}, "3 passed, 0 failed\n", true},
		{"failed", []string{passing, `{"Action":"fail","Package":"q","Test":"TestB"}{"Action":"fail","Package":"q"}`},
			"fail: q TestB\n2 passed, 1 failed\n", false},
		{"skipped", []string{`{"Action":"skip","Package":"q","Test":"TestB"}{"Action":"pass","Package":"q"}`}, "skip: q TestB\n0 passed, 1 failed\n", false},
		{"did not compile", []string{passing, `{"ImportPath":"q","Action":"build-fail"}{"Action":"start","Package":"q"}{"Action":"fail","Package":"q"}`},
			"fail: q did not compile, or ended outside of its tests\n2 passed, 1 failed\n", false},
		{"killed", []string{passing, `{"Action":"start","Package":"q"}{"Action":"run","Package":"q","Test":"TestB"}{"Action":"out`},
			"unfinished: q TestB\n2 passed, 1 failed\n", false},
		{"killed before the first test", []string{passing, `{"Action":"start","Package":"q"}`}, "unfinished: q\n2 passed, 1 failed\n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for i, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".json"), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var got strings.Builder
			ok, err := report(&got, dir)
			if err != nil || ok != c.ok || got.String() != c.want {
				t.Errorf("%q, %v, %v; want %q, %v", got.String(), ok, err, c.want, c.ok)
			}
		})
	}
}

func TestReportOfDamagedResults(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.json"), []byte("no JSON"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := report(&strings.Builder{}, dir); err == nil || !strings.Contains(err.Error(), "a.json") {
		t.Errorf("error %v, want one that names the file", err)
	}
}
