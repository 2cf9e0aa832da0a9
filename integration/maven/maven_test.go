package maven

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeTools puts a java and an mvn on PATH; mvn runs the given shell script in the folder that it should build.
func fakeTools(t *testing.T, script string) {
	t.Helper()
	bin := t.TempDir()
	for name, text := range map[string]string{"java": "exit 0", "mvn": script} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// entries are the names in a folder, temporary ones too.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestBuildOncePerContent(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	fakeTools(t, "echo run >>"+runs+"; mkdir libs; cp pom.xml libs/copied.jar")
	cache := filepath.Join(t.TempDir(), "cache")
	build := func(pom string) string {
		t.Helper()
		classpath, err := Build(t.Context(), cache, "x", []byte(pom), map[string][]byte{"src/A.java": []byte("class A {}")})
		if err != nil {
			t.Fatal(err)
		}
		return classpath
	}
	first, again, other := build("one"), build("one"), build("two")
	if first != again || first == other {
		t.Errorf("class paths %q, %q and %q: want the first two alike, the third different", first, again, other)
	}
	if b, err := os.ReadFile(runs); err != nil || strings.Count(string(b), "run") != 2 {
		t.Errorf("mvn ran %q (%v), want two runs", b, err)
	}
	if names := entries(t, cache); len(names) != 2 {
		t.Errorf("the cache holds %v, want two builds and nothing left aside", names)
	}
	libs := filepath.SplitList(first)[1]
	if b, err := os.ReadFile(filepath.Join(filepath.Dir(libs), "copied.jar")); err != nil || string(b) != "one" {
		t.Errorf("jar %q, %v", b, err)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	fakeTools(t, "mkdir libs; echo no such artifact; exit 1")
	cache := t.TempDir()
	_, err := Build(t.Context(), cache, "x", []byte("pom"), nil)
	if err == nil || !strings.Contains(err.Error(), "no such artifact") {
		t.Errorf("error %v, want Maven's output in it", err)
	}
	if names := entries(t, cache); len(names) != 0 {
		t.Errorf("the cache holds %v", names)
	}
}

func TestMissingToolsSayHowToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Build(t.Context(), t.TempDir(), "x", nil, nil)
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("error %v, want ErrMissing with how to install", err)
	}
}

func TestCacheDir(t *testing.T) {
	want := t.TempDir()
	t.Setenv("KOLK_CACHE", want)
	if got, err := CacheDir(); err != nil || got != want {
		t.Errorf("with KOLK_CACHE: %q, %v", got, err)
	}
	t.Setenv("KOLK_CACHE", "")
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	if got, err := CacheDir(); err == nil || !strings.Contains(err.Error(), "KOLK_CACHE") {
		t.Errorf("without a home: %q, %v; want an error that names KOLK_CACHE", got, err)
	}
}
