package kolk_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kolkstreams/kolk"

// rule says which packages of this module a package may import, in its production code and, further ones, in its tests.
type rule struct{ production, tests string }

// everyStore is what a test that opens real stores needs.
const everyStore = "store/memstore store/badgerstore store/storetest "

// public are the packages that users see, by which examples in the documentation are written.
const public = "serde window store processor topology topology/topologytest "

// rules has every package of the library. The root is ".".
var rules = map[string]rule{
	"internal/seal":         {},
	"internal/state":        {},
	"internal/span":         {production: "internal/state"},
	"internal/bloom":        {production: "internal/state"},
	"internal/seen":         {production: "internal/state internal/bloom", tests: everyStore},
	"internal/engine":       {production: "internal/state", tests: "store/memstore"},
	"serde":                 {tests: public},
	"serde/avro":            {production: "serde"},
	"serde/protobuf":        {production: "serde"},
	"window":                {production: "serde internal/span", tests: public},
	"store":                 {production: "serde window internal/seal internal/span internal/state internal/bloom", tests: public + everyStore},
	"store/memstore":        {production: "internal/state", tests: "store/storetest"},
	"store/badgerstore":     {production: "internal/state", tests: "store/storetest store/memstore"},
	"store/storetest":       {production: "serde window store internal/span internal/state", tests: everyStore},
	"processor":             {production: "serde window store internal/engine", tests: public + everyStore + "internal/state"},
	"internal/operator":     {production: "serde window store processor internal/span internal/state internal/engine internal/seen", tests: everyStore},
	"topology":              {production: "serde window store processor internal/seal internal/span internal/state internal/engine internal/operator", tests: public + everyStore},
	"topology/topologytest": {production: "serde window store processor topology store/memstore internal/state internal/engine internal/span", tests: everyStore},
	"changelog":             {production: "serde store internal/state", tests: everyStore},
	"exactlyonce":           {},
	"rebalance":             {},
	".": {
		production: "serde window store store/badgerstore store/memstore processor topology changelog exactlyonce rebalance internal/state internal/engine",
		tests:      "store/storetest topology/topologytest",
	},
	"cmd/kolk": {production: ". serde window store processor topology changelog exactlyonce rebalance", tests: "topology/topologytest"},
}

// foreign says who may import a module of somebody else, in production code and, further ones, in tests. "*" is everybody.
var foreign = map[string]rule{
	"github.com/twmb/franz-go":           {production: ". changelog exactlyonce rebalance cmd/kolk"},
	"github.com/twmb/franz-go/pkg/kfake": {tests: ". changelog exactlyonce rebalance cmd/kolk"},
	"github.com/dgraph-io":               {production: "store/badgerstore"},
	"github.com/tidwall/btree":           {production: "store store/memstore internal/state"},
	"github.com/cespare/xxhash":          {production: "store store/memstore store/badgerstore internal/state"},
	"github.com/linkedin/goavro":         {production: "serde/avro"},
	"google.golang.org/protobuf":         {production: "serde/protobuf"},
	"github.com/google/go-cmp":           {production: "store/storetest", tests: "*"},
	"pgregory.net/rapid":                 {production: "store/storetest", tests: "*"},
}

// listed is what go list tells of a package.
type listed struct {
	name              string // below the module, "." for the root
	production, tests []string
}

// list asks go list for the packages of the module in dir. It goes on where a package does not compile.
func list(t *testing.T, dir string) (all []listed) {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-f", `{{.ImportPath}}|{{join .Imports " "}}|{{join .TestImports " "}} {{join .XTestImports " "}}`, "./...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list in %s: %v", dir, err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		all = append(all, listed{short(f[0]), strings.Fields(f[1]), strings.Fields(f[2])})
	}
	return all
}

// short is an import path below the module, or the path itself if it is not of this module.
func short(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// permits is whether one of the lists has the package.
func permits(name string, lists ...string) bool {
	return slices.ContainsFunc(lists, func(l string) bool { return l == "*" || slices.Contains(strings.Fields(l), name) })
}

// objection is why a package may not import another, or nothing. The rules are those of the design: who may see whom, and who may know of Kafka and of Badger.
func objection(name, imported string, test bool) string {
	if imported == module || strings.HasPrefix(imported, module+"/") {
		r := rules[name]
		switch in := short(imported); {
		case in == name && test: // a test of the package from outside
		case permits(in, r.production), test && permits(in, r.tests):
		default:
			return in
		}
		return ""
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	// The longest entry decides: kfake is a part of franz-go with a rule of its own.
	for prefix := imported; prefix != "."; prefix = path.Dir(prefix) {
		r, known := foreign[prefix]
		switch {
		case !known:
			continue
		case permits(name, r.production), test && permits(name, r.tests):
			return ""
		}
		return imported
	}
	return imported + " (in no table; a new dependency of the library needs a reason)"
}

func TestImports(t *testing.T) {
	for _, p := range list(t, ".") {
		if _, known := rules[p.name]; !known {
			t.Errorf("package %s has no rule: say in this table whom it may import", p.name)
			continue
		}
		for _, in := range p.production {
			if o := objection(p.name, in, false); o != "" {
				t.Errorf("%s imports %s", p.name, o)
			}
		}
		for _, in := range p.tests {
			if o := objection(p.name, in, true); o != "" {
				t.Errorf("a test of %s imports %s", p.name, o)
			}
		}
	}
}

// Examples are what users copy: they see what users see.
func TestExamplesImportPublicPackages(t *testing.T) {
	if _, err := os.Stat("examples/go.mod"); errors.Is(err, fs.ErrNotExist) {
		return // before the first example
	}
	for _, p := range list(t, "examples") {
		for _, in := range slices.Concat(p.production, p.tests) {
			if strings.HasPrefix(in, module+"/internal/") {
				t.Errorf("%s imports %s", p.name, short(in))
			}
		}
	}
}

func TestObjections(t *testing.T) {
	for _, c := range []struct {
		name, imported string
		test, allowed  bool
	}{
		{"topology", module + "/store", false, true},
		{"topology", module, false, false},
		{"store", module + "/topology", false, false},
		{"store", module + "/store/memstore", true, true},
		{"store", module + "/store", true, true},
		{"topology", "github.com/twmb/franz-go/pkg/kgo", false, false},
		{"topology", "github.com/twmb/franz-go/pkg/kgo", true, false},
		{"rebalance", "github.com/twmb/franz-go/pkg/kmsg", false, true},
		{"rebalance", "github.com/twmb/franz-go/pkg/kfake", false, false},
		{"rebalance", "github.com/twmb/franz-go/pkg/kfake", true, true},
		{"store/badgerstore", "github.com/dgraph-io/badger/v4/y", false, true},
		{".", "github.com/dgraph-io/badger/v4", false, false},
		{"serde", "encoding/json/v2", false, true},
		{"serde", "pgregory.net/rapid", true, true},
		{"serde", "pgregory.net/rapid", false, false},
		{".", "example.org/unheard/of", false, false},
	} {
		if o := objection(c.name, c.imported, c.test); (o == "") != c.allowed {
			t.Errorf("%s imports %s (test: %v): objection %q, want allowed %v", c.name, c.imported, c.test, o, c.allowed)
		}
	}
}
