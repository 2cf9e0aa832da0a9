// Command total adds up test results and prints one line, "N passed, N failed". It reads the files *.json of a folder, each with the output of go test -json.
//
// What is not a plain pass is named above the total. A skipped test counts as failed, since a test that does not run proves nothing, and so does a package that
// did not compile or ended in the middle of its tests. The status is 1 if anything failed or nothing ran.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: total DIR")
		os.Exit(2)
	}
	ok, err := report(os.Stdout, os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "total:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// report writes the total of a folder and whether all is well.
func report(w io.Writer, dir string) (ok bool, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return false, err
	}
	sum := newTally()
	for _, name := range files {
		if err := sum.addFile(name); err != nil {
			return false, err
		}
	}
	passed, problems := sum.total()
	for _, p := range problems {
		fmt.Fprintln(w, p)
	}
	fmt.Fprintf(w, "%d passed, %d failed\n", passed, len(problems))
	return passed > 0 && len(problems) == 0, nil
}
