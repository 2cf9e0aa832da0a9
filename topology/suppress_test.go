package topology_test

import (
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

func suppressed(spec window.Spec, opts ...topology.SuppressOption) func(*topology.Builder, topology.Stream[string, string]) {
	return func(_ *topology.Builder, in topology.Stream[string, string]) {
		in.GroupByKey().Windowed(spec).Count("counts").Suppress("closed", topology.UntilWindowCloses(), opts...).
			To(topology.NewTopic("finals", window.KeySerde(serde.String(), spec), serde.Int64()))
	}
}

// SU01: without grace a window is sent with the first record that comes after it.
func TestSU01(t *testing.T) {
	for _, declare := range []func(*topology.Builder, topology.Stream[string, string]){countedIn(window.Tumbling(millis(60_000))), suppressed(window.Tumbling(millis(60_000)))} {
		w := windows(t, declare)
		w.send("a@0", "a@30000", "a@59999")
		w.wants("finals", false, 60_000, "")
		w.send("a@60000")
		w.wants("finals", false, 60_000, "a[0,60000]=3@59999")
	}
}

// A window that reaches the end of all time is not closed, so its updates wait on. Sums of times that wrapped or stopped there would send each one.
func TestSuppressAtTheEndOfTime(t *testing.T) {
	for _, spec := range []window.Spec{window.Tumbling(millis(10)).Grace(millis(5)), window.Sliding(millis(10))} {
		w := windows(t, suppressed(spec))
		w.send("a@9223372036854775807", "a@9223372036854775807")
		w.wants("finals", false, 10, "")
		w.late(0)
	}
}

// SU02: what waits survives a crash and the loss of the disk, and is sent once.
func TestSU02(t *testing.T) {
	for _, lose := range []func(*windowWorld){func(w *windowWorld) { w.Restart() }, func(w *windowWorld) { w.Crash() }, func(w *windowWorld) { w.Commit(); w.send("z@1"); w.Abort() }} {
		w := windows(t, suppressed(window.Tumbling(millis(60_000))), topologytest.ManualCommit())
		w.send("a@0")
		w.Commit()
		lose(w)
		w.send("b@60000")
		w.Commit()
		w.Restart()
		w.send("b@60001")
		if got := inWindows(w.Records("finals"), false, 60_000); !strings.HasPrefix(got, "a[0,60000]=1@0") || strings.Count(got, "a[") != 1 {
			t.Errorf("got %s", got)
		}
	}
}

// A full buffer ends the application where results must be final, and sends early where not.
func TestFullBuffer(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		spec := window.Tumbling(millis(10))
		b.Stream(words).GroupByKey().Windowed(spec).Count("counts").Suppress("closed", topology.UntilWindowCloses(), topology.MaxRecords(2)).
			To(topology.NewTopic("finals", window.KeySerde(serde.String(), spec), serde.Int64()))
	})
	if err := w.try("words", "a=x@1", "b=x@2", "a=x@3"); err != nil {
		t.Fatal(err)
	}
	if err := w.try("words", "c=x@4"); err == nil || !strings.Contains(err.Error(), "closed-store") || !strings.Contains(err.Error(), "2 rows") {
		t.Errorf("got %v", err)
	}
	early := run(t, func(b *topology.Builder) {
		b.Table("rows", words, few).Suppress("wait", topology.UntilTimeLimit(millis(100)), topology.MaxRecords(2)).To(more)
	})
	early.send("words", "a=1@1", "b=2@2", "a=3@3", "c=4@4")
	early.wants("more", "a=3@3")
	early.send("words", "d=5@102")
	early.wants("more", "b=2@2")
	stops := run(t, func(b *topology.Builder) {
		b.Table("rows", words, few).Suppress("wait", topology.UntilTimeLimit(millis(100)), topology.MaxBytes(200), topology.StopWhenFull()).To(more)
	})
	if err := stops.try("words", "a=1@1", "b=2@2", "c=3@3", "d=4@4", "e=5@5"); err == nil || !strings.Contains(err.Error(), "200 bytes") {
		t.Errorf("got %v", err)
	}
}

// Throttle sends the last update of a row once in a while, and its deletes.
func TestThrottle(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		b.Table("rows", words, few).Throttle("slow", millis(10)).To(more)
	})
	w.send("words", "a=1@0", "a=2@5", "b=1@7", "a=3@10")
	w.wants("more", "a=3@10")
	w.send("words", "a=4@11", "a=∅@12", "c=x@21")
	w.wants("more", "b=1@7 a=∅@12")
}

// The rows of a table that is held back are those that were sent on.
func TestLookupThroughSuppress(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		rows := b.Table("rows", more, few).Suppress("wait", topology.UntilTimeLimit(millis(10)))
		b.Stream(words).LeftJoinTable(rows, func(v string, row *string) string {
			if row == nil {
				return v + " alone"
			}
			return v + " " + *row
		}).To(topology.NewTopic("joined", serde.String(), serde.String()))
	})
	w.send("more", "k=1@0")
	w.send("words", "k=a@1")
	w.send("more", "x=1@10", "k=2@11")
	w.send("words", "k=b@12")
	w.send("more", "x=1@30")
	w.send("words", "k=c@31")
	w.wants("joined", "k=a alone@1 k=b 1@12 k=c 2@31")
}
