package topology_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with a file in testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (write it anew with -update); got:\n%s", path, got)
	}
}

type shop struct{ Name string }

var (
	words    = topology.NewTopic("words", serde.String(), serde.String())
	more     = topology.NewTopic("more", serde.String(), serde.String())
	counts   = topology.NewTopic("counts", serde.String(), serde.Int64())
	few      = store.FiniteKeys(100)
	keep     = func(_, _ string) bool { return true }
	upper    = strings.ToUpper
	byValue  = func(_, v string) string { return v }
	concat   = func(a, b string) string { return a + b }
	toShop   = func(v string) shop { return shop{v} }
	sideways = processor.NewOutput[string, int64]("side")
)

type nothing struct{}

func (nothing) Process(*processor.Context[string, string], processor.Record[string, string]) error {
	return nil
}

func none() nothing { return nothing{} }

var mistakes = []struct {
	name    string
	declare func(b *topology.Builder)
}{
	{"empty topology", func(b *topology.Builder) {}},
	{"a topic without name, and one without serde", func(b *topology.Builder) {
		b.Stream(topology.NewTopic("", serde.String(), serde.String()))
		b.Stream(topology.NewTopic[string, string]("x", serde.String(), nil))
	}},
	{"a topic with two serdes", func(b *topology.Builder) {
		b.Stream(words)
		b.Stream(topology.NewTopic("words", serde.String(), serde.Int64()))
	}},
	{"a topic with two ways of partitioning", func(b *topology.Builder) {
		b.Stream(words).To(topology.NewTopic("words", serde.String(), serde.String()).PartitionedBy(func(_, _ string, _ int) int { return 0 }))
	}},
	{"readers with other options", func(b *topology.Builder) {
		b.Stream(words)
		b.Stream(words, topology.From(topology.Latest))
	}},
	{"keys of refused types", func(b *topology.Builder) {
		s := b.Stream(words)
		s.SelectKey(func(_, _ string) *string { return nil })
		s.SelectKey(func(_, _ string) any { return nil })
		s.SelectKey(func(_, _ string) float64 { return 0 })
		s.SelectKey(func(_, _ string) chan int { return nil })
	}},
	{"no function", func(b *topology.Builder) {
		s := b.Stream(words)
		s.Filter(nil)
		s.FlatMapValues[string](nil)
		s.Split().Branch("a", nil)
		s.GroupByKey().Reduce("r", few, nil)
		s.Process[nothing]("p", nil)
		s.RepartitionBy("way", nil)
		s.ToEach(more, nil)
		b.Table("t", more, few).MapValues[string](nil)
	}},
	{"no serde", func(b *topology.Builder) {
		b.Stream(words).MapValues(toShop).Repartition("by-word")
		b.Stream(words).MapValues(toShop).GroupByKey().Reduce("shops", few, func(a, _ shop) shop { return a })
	}},
	{"a serde that is nil", func(b *topology.Builder) {
		b.Stream(words).WithKey(nil).WithValue(nil)
		b.Default[shop](nil)
	}},
	{"two defaults", func(b *topology.Builder) {
		b.Stream(words)
		b.Default(serde.JSON[shop]())
		b.Default(serde.JSON[shop]())
		b.Default(serde.Optional(serde.String()))
		b.Default(serde.Func(func(dst []byte, _ *string) ([]byte, error) { return dst, nil }, func([]byte) (*string, error) { return nil, nil }))
	}},
	{"merged streams with different serdes", func(b *topology.Builder) {
		other := serde.Func(func(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }, func(src []byte) (string, error) { return string(src), nil })
		b.Stream(words).Merge(b.Stream(topology.NewTopic("other", serde.String(), other))).Repartition("merged")
	}},
	{"a stream of another builder", func(b *topology.Builder) {
		o := topology.New()
		b.Stream(words).Merge(o.Stream(more), topology.Stream[string, string]{})
		b.Stream(words).JoinTable(topology.Table[string, string]{}, concat)
	}},
	{"names that are taken", func(b *topology.Builder) {
		s := b.Stream(words)
		s.Filter(keep, topology.Named("f"))
		s.Filter(keep, topology.Named("f"))
		s.GroupByKey().Count("c", few)
		s.GroupByKey().Count("c", few)
		s.GroupByKey().Count("d-v2", few)
		s.GroupByKey().Count("d", few, store.Version(2))
		s.Repartition("r")
		s.Repartition("r")
	}},
	{"names that are not legal", func(b *topology.Builder) {
		s := b.Stream(words)
		s.Filter(keep, topology.Named("a b"))
		s.Filter(keep, topology.Named(""))
		s.GroupByKey().Count("c/d", few)
		s.Repartition("..")
		s.Split().Branch("", keep)
		s.GroupByKey(topology.Shared(""))
	}},
	{"no bound", func(b *topology.Builder) {
		b.Stream(words).GroupByKey().Count("c", store.Bound{})
	}},
	{"bounds that mean nothing", func(b *topology.Builder) {
		b.Stream(words).GroupByKey().Count("c", store.FiniteKeys(0))
		b.Stream(words).GroupByKey().Count("d", store.TTL(-1))
	}},
	{"a changelog that would bring back what expired", func(b *topology.Builder) {
		b.Table("t", words, store.TTL(time.Hour), topology.SourceIsChangelog())
	}},
	{"a table that is not stored", func(b *topology.Builder) {
		b.Table("t", words, few).Filter(keep).Store()
	}},
	{"a table that is stored twice", func(b *topology.Builder) {
		t := b.Table("t", words, few)
		t.Stored("u")
		t.OnCommit().Stored("v")
		t.Filter(keep).Stored("w").Stored("x")
	}},
	{"a stream with new keys before a join", func(b *topology.Builder) {
		b.Stream(words).SelectKey(byValue).JoinTable(b.Table("t", more, few), concat)
	}},
	{"partitions that contradict", func(b *topology.Builder) {
		left := b.Stream(words).Repartition("left", topology.Partitions(4))
		right := b.Stream(more).Repartition("right", topology.Partitions(6)).ToTable("t", few)
		left.JoinTable(right, concat)
		left.Repartition("none", topology.Partitions(0))
	}},
	{"options", func(b *topology.Builder) {
		b.Stream(words, topology.From(topology.Ago(-time.Hour)), topology.OnError(topology.DeadLetter("")), nil)
	}},
	{"stores of a processor", func(b *topology.Builder) {
		s := b.Stream(words)
		s.Process("p", none, store.KeyValueHandle[string, string]{})
		s.Process("q", none, store.NewKeyValue("s", serde.String(), serde.String(), store.Bound{}))
		s.Process("q2", none, store.NewKeyValue("twice", serde.String(), serde.String(), few), store.NewKeyValue("twice", serde.String(), serde.String(), few))
	}},
	{"outputs of a processor", func(b *topology.Builder) {
		p := b.Stream(words).Process("p", none)
		p.Output(sideways)
		p.Output(processor.NewOutput[string, string]("side"))
		p.Output(processor.Output[string, string]{})
	}},
	{"Rest twice", func(b *topology.Builder) {
		split := b.Stream(words).Split()
		split.Rest()
		split.Rest()
	}},
	{"versions", func(b *topology.Builder) {
		b.Stream(words).GroupByKey().Count("c", few, store.Version(0))
		b.Version(0)
	}},
	{"declared after Build", func(b *topology.Builder) {
		s := b.Stream(words)
		if _, err := b.Build(); err != nil {
			panic(err)
		}
		s.Filter(keep)
		b.Version(2)
		b.Default(serde.JSON[shop]())
	}},
}

var place = regexp.MustCompile(`[^ \n]*/(\w+\.go):\d+`)

// Each kind of mistake is found, with where it is and what to do.
func TestFaults(t *testing.T) {
	var out strings.Builder
	for _, m := range mistakes {
		b := topology.New()
		m.declare(b)
		_, err := b.Build()
		faults, ok := errors.AsType[topology.Faults](err)
		if !ok {
			t.Errorf("%s: got %v", m.name, err)
			continue
		}
		fmt.Fprintf(&out, "# %s\n%s\n\n", m.name, place.ReplaceAllString(faults.Error(), "$1"))
		for _, f := range faults {
			if f.Node == "" || f.Problem == "" || f.Remedy == "" || !strings.Contains(f.Source, "fault_test.go:") {
				t.Errorf("%s: incomplete: %+v", m.name, f)
			}
		}
	}
	golden(t, "faults.txt", out.String())
}

// The lines of faults are those of the calls, in order of declaration.
func TestFaultsInOrder(t *testing.T) {
	b := topology.New()
	s := b.Stream(words)
	s.MapValues(toShop).Repartition("late") // found by Build only
	s.Filter(nil)                           // found at once
	_, err := b.Build()
	faults, _ := errors.AsType[topology.Faults](err)
	if len(faults) != 2 || !strings.Contains(faults[0].Problem, "no serde") || !strings.Contains(faults[1].Problem, "nil") {
		t.Fatalf("got %v", err)
	}
	var first, second int
	fmt.Sscanf(faults[0].Source[strings.LastIndex(faults[0].Source, ":")+1:], "%d", &first)
	fmt.Sscanf(faults[1].Source[strings.LastIndex(faults[1].Source, ":")+1:], "%d", &second)
	if second != first+1 {
		t.Errorf("lines %d and %d", first, second)
	}
	if _, again := b.Build(); again == nil || again.Error() != err.Error() {
		t.Errorf("a second Build says %v", again)
	}
}

// What is made of a zero value is nowhere, and does not panic.
func TestZeroValues(t *testing.T) {
	var s topology.Stream[string, string]
	s.Filter(keep).MapValues(upper).SelectKey(byValue).Merge(s).Repartition("x").WithKey(nil).WithValue(nil).To(words)
	s.Split().Rest().Peek(nil).GroupByKey().Count("c", few).To(counts)
	s.Process("p", none).Output(sideways).GroupBy(func(string, int64) string { return "" }).Reduce("r", few, nil)
	var tab topology.Table[string, string]
	tab.Filter(keep).MapValues(upper).OnCommit().Stored("x").WithValue(nil).Stream().ToTable("y", few).GroupBy(func(k, v string) (string, string) { return k, v }).Count("z", few)
	if name := tab.Store().Name(); name != "" {
		t.Errorf("a zero table has the store %q", name)
	}
}
