package parity

import (
	"bytes"
	"compress/gzip"
	"encoding/json/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestKafkaStreams(t *testing.T) {
	vectors, err := Vectors()
	if err != nil {
		t.Fatal(err)
	}
	families, err := Run(vectors)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Print(&out, families, 3); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	t.Logf("\n%s", out.String())
}

// copied is the cases of a family of ours.
func copied(t *testing.T, family string) (cases []Case) {
	t.Helper()
	vectors, err := Vectors()
	if err != nil {
		t.Fatal(err)
	}
	if err := read(vectors, family, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// Each kind of difference is found.
func TestDifferences(t *testing.T) {
	pick := func() Case {
		for _, c := range copied(t, "flow") {
			if len(c.Output) > 3 && len(c.Stores["agg-store"]) > 0 {
				return c
			}
		}
		t.Fatal("no case has what the test wants")
		return Case{}
	}
	for name, change := range map[string]func(*Case){
		"output":                   func(c *Case) { c.Output[1].Time++ },
		"is missing":               func(c *Case) { c.Output = append(c.Output, c.Output[0]) },
		"record 0":                 func(c *Case) { c.Output[0].Value = nil },
		"changelog of agg-store":   func(c *Case) { c.Changelog["app-agg-store-changelog"] = c.Changelog["app-agg-store-changelog"][1:] },
		"changelog of b-store":     func(c *Case) { c.Changelog["app-b-store-changelog"][0].In++ },
		"internal topic":           func(c *Case) { c.Changelog["app-agg-store-repartition"][0].Key = nil },
		"store agg-store":          func(c *Case) { c.Stores["agg-store"][0].Time++ },
		"records dropped":          func(c *Case) { c.Dropped["0_0"]++ },
		"not supported yet":        func(c *Case) { c.Topology = append(c.Topology, Node{ID: "x", Op: "teleport"}) },
		`function "lower" is not`:  func(c *Case) { c.Topology = append(c.Topology, Node{ID: "x", Op: "selectKey", From: "s", Fn: "lower"}) },
		"no store other-store":     func(c *Case) { c.Stores["other-store"] = nil },
		"predicate \"odd\" is not": func(c *Case) { c.Topology = append(c.Topology, Node{ID: "x", Op: "filter", From: "s", Fn: "odd"}) },
	} {
		c := pick()
		if err := c.Run(); err != nil {
			t.Fatalf("%s without a change: %v", c.ID, err)
		}
		change(&c)
		if err := c.Run(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOtherVectors(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KOLK_PARITY", dir)
	vectors, err := Vectors()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(vectors); err == nil {
		t.Error("an empty directory passes")
	}
	t.Setenv("KOLK_PARITY", filepath.Join(dir, "nowhere"))
	if _, err := Vectors(); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stateless.json.gz"), []byte("no gzip"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(vectors); err == nil || !strings.Contains(err.Error(), "stateless.json.gz") {
		t.Errorf("error %v", err)
	}
	raw, err := json.Marshal([]Case{{ID: "mine", Topology: []Node{{ID: "s", Op: "stream", Topics: []string{"in"}}, {Op: "to", From: "s", Topic: "out"}}}})
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stateless.json.gz"), zipped.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	families, err := Run(vectors)
	if err != nil || len(families) != 1 || families[0].Passed != 1 {
		t.Errorf("%+v, %v", families, err)
	}
}

func TestPrint(t *testing.T) {
	t.Setenv("KOLK_PARITY", "")
	var good []Family
	for _, name := range Required {
		good = append(good, Family{Name: name, Passed: 2, Total: 2})
	}
	var out bytes.Buffer
	if err := Print(&out, append(slices.Clone(good), Family{Name: "more", Total: 3, Unsupported: 3}), 1); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(out.String(), "stateless 2/2\n") || !strings.HasSuffix(out.String(), "more 0/3  (3 of operators that are not there yet)\n") {
		t.Errorf("printed\n%s", out.String())
	}
	if err := Print(&out, good[1:], 1); err == nil || !strings.Contains(err.Error(), "stateless") {
		t.Errorf("a family that is not there: %v", err)
	}
	t.Setenv("KOLK_PARITY", t.TempDir())
	if err := Print(&out, good[1:], 1); err != nil {
		t.Errorf("a family that other vectors do not have: %v", err)
	}
	out.Reset()
	good[2].Passed, good[2].Failures = 0, []Failure{{"a", "x"}, {"b", "y"}}
	if err := Print(&out, good, 1); err == nil || !strings.Contains(err.Error(), "table") || !strings.Contains(out.String(), "  a: x\n  and 1 more\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
