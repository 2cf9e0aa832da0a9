package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// event is one line of go test -json.
type event struct {
	Action, Package, Test string
}

// test names a test, or a package if its name is empty.
type test struct{ pkg, name string }

// tally holds the last thing heard of every test and package.
type tally struct{ last map[test]string }

func newTally() *tally { return &tally{last: map[test]string{}} }

// addFile adds the results in a file.
func (t *tally) addFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.add(f); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// add adds results. A last line that is cut off, as it is when the tests are killed, is left out.
func (t *tally) add(r io.Reader) error {
	for d := json.NewDecoder(r); ; {
		var e event
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch e.Action {
		case "start", "run", "pass", "fail", "skip":
			if e.Package != "" {
				t.last[test{e.Package, e.Test}] = e.Action
			}
		}
	}
}

// total is the number of tests that passed, and a line for each one that did not, sorted.
func (t *tally) total() (passed int, problems []string) {
	blamed := map[string]bool{} // packages with a test that explains their failure
	for k, action := range t.last {
		if k.name == "" {
			continue
		}
		switch action {
		case "pass":
			passed++
			continue
		case "run":
			action = "unfinished"
		}
		blamed[k.pkg] = true
		problems = append(problems, fmt.Sprintf("%s: %s %s", action, k.pkg, k.name))
	}
	for k := range maps.Keys(t.last) {
		if k.name != "" || blamed[k.pkg] {
			continue
		}
		switch t.last[k] {
		case "fail":
			problems = append(problems, "fail: "+k.pkg+" did not compile, or ended outside of its tests")
		case "start":
			problems = append(problems, "unfinished: "+k.pkg)
		}
	}
	slices.SortFunc(problems, strings.Compare)
	return passed, problems
}
