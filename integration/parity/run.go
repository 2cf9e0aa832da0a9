package parity

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

var ctx = context.Background()

func byKey(a, b Stored) int { return strings.Compare(fmt.Sprint(a.Key), fmt.Sprint(b.Key)) }

// Failure is a case that did not pass, and the first thing that differs.
type Failure struct{ Case, Problem string }

// Family is how a family of cases went. Cases of operators that are not there yet count as not passed.
type Family struct {
	Name                       string
	Passed, Total, Unsupported int
	Failures                   []Failure
}

// Run runs all families of the vectors.
func Run(vectors fs.FS) ([]Family, error) {
	names, err := Families(vectors)
	if err != nil {
		return nil, err
	}
	var out []Family
	for _, name := range names {
		f, err := RunFamily(vectors, name)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// RunFamily runs one family.
func RunFamily(vectors fs.FS, name string) (Family, error) {
	f := Family{Name: name}
	if name == "primitives" {
		total, failures, err := runPrimitives(vectors)
		f.Total, f.Failures, f.Passed = total, failures, total-len(failures)
		return f, err
	}
	var cases []Case
	if err := read(vectors, name, &cases); err != nil {
		return f, err
	}
	for i := range cases {
		f.Total++
		switch err := cases[i].Run(); {
		case err == nil:
			f.Passed++
		case errors.Is(err, errUnsupported):
			f.Unsupported++
		default:
			f.Failures = append(f.Failures, Failure{cases[i].ID, err.Error()})
		}
	}
	return f, nil
}

// Print writes a line for each family, and up to most failures of each. It returns an error if a required family did not pass as a whole. One that is
// not there counts as not passed, but not if the vectors are others than ours.
func Print(w io.Writer, families []Family, most int) error {
	missing := slices.Clone(Required)
	if others() {
		missing = slices.DeleteFunc(missing, func(name string) bool {
			return !slices.ContainsFunc(families, func(f Family) bool { return f.Name == name })
		})
	}
	for _, f := range families {
		note := ""
		if f.Unsupported > 0 {
			note = fmt.Sprintf("  (%d of operators that are not there yet)", f.Unsupported)
		}
		fmt.Fprintf(w, "%s %d/%d%s\n", f.Name, f.Passed, f.Total, note)
		for i, x := range f.Failures {
			if i == most {
				fmt.Fprintf(w, "  and %d more\n", len(f.Failures)-most)
				break
			}
			fmt.Fprintf(w, "  %s: %s\n", x.Case, x.Problem)
		}
		if f.Total > 0 && f.Passed == f.Total {
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == f.Name })
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("these families must pass as a whole and did not: %s", strings.Join(missing, ", "))
	}
	return nil
}

// Run builds the case, runs it, and compares. An error says what differs first.
func (c *Case) Run() error {
	g, top, err := build(c)
	if err != nil {
		return err
	}
	var problem error
	err = drive(top, nil, func(d *topologytest.Driver) {
		inputs := make(map[string]*topologytest.Input[string, *string])
		for _, s := range c.Input {
			if inputs[s.Topic] == nil {
				inputs[s.Topic] = d.Input(topicOf(s.Topic))
			}
			r := record{Value: s.Value, Time: time.UnixMilli(s.Time), NullKey: s.Key == nil}
			if s.Key != nil {
				r.Key = *s.Key
			}
			for _, h := range s.Headers {
				r.Headers = r.Headers.With(h[0], []byte(h[1]))
			}
			inputs[s.Topic].SendRecord(r)
		}
		problem = c.compare(g, d)
	})
	if err != nil {
		return err
	}
	return problem
}

func (c *Case) compare(g *graph, d *topologytest.Driver) error {
	for _, topic := range g.topics {
		want := slices.DeleteFunc(slices.Clone(c.Output), func(r Got) bool { return r.Topic != topic })
		if x, err := c.closes(); err != nil {
			return err
		} else if x != nil {
			if want, err = x.results(); err != nil {
				return err
			}
		}
		if err := sameRecords(d.Records(topic), want); err != nil {
			return fmt.Errorf("output %s: %w", topic, err)
		}
	}
	for name, want := range c.Changelog {
		if storeName, ok := strings.CutSuffix(strings.TrimPrefix(name, topologytest.Application+"-"), "-changelog"); ok {
			same := sameChangelog
			if history, ok := g.histories[storeName]; ok {
				same = func(got []topologytest.Raw, want []Got) error { return sameVersions(got, want, history) }
			} else if g.buffers[storeName] {
				same = sameBuffer
			}
			if err := same(d.Changelog(storeName), want); err != nil {
				return fmt.Errorf("changelog of %s: %w", storeName, err)
			}
		} else if err := sameRecords(d.Records(name), want); err != nil {
			return fmt.Errorf("internal topic %s: %w", name, err)
		}
	}
	for name, want := range c.Stores {
		read := g.stored[name]
		if read == nil {
			return fmt.Errorf("the topology has no store %s", name)
		}
		got, err := read(d)
		if err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		want = slices.Clone(want)
		slices.SortFunc(want, byKey)
		for i := range got {
			if i < len(want) && want[i].Time == -1 {
				got[i].Time = -1
			}
		}
		if !slices.EqualFunc(got, want, func(a, b Stored) bool { return reflect.DeepEqual(a, b) }) {
			return fmt.Errorf("store %s has %v, not %v", name, got, want)
		}
	}
	want := 0
	for _, n := range c.Dropped {
		want += n
	}
	if got := countedByKafkaStreams(d, g.asOf); got != want {
		return fmt.Errorf("%d records dropped, not %d", got, want)
	}
	return nil
}

// countedByKafkaStreams is the number of drops for reasons that Kafka Streams counts too. A null key on its way to a repartition topic is none, nor is a
// record of a join as of its time that would need a forgotten version.
func countedByKafkaStreams(d *topologytest.Driver, asOf map[string]bool) int {
	n := 0
	for _, x := range d.Drops(processor.NullKey, processor.NullValue, processor.Late, processor.Expired, processor.NoTime, processor.Stale) {
		forgotten := x.Reason == processor.Expired && asOf[x.Node]
		if !forgotten && !strings.Contains(x.Node, "-repartition") {
			n++
		}
	}
	return n
}

// sameRecords compares records in order.
func sameRecords(got []topologytest.Raw, want []Got) error {
	for i, g := range got {
		if i >= len(want) {
			return fmt.Errorf("a record too many: %s", show(g))
		}
		if err := sameRecord(g, want[i]); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
	}
	if len(got) < len(want) {
		return fmt.Errorf("record %d of %d is missing: in %d, key %q", len(got), len(want), want[len(got)].In, bytesOf(want[len(got)].Key))
	}
	return nil
}

func sameRecord(g topologytest.Raw, w Got) error {
	headers, err := w.headers()
	if err != nil {
		return err
	}
	if g.Input != w.In || !sameBytes(g.Key, w.Key) || !sameBytes(g.Value, w.Value) || g.Time.UnixMilli() != w.Time || fmt.Sprint(g.Headers) != fmt.Sprint(headers) {
		return fmt.Errorf("%s, not in %d, key %s, value %s, time %d, headers %v", show(g), w.In, quoted(bytesOf(w.Key)), quoted(bytesOf(w.Value)), w.Time, headers)
	}
	return nil
}

// untimed says that a record of a changelog is to get the time of its sending, as those of suppressions are. Their headers say what format they have.
func untimed(g topologytest.Raw) bool { return g.Time.UnixMilli() == -1 }

func (w Got) headers() (h processor.Headers, err error) {
	for _, x := range w.Headers {
		value, err := base64.StdEncoding.DecodeString(x[1])
		if err != nil {
			return h, fmt.Errorf("the vector's header %q: %w", x[0], err)
		}
		h = h.With(x[0], value)
	}
	return h, nil
}

// sameChangelog compares what each input left in a changelog: the last record of each key, in any order.
func sameChangelog(got []topologytest.Raw, want []Got) error {
	type place struct {
		in  int
		key string
	}
	last := make(map[place]Got)
	for _, w := range want {
		last[place{w.In, string(bytesOf(w.Key))}] = w
	}
	for _, g := range got {
		at := place{g.Input, string(g.Key)}
		w, ok := last[at]
		if !ok {
			return fmt.Errorf("a record too many: %s", show(g))
		}
		delete(last, at)
		headers, err := w.headers()
		if err != nil {
			return err
		}
		if !sameBytes(g.Value, w.Value) || !untimed(g) && g.Time.UnixMilli() != w.Time || untimed(g) && fmt.Sprint(g.Headers) != fmt.Sprint(headers) {
			return fmt.Errorf("%s, not value %s, time %d, headers %v", show(g), quoted(bytesOf(w.Value)), w.Time, headers)
		}
	}
	for at, w := range last {
		return fmt.Errorf("a record is missing: in %d, key %q, value %s", at.in, at.key, quoted(bytesOf(w.Value)))
	}
	return nil
}

func sameBytes(got []byte, want *[]byte) bool {
	return (got == nil) == (want == nil) && bytes.Equal(got, bytesOf(want))
}

func bytesOf(b *[]byte) []byte {
	if b == nil {
		return nil
	}
	return *b
}

func show(r topologytest.Raw) string {
	return fmt.Sprintf("in %d, key %s, value %s, time %d, headers %v", r.Input, quoted(r.Key), quoted(r.Value), r.Time.UnixMilli(), r.Headers)
}

func quoted(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

// stopper is a topologytest.TB outside a test: what would fail the test ends the run.
type stopper struct{ cleanups []func() }

type stopped struct{ error }

func (s *stopper) Helper()          {}
func (s *stopper) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }
func (s *stopper) Fatalf(format string, args ...any) {
	panic(stopped{fmt.Errorf(format, args...)})
}

// drive gives a driver of the topology to use.
func drive(top *topology.Topology, opts []topologytest.Option, use func(*topologytest.Driver)) (err error) {
	s := new(stopper)
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stopped:
			err = p.error
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	defer func() {
		for _, f := range s.cleanups {
			f()
		}
	}()
	use(topologytest.New(s, top, opts...))
	return nil
}
