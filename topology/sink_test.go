package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
)

// Records go to the partition that Java's producers choose, or that the topic chooses, or to any if the key is null.
func TestPartitions(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		s := b.Stream(words)
		s.To(more)
		s.To(topology.NewTopic("mine", serde.String(), serde.String()).PartitionedBy(func(_, v string, n int) int { return n - len(v) }))
		s.RepartitionBy("way", func(_, v string, n int) int { return len(v) })
	}, func(w *world) { w.counts = map[string]int32{"more": 6, "mine": 4, "app-way-repartition": 3} })
	w.send("words", "alice=a@1", "order-42=b@2", "∅=c@3")
	parts := func(topic string) string {
		out := ""
		for _, e := range w.sent[topic] {
			out += fmt.Sprint(e.partition, " ")
		}
		return out
	}
	if got := parts("more"); got != "3 0 -1 " {
		t.Errorf("by key: %s", got)
	}
	if got := parts("mine"); got != "3 3 3 " {
		t.Errorf("by the topic's own way: %s", got)
	}
	if got := parts("app-way-repartition"); got != "1 1 " {
		t.Errorf("by the repartition's own way: %s", got)
	}
}

// Each record can name its topic; the ones that are not there have failed.
func TestToEach(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		b.Stream(words).ToEach(more, func(k, _ string) string { return k }, topology.Named("each"), topology.OnError(topology.Skip))
	}, func(w *world) { w.counts = map[string]int32{"gone": 0} })
	w.send("words", "a=1@1", "b=2@2", "gone=3@3", "=4@4")
	w.wants("a", "a=1@1")
	w.wants("b", "b=2@2")
	w.dropped("each skipped", "each skipped")
	if out := w.graph.Subs[0].Outputs; len(out) != 1 || !out[0].Dynamic {
		t.Errorf("outputs %+v", out)
	}
}

// What fails at a sink is a failure to produce, whoever failed.
func TestSinkErrors(t *testing.T) {
	bad := serde.Func(func(dst []byte, v string) ([]byte, error) {
		switch v {
		case "error":
			return dst, errors.New("cannot")
		case "panic":
			panic("cannot at all")
		}
		return append(dst, v...), nil
	}, func(src []byte) (string, error) { return string(src), nil })
	out := topology.NewTopic("out", bad, bad).PartitionedBy(func(k, _ string, n int) int {
		if k == "far" {
			return n
		}
		return 0
	})
	for _, record := range []string{"k=error@1", "error=v@1", "k=panic@1", "far=v@1"} {
		w := run(t, func(b *topology.Builder) { b.Stream(words).To(out, topology.Named("sink")) })
		err := w.try("words", record)
		failed, ok := errors.AsType[*engine.RecordError](err)
		if !ok || failed.Node != "sink" || failed.Stage != "produce" && record != "k=panic@1" {
			t.Errorf("%s: got %v", record, err)
		}
	}
	w := run(t, func(b *topology.Builder) {
		b.Stream(words).To(out, topology.Named("sink"), topology.OnError(topology.DeadLetter("dead")))
	})
	w.send("words", "k=error@1", "error=v@1", "k=panic@1", "far=v@1", "k=v@2")
	w.wants("out", "k=v@2")
	if got := w.took("dead"); strings.Count(got, "@1") != 4 {
		t.Errorf("dead letters %s", got)
	}
	if dead := w.graph.DeadLetters; len(dead) != 1 || dead[0] != "dead" {
		t.Errorf("the graph names %q", dead)
	}
}

// A sink needs to know its topic.
func TestUnknownPartitions(t *testing.T) {
	g := engine.GraphOf(build(t, func(b *topology.Builder) { b.Stream(words).To(more) }))
	_, err := engine.Open(g.Subs[0], 0, engine.Env{App: "app", Partitions: func(string) int32 { return 0 }})
	if err == nil || !strings.Contains(err.Error(), `"more"`) {
		t.Errorf("got %v", err)
	}
}
