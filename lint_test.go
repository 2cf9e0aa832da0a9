package kolk_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// longest is how many lines a file may have; one that nears it wants to be two.
const longest = 800

// source is a Go file of any module in the repository.
type source struct {
	path  string // with slashes, from the root
	lines int
	set   *token.FileSet
	ast   *ast.File
}

func (s source) test() bool      { return strings.HasSuffix(s.path, "_test.go") }
func (s source) dir() string     { return filepath.ToSlash(filepath.Dir(s.path)) }
func (s source) command() bool   { return s.ast.Name.Name == "main" }
func (s source) generated() bool { return ast.IsGenerated(s.ast) }

// below is whether the file lies in one of the top folders.
func (s source) below(dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(s.path, d+"/") })
}

// at is where a node stands, for messages.
func (s source) at(n ast.Node) string {
	p := s.set.Position(n.Pos())
	p.Filename = s.path
	return p.String()
}

// parsed makes a source of a text.
func parsed(t *testing.T, path, text string) source {
	t.Helper()
	s := source{path: path, lines: strings.Count(text, "\n"), set: token.NewFileSet()}
	var err error
	if s.ast, err = parser.ParseFile(s.set, path, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		t.Fatal(err)
	}
	return s
}

// sources parses all files of the repository.
func sources(t *testing.T) (all []source) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || (strings.HasPrefix(d.Name(), ".") && name != ".")) {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		all = append(all, parsed(t, filepath.ToSlash(name), string(text)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestNoLongFiles(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > longest && !s.generated() {
			t.Errorf("%s has %d lines; %d is the most", s.path, s.lines, longest)
		}
	}
}

func TestNoSleepInTests(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test() {
			continue
		}
		s.calls("time", func(name string, call *ast.CallExpr) {
			if name == "Sleep" {
				t.Errorf("%s sleeps: wait for what happens, or let testing/synctest move the clock", s.at(call))
			}
		})
	}
}

// The library speaks through its logger and its results.
func TestNoPrinting(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || s.command() || s.below("examples", "cmd", "integration") {
			continue
		}
		s.calls("fmt", func(name string, call *ast.CallExpr) {
			if strings.HasPrefix(name, "Print") {
				t.Errorf("%s prints", s.at(call))
			}
		})
	}
}

// calls visits the calls of a package's functions.
func (s source) calls(pkg string, visit func(name string, call *ast.CallExpr)) {
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == pkg {
					visit(sel.Sel.Name, call)
				}
			}
		}
		return true
	})
}
