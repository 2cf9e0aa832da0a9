package examples

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What the README shows must be what compiles and is tested: the program of the first page as it is, everything else as a part of an example.
func TestReadmeShowsExamples(t *testing.T) {
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(read(t, "../README.md"), -1)
	if len(blocks) == 0 || blocks[0][1] != read(t, "wordcount/main.go") {
		t.Error("README.md does not begin with examples/wordcount/main.go: copy it there")
	}
	var sources strings.Builder
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".go" {
			sources.WriteString(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if !strings.Contains(sources.String(), b[1]) {
			t.Errorf("README.md shows what is in no example:\n%s", b[1])
		}
	}
}

func TestReadmeHasEveryConfigField(t *testing.T) {
	readme := read(t, "../README.md")
	for f := range reflect.TypeFor[kolk.Config]().Fields() {
		if !regexp.MustCompile("(?m)^\\|.*`" + f.Name + "`.*\\|.*\\|").MatchString(readme) {
			t.Errorf("the table of README.md has no %s", f.Name)
		}
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(read(t, "../README.md"), -1) {
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(m[1]))); errors.Is(err, fs.ErrNotExist) {
			t.Errorf("README.md links to %s, which is not there", m[1])
		}
	}
}

// Nobody finds an example that is on no list.
func TestReadmeListsExamples(t *testing.T) {
	programs, err := filepath.Glob("*/main.go")
	if err != nil || len(programs) < 12 {
		t.Fatalf("%d examples, %v", len(programs), err)
	}
	readme := read(t, "../README.md")
	for _, p := range programs {
		if link := "(examples/" + filepath.Dir(p) + ")"; !strings.Contains(readme, link) {
			t.Errorf("README.md has no link %s", link)
		}
	}
}
