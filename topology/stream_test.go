package topology_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/store/memstore"
	"github.com/kolkstreams/kolk/topology"
)

// nulls is the topic "words" with null values.
var (
	nulls   = topology.NewTopic("words", serde.String(), serde.Optional(serde.String()))
	maybe   = topology.NewTopic("more", serde.String(), serde.Optional(serde.String()))
	lengths = topology.NewTopic("lengths", serde.String(), serde.Int64())
)

// Each stateless operator, with a plain record, one with a null key, and one with a null value, which stays out.
func TestStateless(t *testing.T) {
	for _, c := range []struct {
		name    string
		declare func(s topology.Stream[string, string]) topology.Stream[string, string]
		want    string
	}{
		{"Filter", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.Filter(func(k, v string) bool { return k == "" || v == "b" })
		}, "∅=null@2 k=b@3"},
		{"FilterValues", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.FilterValues(func(v string) bool { return v != "b" })
		}, "k=a@1 ∅=null@2"},
		{"FilterRecord", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.FilterRecord(func(r processor.Record[string, string]) bool { return r.NullKey || r.Time.UnixMilli() == 1 })
		}, "k=a@1 ∅=null@2"},
		{"Map", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.Map(func(k, v string) (string, string) { return v, k })
		}, "a=k@1 null=@2 b=k@3"},
		{"MapValues", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.MapValues(upper)
		}, "k=A@1 ∅=NULL@2 k=B@3"},
		{"MapWithKey", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.MapWithKey(concat)
		}, "k=ka@1 ∅=null@2 k=kb@3"},
		{"MapRecord", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.MapRecord(func(r processor.Record[string, string]) processor.Record[string, string] {
				r.NullKey, r.Time = !r.NullKey, r.Time.Add(time.Second)
				return r
			})
		}, "∅=a@1001 =null@1002 ∅=b@1003"},
		{"MapRecordValues", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.MapRecordValues(func(r processor.FixedKeyRecord[string, string]) processor.FixedKeyRecord[string, string] {
				r.Time = r.Time.Add(time.Second)
				return r.WithValue(fmt.Sprint(r.Key(), r.NullKey()))
			})
		}, "k=kfalse@1001 ∅=true@1002 k=kfalse@1003"},
		{"TryMapValues", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.TryMapValues(func(v string) (string, error) {
				if v == "null" {
					return "", errors.New("no")
				}
				return v, nil
			}, topology.OnError(topology.Skip))
		}, "k=a@1 k=b@3"},
		{"FlatMap", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.FlatMap(func(k, v string) iter.Seq2[string, string] {
				if v == "b" {
					return nil
				}
				return func(yield func(string, string) bool) { _ = yield(v, "1") && yield(v, "2") }
			})
		}, "a=1@1 a=2@1 null=1@2 null=2@2"},
		{"FlatMapValues", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.FlatMapValues(func(v string) iter.Seq[string] { return slices.Values([]string{v, v}) })
		}, "k=a@1 k=a@1 ∅=null@2 ∅=null@2 k=b@3 k=b@3"},
		{"SelectKey", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.SelectKey(byValue)
		}, "a=a@1 null=null@2 b=b@3"},
		{"Peek", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.Peek(func(k, v string) {})
		}, "k=a@1 ∅=null@2 k=b@3"},
		{"Merge", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			return s.Merge(s.MapValues(upper), s)
		}, "k=A@1 k=a@1 k=a@1 ∅=NULL@2 ∅=null@2 ∅=null@2 k=B@3 k=b@3 k=b@3"},
		{"Split", func(s topology.Stream[string, string]) topology.Stream[string, string] {
			split := s.Split()
			split.Branch("none", func(_, v string) bool { return v == "a" })
			b := split.Branch("b", func(_, v string) bool { return v == "b" || v == "a" })
			return split.Rest().MapValues(upper).Merge(b)
		}, "∅=NULL@2 k=b@3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := run(t, func(b *topology.Builder) { c.declare(b.Stream(words)).To(more) })
			w.send("words", "k=a@1", "∅=null@2", "k=b@3", "k=∅@4")
			w.wants("more", c.want)
			if last := w.drops[len(w.drops)-1]; last != "KSTREAM-SOURCE-0000000000 null_value" {
				t.Errorf("dropped %q", w.drops)
			}
		})
	}
}

// With Optional, nulls are values like others, also through a repartition topic.
func TestOptional(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		b.Stream(nulls).Repartition("r").MapValues(func(v *string) *string {
			if v == nil {
				s := "was null"
				return &s
			}
			return nil
		}).To(maybe)
	})
	w.send("words", "a=∅@1", "a=x@2")
	w.wants("app-r-repartition", "a=∅@1 a=x@2")
	w.wants("more", "a=was null@1 a=∅@2")
	w.dropped()
}

// An empty key or value is not a null one.
func TestEmpty(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		b.Stream(words).SelectKey(func(_, _ string) string { return "" }).Repartition("r").To(more)
	})
	w.send("words", "k=@1", "∅=@2")
	w.wants("more", "=@1 =@2")
	w.dropped()
}

// text that the serde would write otherwise: it decodes any number, and writes the shortest.
var loose = serde.Func(func(dst []byte, v int) ([]byte, error) { return strconv.AppendInt(dst, int64(v), 10), nil },
	func(src []byte) (int, error) { return strconv.Atoi(string(src)) })

// Keys and values that nobody touched keep their bytes, and are written anew if somebody did or if the serde is another.
func TestUntouchedBytes(t *testing.T) {
	in, out := topology.NewTopic("in", loose, loose), topology.NewTopic("out", loose, loose)
	for _, c := range []struct {
		name    string
		declare func(s topology.Stream[int, int]) topology.Stream[int, int]
		want    string
	}{
		{"nothing", func(s topology.Stream[int, int]) topology.Stream[int, int] { return s }, "01=02@1"},
		{"those that look", func(s topology.Stream[int, int]) topology.Stream[int, int] {
			split := s.Filter(func(_, _ int) bool { return true }).Peek(func(_, _ int) {}).Split()
			return split.Branch("x", func(_, _ int) bool { return false }).Merge(split.Rest())
		}, "01=02@1"},
		{"a repartition", func(s topology.Stream[int, int]) topology.Stream[int, int] { return s.Repartition("r") }, "01=02@1"},
		{"a value", func(s topology.Stream[int, int]) topology.Stream[int, int] {
			return s.MapValues(func(v int) int { return v })
		}, "01=2@1"},
		{"a key", func(s topology.Stream[int, int]) topology.Stream[int, int] {
			return s.SelectKey(func(k, _ int) int { return k })
		}, "1=02@1"},
		{"both", func(s topology.Stream[int, int]) topology.Stream[int, int] {
			return s.Map(func(k, v int) (int, int) { return k, v })
		}, "1=2@1"},
		{"a merge with what was touched", func(s topology.Stream[int, int]) topology.Stream[int, int] {
			return s.Merge(s.MapValues(func(v int) int { return v }).Filter(func(_, _ int) bool { return false }))
		}, "01=2@1"},
		{"a table", func(s topology.Stream[int, int]) topology.Stream[int, int] {
			return s.ToTable("t", few).Stream()
		}, "01=02@1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := run(t, func(b *topology.Builder) { c.declare(b.Stream(in)).To(out) })
			w.send("in", "01=02@1")
			w.wants("out", c.want)
		})
	}
	t.Run("another serde", func(t *testing.T) {
		same := serde.Func(loose.Encode, loose.Decode)
		w := run(t, func(b *topology.Builder) { b.Stream(in).To(topology.NewTopic("out", same, same)) })
		w.send("in", "01=02@1")
		w.wants("out", "1=2@1")
	})
	t.Run("at a commit", func(t *testing.T) {
		w := run(t, func(b *topology.Builder) { b.Stream(in).ToTable("t", few).OnCommit().To(out) })
		w.send("in", "01=02@1", "03=04@2")
		w.commit()
		w.wants("out", "1=2@1 3=4@2")
	})
}

// Headers go along, may be added, and are put back for the next reader.
func TestHeaders(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		s := b.Stream(words)
		s.MapRecord(func(r processor.Record[string, string]) processor.Record[string, string] {
			r.Headers = r.Headers.With("seen", []byte("yes"))
			return r
		}).To(more)
		s.To(topology.NewTopic("plain", serde.String(), serde.String()))
	})
	if err := w.give(emitted{topic: "words", key: []byte("k"), value: []byte("v"), at: 1, headers: []engine.Header{{Key: "a", Value: []byte("b")}}}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(w.sent["more"][0].headers); got != "[{a [98]} {seen [121 101 115]}]" {
		t.Errorf("headers %s", got)
	}
	if got := fmt.Sprint(w.sent["plain"][0].headers); got != "[{a [98]}]" {
		t.Errorf("headers of the other branch %s", got)
	}
}

// A topic is read once, and its readers get each record in the order in which they were declared.
func TestOneTopicManyReaders(t *testing.T) {
	self := func(v string, row *string) string {
		if row == nil {
			return v + " without"
		}
		return v + " with " + *row
	}
	for _, c := range []struct {
		name       string
		tableFirst bool
		want       string
	}{
		{"table first", true, "k=a with a@1 k=b with b@2"},
		{"stream first", false, "k=a without@1 k=b with a@2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := run(t, func(b *topology.Builder) {
				var s topology.Stream[string, string]
				var tab topology.Table[string, string]
				if c.tableFirst {
					tab, s = b.Table("t", words, few), b.Stream(words)
				} else {
					s, tab = b.Stream(words), b.Table("t", words, few)
				}
				s.LeftJoinTable(tab, self).To(more)
				b.Stream(words)
			})
			if n := len(w.graph.Subs[0].Inputs); n != 1 {
				t.Errorf("%d inputs", n)
			}
			w.send("words", "k=a@1", "k=b@2", "k=∅@3")
			w.wants("more", c.want)
			w.dropped("KSTREAM-SOURCE-0000000000 null_value")
		})
	}
}

// Where event time is taken from the record, and what becomes of records without any.
func TestEventTime(t *testing.T) {
	timed := topology.NewTopic("lengths", serde.String(), serde.Int64()).TimedBy(func(_ string, v int64) time.Time { return time.UnixMilli(v) })
	w := run(t, func(b *topology.Builder) { b.Table("t", timed, few).To(counts) })
	one := string([]byte{0, 0, 0, 0, 0, 0, 0, 9})
	w.send("lengths", "a="+one+"@100", "a=∅@200", "a="+strings.Repeat("\xff", 8)+"@300")
	w.wants("counts", "a=9@9 a=∅@200")
	w.dropped("KSTREAM-SOURCE-0000000000 no_time")

	w = run(t, func(b *topology.Builder) { b.Stream(words).To(more) })
	w.send("words", "a=x@-1", "a=y@0")
	w.wants("more", "a=y@0")
	w.dropped("KSTREAM-SOURCE-0000000000 no_time")
}

// Serdes stay with a type, come from Default or are built in, and can be set.
func TestSerdes(t *testing.T) {
	shouting := serde.Func(func(dst []byte, v string) ([]byte, error) { return append(dst, upper(v)...), nil }, func(src []byte) (string, error) { return string(src), nil })
	shops := serde.Func(func(dst []byte, v shop) ([]byte, error) { return append(dst, v.Name...), nil }, func(src []byte) (shop, error) { return shop{string(src)}, nil })
	w := run(t, func(b *topology.Builder) {
		s := b.Stream(words)
		s.WithValue(shouting).MapValues(func(v string) string { return v }).Repartition("kept")
		s.MapValues(toShop).Repartition("default")
		s.MapValues(func(v string) int64 { return int64(len(v)) }).Repartition("builtin")
		s.Merge(s.WithValue(shouting)).WithValue(serde.String()).Repartition("settled")
		b.Default(shops) // after it was used
	})
	w.send("words", "k=ab@1")
	w.wants("app-kept-repartition", "k=AB@1")
	w.wants("app-default-repartition", "k=ab@1")
	w.wants("app-builtin-repartition", "k=2@1")
	w.wants("app-settled-repartition", "k=ab@1 k=ab@1")
}

// Names of internal topics and stores, with versions.
func TestVersions(t *testing.T) {
	mine := store.NewKeyValue("mine", serde.String(), serde.String(), few)
	declare := func(version int) *engine.Graph {
		return engine.GraphOf(build(t, func(b *topology.Builder) {
			if version > 0 {
				b.Version(version)
			}
			s := b.Stream(words)
			s.GroupBy(byValue).Count("own", few, store.Version(2))
			s.GroupBy(byValue).Count("other", few)
			s.Repartition("way").Process("p", none, mine)
		}))
	}
	names := func(g *engine.Graph) string {
		var out []string
		for _, s := range g.Subs {
			for _, in := range s.Inputs {
				out = append(out, in.Full("app"))
			}
			for _, d := range s.Stores {
				out = append(out, d.Full())
			}
		}
		return strings.Join(out, " ")
	}
	if got, want := names(declare(0)), "words app-own-v2-repartition own-v2 app-other-repartition other app-way-repartition mine"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := names(declare(3)), "words app-own-v2-repartition own-v2 app-other-v3-repartition other-v3 app-way-v3-repartition mine-v3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := names(declare(0)); !strings.HasSuffix(got, " mine") {
		t.Errorf("the version went on to another topology: %s", got)
	}
}

// Tasks of one topology share nothing that changes.
func TestTasksAreApart(t *testing.T) {
	g := engine.GraphOf(build(t, drawn))
	var all sync.WaitGroup
	for partition := range int32(4) {
		all.Go(func() {
			task, err := engine.Open(g.Subs[0], partition, engine.Env{App: "app", Output: discard{}, Partitions: func(string) int32 { return 4 }, Disk: memstore.New(), MaxIdle: -1,
				Wall: func() int64 { return 0 }})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range g.Subs[0].Inputs {
				task.Start(i, 0, 0, engine.Meta{PartitionTime: -1})
			}
			for offset := range int64(100) {
				task.Add(int(offset%2), []engine.Record{{Key: []byte("k"), Value: []byte("a long value"), Offset: offset}}, offset+1, offset+1)
				if _, err := task.Process(0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
