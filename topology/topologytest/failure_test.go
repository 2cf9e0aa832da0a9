package topologytest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

// recorder is a TB that ends the function that failed, as a test does.
type recorder struct {
	text     string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.text = fmt.Sprintf(format, args...)
	panic(r)
}

// fails is what f fails with.
func fails(f func(topologytest.TB)) string {
	r := new(recorder)
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		f(r)
	}()
	for _, c := range r.cleanups {
		c()
	}
	return r.text
}

func TestFailures(t *testing.T) {
	top := build(t, words)
	for _, c := range []struct {
		name string
		do   func(*topologytest.Driver)
		want string
	}{
		{"another record", func(d *topologytest.Driver) { d.Input(lines).Send("", "a"); d.Output(totals).Next("a", 2) }, "topic totals: the next record is a=1 at 2026-01-01T00:00:00.000Z, want a=2"},
		{"no record", func(d *topologytest.Driver) { d.Output(totals).Next("a", 2) }, "topic totals: there is no further record, want a=2"},
		{"not deleted", func(d *topologytest.Driver) { d.Input(lines).Send("", "a"); d.Output(totals).NextDeleted("a") }, "want a deleted"},
		{"a record too many", func(d *topologytest.Driver) { d.Input(lines).Send("", "a"); d.Output(totals).None() }, "topic totals: there is a further record, a=1"},
		{"a topic that is not read", func(d *topologytest.Driver) { d.Input(totals) }, `does not read topic "totals"`},
		{"a store that is not there", func(d *topologytest.Driver) { d.Changelog("sums") }, `no store "sums"`},
		{"another store that is not there", func(d *topologytest.Driver) {
			d.Store(store.NewKeyValue("sums", serde.String(), serde.Int64(), store.FiniteKeys(1)))
		}, `no store "sums"`},
		{"a store that was never declared", func(d *topologytest.Driver) { d.Store(store.KeyValueHandle[string, int64]{}) }, "never declared"},
		{"an abort without manual commits", func(d *topologytest.Driver) { d.Abort() }, "start the driver with ManualCommit"},
		{"a crash without manual commits", func(d *topologytest.Driver) { d.Crash() }, "start the driver with ManualCommit"},
		{"a value that cannot be decoded", func(d *topologytest.Driver) {
			d.Input(lines).Send("", "a")
			d.Output(topology.NewTopic("totals", serde.String(), serde.Int32())).Take()
		}, "decode the value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fails(func(tb topologytest.TB) { c.do(topologytest.New(tb, top)) }); !strings.Contains(got, c.want) {
				t.Errorf("failed with %q, want %q", got, c.want)
			}
		})
	}
}

func TestOptionsThatAreWrong(t *testing.T) {
	top := build(t, words)
	for _, o := range []topologytest.Option{topologytest.Partitions(0), topologytest.Partitions(1 << 40), topologytest.Topic("lines", -1)} {
		if got := fails(func(tb topologytest.TB) { topologytest.New(tb, top, o) }); !strings.Contains(got, "give a number from 1 to") {
			t.Errorf("failed with %q", got)
		}
	}
	if got := fails(func(tb topologytest.TB) { topologytest.New(tb, top, topologytest.CloseIdle(0)) }); !strings.Contains(got, "CloseIdle(0s): give at least a millisecond") {
		t.Errorf("failed with %q", got)
	}
	if got := fails(func(tb topologytest.TB) { topologytest.New(tb, nil) }); !strings.Contains(got, "there is no topology") {
		t.Errorf("failed with %q", got)
	}
}

func TestFailingCode(t *testing.T) {
	top := build(t, func(b *topology.Builder) {
		b.Stream(lines).MapValues(func(s string) string {
			if s == "bad" {
				panic("cannot do it")
			}
			return s
		}, topology.Named("upper")).To(greeting)
	})
	got := fails(func(tb topologytest.TB) {
		d := topologytest.New(tb, top)
		d.Input(lines).Send("k", "good")
		d.Input(lines).SendAt(d.At(time.Hour), "k", "bad")
	})
	for _, want := range []string{`process at "upper"`, "lines/0@1", "cannot do it"} {
		if !strings.Contains(got, want) {
			t.Errorf("failed with %q, want %q", got, want)
		}
	}
}

// After a failure a driver does nothing, also if Fatalf returns.
type quiet struct{ recorder }

func (q *quiet) Fatalf(format string, args ...any) { q.text += fmt.Sprintf(format, args...) + "\n" }

func TestDriverAfterFailure(t *testing.T) {
	q := new(quiet)
	d := topologytest.New(q, nil)
	in, out := d.Input(lines), d.Output(totals)
	in.Send("a", "b")
	in.SendBytes(nil, nil)
	in.SendNull("a")
	d.Advance(time.Hour)
	d.Commit()
	d.Abort()
	d.Crash()
	d.Restart()
	out.None()
	if d.Changelog("x") != nil || d.Records("x") != nil || d.Drops() != nil || strings.Count(q.text, "\n") != 1 {
		t.Errorf("failed with %q", q.text)
	}
	for _, c := range q.cleanups {
		c()
	}
}
