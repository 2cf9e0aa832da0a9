package kolk_test

import (
	"go/ast"
	"slices"
	"testing"
)

// undocumented are the exported names of a file that carry no comment. A group of constants, variables or types may share one, and the methods of an
// unexported type need none.
func undocumented(s source) (found []string) {
	report := func(n *ast.Ident, docs ...*ast.CommentGroup) {
		if n.IsExported() && !slices.ContainsFunc(docs, func(d *ast.CommentGroup) bool { return d != nil }) {
			found = append(found, s.at(n)+": "+n.Name)
		}
	}
	for _, d := range s.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
				report(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					report(spec.Name, spec.Doc, spec.Comment, d.Doc)
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						report(n, spec.Doc, spec.Comment, d.Doc)
					}
				}
			}
		}
	}
	return found
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func TestExportedNamesAreDocumented(t *testing.T) {
	documented := map[string]bool{} // whether the package in a folder has a comment
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		documented[s.dir()] = documented[s.dir()] || s.ast.Doc != nil
		if s.command() || s.generated() {
			continue
		}
		for _, name := range undocumented(s) {
			t.Errorf("%s has no comment", name)
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no comment", dir)
		}
	}
}

func TestUndocumented(t *testing.T) {
	s := parsed(t, "p/p.go", `package p

// A and B share a comment.
const (
	A = 1
	B = 2
)

type Bare struct{}

func (Bare) Method() {}

func (*generic[T]) Method() {}

// Said is documented.
func Said() {}

var C = 3 // is documented here
`)
	if got := undocumented(s); len(got) != 2 {
		t.Errorf("undocumented %v, want Bare and its Method", got)
	}
}
