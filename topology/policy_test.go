package topology_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
)

// boom fails for the value "bad".
func boom(v string) string {
	if v == "bad" {
		panic("boom")
	}
	return v
}

// Whatever function of the user's panics, the record has failed at that node, and the application's policy holds.
func TestPanics(t *testing.T) {
	type stream = topology.Stream[string, string]
	for name, declare := range map[string]func(b *topology.Builder, s stream) stream{
		"filter": func(_ *topology.Builder, s stream) stream {
			return s.Filter(func(_, v string) bool { return boom(v) == v }, topology.Named("n"))
		},
		"filter values": func(_ *topology.Builder, s stream) stream {
			return s.FilterValues(func(v string) bool { return boom(v) == v }, topology.Named("n"))
		},
		"filter record": func(_ *topology.Builder, s stream) stream {
			return s.FilterRecord(func(r processor.Record[string, string]) bool { return boom(r.Value) != "" }, topology.Named("n"))
		},
		"map": func(_ *topology.Builder, s stream) stream {
			return s.Map(func(k, v string) (string, string) { return k, boom(v) }, topology.Named("n"))
		},
		"map values": func(_ *topology.Builder, s stream) stream { return s.MapValues(boom, topology.Named("n")) },
		"map record": func(_ *topology.Builder, s stream) stream {
			return s.MapRecord(func(r processor.Record[string, string]) processor.Record[string, string] {
				return r.WithValue(boom(r.Value))
			}, topology.Named("n"))
		},
		"try": func(_ *topology.Builder, s stream) stream {
			return s.TryMapValues(func(v string) (string, error) { return boom(v), nil }, topology.Named("n"))
		},
		"flat map": func(_ *topology.Builder, s stream) stream {
			return s.FlatMap(func(k, v string) iter.Seq2[string, string] {
				return func(yield func(string, string) bool) { yield(k, boom(v)) }
			}, topology.Named("n"))
		},
		"flat map values": func(_ *topology.Builder, s stream) stream {
			return s.FlatMapValues(func(v string) iter.Seq[string] { return func(yield func(string) bool) { yield(boom(v)) } }, topology.Named("n"))
		},
		"select key": func(_ *topology.Builder, s stream) stream {
			return s.SelectKey(func(k, v string) string { boom(v); return k }, topology.Named("n"))
		},
		"peek": func(_ *topology.Builder, s stream) stream {
			return s.Peek(func(_, v string) { boom(v) }, topology.Named("n"))
		},
		"table": func(_ *topology.Builder, s stream) stream {
			return s.ToTable("t", few).MapValues(boom, topology.Named("n")).Stream()
		},
		"group": func(_ *topology.Builder, s stream) stream {
			return s.GroupByKey().Reduce("r", few, func(_, v string) string { return boom(v) }, topology.Named("n")).Stream()
		},
		"join": func(b *topology.Builder, s stream) stream {
			return s.LeftJoinTable(b.Table("t", more, few), func(v string, _ *string) string { return boom(v) }, topology.Named("n"))
		},
		"join through a mapping": func(b *topology.Builder, _ stream) stream {
			t := b.Table("t", words, few).MapValues(func(v string) string { return v }, topology.Named("other")).MapValues(boom, topology.Named("n"))
			return b.Stream(words).JoinTable(t, concat)
		},
	} {
		t.Run(name, func(t *testing.T) {
			build := func(b *topology.Builder) { declare(b, b.Stream(words)).To(joined) }
			w := run(t, build, func(w *world) { w.env.MaxIdle = -1 })
			w.send("words", "k=good@1")
			err := w.try("words", "k=bad@2")
			failed, ok := errors.AsType[*engine.RecordError](err)
			if !ok || failed.Node != "n" || failed.Offset != 1 || !strings.Contains(err.Error(), "boom") {
				t.Errorf("got %v", err)
			}

			w = run(t, build, func(w *world) { w.env.MaxIdle, w.env.OnProcess = -1, engine.Policy{Kind: engine.Skip} })
			w.send("words", "k=good@1", "k=bad@2", "k=good@3")
			if got := w.took("joined"); !strings.HasSuffix(got, "@3") || strings.Contains(got, "bad") {
				t.Errorf("sent %s", got)
			}
			for _, d := range w.drops {
				if d != "n skipped" && d != "n no_row" {
					t.Errorf("dropped %q", d)
				}
			}
			if len(w.drops) == 0 {
				t.Error("nothing was counted")
			}
		})
	}
}

// Under Skip only the branch of the failing node ends, and nobody else is blamed.
func TestOneBranchFails(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		s := b.Stream(words).MapValues(func(v string) string { return v }, topology.Named("before"))
		s.MapValues(boom, topology.Named("fails")).To(more)
		s.To(joined)
	}, func(w *world) { w.env.OnProcess = engine.Policy{Kind: engine.Skip} })
	w.send("words", "k=bad@1", "k=good@2")
	w.wants("more", "k=good@2")
	w.wants("joined", "k=bad@1 k=good@2")
	w.dropped("fails skipped")
}

// Records that cannot be decoded, under each policy.
func TestDecodeErrors(t *testing.T) {
	w := run(t, func(b *topology.Builder) { b.Stream(lengths).To(counts) })
	failed, ok := errors.AsType[*engine.RecordError](w.try("lengths", "k=short@1"))
	if !ok || failed.Stage != "decode" || failed.Node != "KSTREAM-SOURCE-0000000000" {
		t.Errorf("got %v", failed)
	}

	w = run(t, func(b *topology.Builder) { b.Stream(lengths, topology.OnError(topology.Skip)).To(counts) })
	w.send("lengths", "k=short@1", "k=eightbyt@2")
	w.wants("counts", "k=eightbyt@2")
	w.dropped("KSTREAM-SOURCE-0000000000 skipped")

	w = run(t, func(b *topology.Builder) {
		b.Table("t", lengths, few, topology.OnError(topology.DeadLetter("dead"))).To(counts)
	})
	w.send("lengths", "k=short@1")
	if len(w.sent["dead"]) != 1 {
		t.Fatalf("sent %v", w.sent)
	}
	dead := w.sent["dead"][0]
	var headers []string
	for _, h := range dead.headers {
		headers = append(headers, fmt.Sprintf("%s=%s", h.Key, h.Value))
	}
	if text := strings.Join(headers, " "); dead.String() != "k=short@1" || !strings.Contains(text, "kolk.node=KSTREAM-SOURCE-0000000000") || !strings.Contains(text, "errors.topic=lengths") {
		t.Errorf("dead letter %s, headers %s", dead, text)
	}

	wild := serde.Func(func(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }, func(src []byte) (string, error) { return boom(string(src)), nil })
	w = run(t, func(b *topology.Builder) {
		b.Stream(topology.NewTopic("wild", wild, wild), topology.OnError(topology.Skip)).To(more)
	})
	w.send("wild", "bad=v@1", "k=bad@2", "k=v@3")
	w.wants("more", "k=v@3")
}

// OnDrop holds for the reasons it names, or for those that lose data.
func TestOnDrop(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		b.Stream(words).GroupByKey().Count("c", few, topology.OnDrop(topology.DeadLetter("lost")), topology.Named("count"))
	})
	w.send("words", "∅=v@1")
	w.wants("lost", "∅=v@1")
	w.dropped("count null_key")

	w = run(t, func(b *topology.Builder) {
		b.Stream(words).JoinTable(b.Table("t", more, few), concat, topology.OnDrop(topology.Stop, processor.NoRow))
	}, func(w *world) { w.env.MaxIdle = -1 })
	w.send("words", "∅=v@1")
	if err := w.try("words", "k=v@2"); err == nil || !strings.Contains(err.Error(), "no_row") {
		t.Errorf("got %v", err)
	}
}
