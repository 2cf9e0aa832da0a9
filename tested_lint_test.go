package kolk_test

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// substance is from how many lines of code on a file needs a test.
	substance = 60
	// wiring is how long the file of a command's main function may be without one.
	wiring = 120
)

// code counts the lines of a file that hold more than comments.
func (s source) code() int {
	lines := map[int]bool{}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.CommentGroup:
			return false
		case *ast.File:
			return true
		}
		lines[s.set.Position(n.Pos()).Line] = true
		lines[s.set.Position(n.End()).Line] = true
		return true
	})
	return len(lines)
}

// decides is whether a file has code that can go wrong: a branch or a loop. Declarations, constants and plain accessors have none.
func (s source) decides() bool {
	found := false
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			found = true
		}
		return !found
	})
	return found
}

// suite is whether the file belongs to a package that exists for other packages' tests, such as storetest.
func (s source) suite() bool { return strings.HasSuffix(s.dir(), "test") }

// imports is whether the file imports the package in a folder of this repository.
func (s source) imports(dir string) bool {
	return slices.ContainsFunc(s.ast.Imports, func(i *ast.ImportSpec) bool { return strings.Trim(i.Path.Value, `"`) == module+"/"+dir })
}

// fronts are packages that nothing but one other calls, which is how they are run: the operators of the DSL are tested through its methods.
var fronts = map[string]string{"internal/operator": "topology"}

// testersOf are the files that test the package in a folder: its test files and the suites that those import. A suite is tested by whoever imports it in a test.
func testersOf(all []source, dir string, suite bool) (files []source) {
	for _, s := range all {
		if s.test() && (s.dir() == dir || s.dir() == fronts[dir] || (suite && s.imports(dir))) {
			files = append(files, s)
		}
	}
	for _, s := range all {
		if s.suite() && s.dir() != dir && slices.ContainsFunc(files, func(f source) bool { return f.dir() == dir && f.imports(s.dir()) }) {
			files = append(files, s)
		}
	}
	return files
}

// untested are files of substance that have no test. A file x.go is tested by x_test.go or x_something_test.go beside it, or if at least half of its
// functions can be reached, by name, from the files that test its package. In a suite, which shows little of itself, it is enough that somebody runs it.
func untested(all []source) (paths []string) {
	reached := map[string]map[string]bool{} // names, by folder
	for _, s := range all {
		if s.test() || s.generated() || !s.decides() || s.code() < substance || (s.declares("main") && s.code() < wiring) {
			continue
		}
		base := strings.TrimSuffix(filepath.Base(s.path), ".go")
		testers := testersOf(all, s.dir(), s.suite())
		if slices.ContainsFunc(testers, func(f source) bool {
			name := filepath.Base(f.path)
			return (f.test() && f.dir() == s.dir() && (name == base+"_test.go" || strings.HasPrefix(name, base+"_"))) || (s.suite() && f.imports(s.dir()))
		}) {
			continue
		}
		if reached[s.dir()] == nil {
			reached[s.dir()] = reach(all, s.dir(), testers)
		}
		functions, found := 0, 0
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				functions++
				if reached[s.dir()][f.Name.Name] {
					found++
				}
			}
		}
		if 2*found < functions {
			paths = append(paths, s.path)
		}
	}
	return paths
}

// reach are the names that a package's tests use, and those that what they name uses in turn.
func reach(all []source, dir string, testers []source) map[string]bool {
	uses := map[string][]map[string]bool{} // of the package's declarations, by name: things of one name count as one
	for _, s := range all {
		if (s.dir() != dir && s.dir() != fronts[dir]) || s.test() {
			continue
		}
		for _, d := range s.ast.Decls {
			for _, name := range declared(d) {
				uses[name] = append(uses[name], names(d))
			}
		}
	}
	found := map[string]bool{}
	var visit func(used map[string]bool)
	visit = func(used map[string]bool) {
		for name := range used {
			if found[name] || uses[name] == nil {
				continue
			}
			found[name] = true
			for _, u := range uses[name] {
				visit(u)
			}
		}
	}
	for _, f := range testers {
		visit(names(f.ast))
	}
	return found
}

// declared are the names of a declaration.
func declared(d ast.Decl) (all []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		all = append(all, d.Name.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				all = append(all, spec.Name.Name)
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					all = append(all, n.Name)
				}
			}
		}
	}
	return all
}

// declares is whether a file declares a name.
func (s source) declares(name string) bool {
	return slices.ContainsFunc(s.ast.Decls, func(d ast.Decl) bool { return slices.Contains(declared(d), name) })
}

// names are all identifiers below a node.
func names(n ast.Node) map[string]bool {
	all := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			all[id.Name] = true
		}
		return true
	})
	return all
}

func TestEveryFileOfSubstanceIsTested(t *testing.T) {
	for _, path := range untested(sources(t)) {
		t.Errorf("%s is tested by nothing: write a test file beside it", path)
	}
}

func TestUntested(t *testing.T) {
	long := "package p\n\n// Do does.\nfunc Do(n int) {\n\tif n > 0 {\n\t\treturn\n\t}\n" + strings.Repeat("\tn++\n", substance) + "}\n"
	suite := "package ptest\n\nfunc Run() { Do() }\n"
	for _, c := range []struct {
		name  string
		tests map[string]string
		want  int
	}{
		{"nothing", nil, 1},
		{"a test by name", map[string]string{"p/do_test.go": "package p"}, 0},
		{"a test that uses it", map[string]string{"p/other_test.go": "package p\n\nvar _ = Do"}, 0},
		{"a test that gets there", map[string]string{"p/other_test.go": "package p\n\nvar _ = Start", "p/start.go": "package p\n\nfunc Start() { Do(1) }"}, 0},
		{"a test of something else", map[string]string{"p/other_test.go": "package p\n\nvar _ = Other"}, 1},
		{"a test elsewhere", map[string]string{"q/do_test.go": "package q\n\nvar _ = Do"}, 1},
		{"a suite", map[string]string{"p/other_test.go": "package p\n\nimport \"" + module + "/ptest\"\n", "ptest/run.go": suite}, 0},
		{"a suite nobody runs", map[string]string{"ptest/run.go": suite}, 1},
	} {
		all := []source{parsed(t, "p/do.go", long)}
		for path, text := range c.tests {
			all = append(all, parsed(t, path, text))
		}
		if got := untested(all); len(got) != c.want {
			t.Errorf("%s: untested %v, want %d", c.name, got, c.want)
		}
	}
}
