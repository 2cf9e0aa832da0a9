package kolk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	colors  = topology.NewTopic("colors", serde.String(), serde.String())
	painted = topology.NewTopic("painted", serde.String(), serde.String())
)

// painting looks up the values of words.
func painting(opts ...topology.TableOption) *topology.Builder {
	b := topology.New()
	table := b.GlobalTable("palette", colors, store.FiniteKeys(100), opts...)
	b.Stream(words).LeftJoinGlobal(table, func(_, v string) (string, bool) { return v, v != "" }, func(v string, color *string) string {
		if color == nil {
			return v + " has none"
		}
		return v + " is " + *color
	}).To(painted)
	return b
}

func (w *world) painted() (out []string) {
	w.t.Helper()
	for _, r := range w.read("painted") {
		out = append(out, string(r.Value))
	}
	return out
}

func (w *world) paints(want ...string) {
	w.t.Helper()
	w.settled("paint", "words")
	got := w.painted()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Fatalf("got %q, want %q", got, want)
	}
}

// A global table is complete before the first record, follows its topic, and comes back from disk, or from its topic if the disk is lost.
func TestGlobalTable(t *testing.T) {
	inWorld(t, map[string]int32{"words": 4, "colors": 3, "painted": 1}, func(w *world) {
		for i := range 200 {
			w.send("colors", fmt.Sprintf("c%d=old", i))
			w.send("colors", fmt.Sprintf("c%d=v%d", i, i))
		}
		w.send("words", "a=c0", "b=c99", "c=c199", "d=nothing", "e=")
		c := w.config("paint")
		c.Workers = 2
		r := w.start(painting(), c).ready()
		want := []string{"c0 is v0", "c99 is v99", "c199 is v199", "nothing has none", " has none"}
		w.paints(want...)

		w.send("colors", "c0=new")
		if err := w.cl.ProduceSync(w.t.Context(), &kgo.Record{Topic: "colors", Key: []byte("c99")}, &kgo.Record{Topic: "colors", Value: []byte("no key")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.wait(5 * time.Second)
		w.send("words", "a=c0", "b=c99")
		want = append(want, "c0 is new", "c99 has none")
		w.paints(want...)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}

		// What is on disk is not read again: the topic does not have it any more.
		w.truncate("colors")
		w.send("colors", "c1=newer")
		r = w.start(painting(), c).ready()
		w.send("words", "a=c0", "b=c1", "c=c2", "d=c99")
		want = append(want, "c0 is new", "c1 is newer", "c2 is v2", "c99 has none")
		w.paints(want...)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}

		c.StateDir = w.t.TempDir()
		w.start(painting(), c).ready()
		w.send("words", "a=c1", "b=c2")
		w.paints(append(want, "c1 is newer", "c2 has none")...)
	})
}

// truncate deletes all records of a topic.
func (w *world) truncate(topic string) {
	w.t.Helper()
	ends, err := w.adm.ListEndOffsets(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	offsets := make(kadm.Offsets)
	ends.Each(func(o kadm.ListedOffset) { offsets.AddOffset(o.Topic, o.Partition, o.Offset, -1) })
	if _, err := w.adm.DeleteRecords(w.t.Context(), offsets); err != nil {
		w.t.Fatal(err)
	}
}

// A topic that was made anew does not go with what is on disk.
func TestGlobalTableOfAnotherTopic(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "colors": 1, "painted": 1}, func(w *world) {
		w.send("colors", "c0=old", "c1=old")
		c := w.config("paint")
		if err := w.start(painting(), c).ready().stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.adm.DeleteTopics(w.t.Context(), "colors"); err != nil {
			t.Fatal(err)
		}
		w.create("colors", 1)
		w.cl.PurgeTopicsFromClient("colors")
		w.wait(time.Second)
		w.send("colors", "c0=new", "c2=new", "c3=new")
		w.start(painting(), c).ready()
		w.send("words", "a=c0", "a=c1")
		w.paints("c0 is new", "c1 has none")
	})
}

// What cannot be is said.
func TestGlobalTableFaults(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "painted": 1}, func(w *world) {
		err := w.start(painting(), w.config("paint")).failed()
		if fault, ok := errors.AsType[*TopicError](err); !ok || fault.Topic != "colors" || !strings.Contains(err.Error(), `copied to global table "palette" but does not exist`) {
			t.Errorf("a topic that does not exist: %v", err)
		}
	})
	numbers := topology.NewTopic("colors", serde.String(), serde.Int64())
	build := func(opts ...topology.TableOption) *topology.Builder {
		b := topology.New()
		table := b.GlobalTable("palette", numbers, store.FiniteKeys(100), opts...)
		b.Stream(words).JoinGlobal(table, func(_, v string) (string, bool) { return v, true }, func(v string, n int64) string { return fmt.Sprint(v, " is ", n) }).To(painted)
		return b
	}
	inWorld(t, map[string]int32{"words": 1, "colors": 1, "painted": 1}, func(w *world) {
		w.send("colors", "a=12345678", "b=no number")
		err := w.start(build(), w.config("paint")).failed()
		if err == nil || !strings.Contains(err.Error(), "offset 1 of topic colors") {
			t.Errorf("a record that cannot be read: %v", err)
		}
		c := w.config("paint")
		drops := make(chan Drop, 10)
		c.Hooks = &Hooks{OnDrop: func(d Drop) { drops <- d }}
		w.start(build(topology.OnError(topology.Skip)), c).ready()
		w.send("words", "x=a")
		w.paints(fmt.Sprint("a is ", int64(0x3132333435363738)))
		if d := <-drops; d.Task != "global" || d.Reason != "skipped" || d.Source.Offset != 1 {
			t.Errorf("dropped %+v", d)
		}
	})
	top, err := painting().Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(top, Config{Application: "paint", Brokers: []string{"b"}}); err == nil || !strings.Contains(err.Error(), `store "palette" is kept on disk`) {
		t.Errorf("no StateDir: %v", err)
	}
}
