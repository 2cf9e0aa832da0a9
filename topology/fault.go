package topology

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// Fault is one thing wrong with a topology.
type Fault struct {
	Node    string // name of the node, store or topic
	Problem string // what is wrong
	Remedy  string // what to do about it
	Source  string // file:line of the declaration
}

// Faults is the error of Build: everything that is wrong, in order of declaration.
type Faults []Fault

// Error lists the faults, one a line.
func (f Faults) Error() string {
	var b strings.Builder
	for i, x := range f {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %s: %s; %s", x.Source, x.Node, x.Problem, x.Remedy)
	}
	return b.String()
}

// found is a fault with the place of what it is about in the order of declaration.
type found struct {
	Fault
	at int
}

// faults collects what is wrong.
type faults []found

func (f *faults) add(at int, node, problem, remedy, source string) {
	if node == "" {
		node = "(no name)"
	}
	*f = append(*f, found{Fault{node, problem, remedy, source}, at})
}

// sorted is the faults in order of declaration, each once.
func (f faults) sorted() Faults {
	f = slices.Clone(f)
	slices.SortStableFunc(f, func(a, b found) int { return a.at - b.at })
	var out Faults
	for _, x := range f {
		if !slices.Contains(out, x.Fault) {
			out = append(out, x.Fault)
		}
	}
	return out
}

const self = "github.com/kolkstreams/kolk/topology."

// caller is file:line of the code that called this package.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, self) {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "unknown"
		}
	}
}
