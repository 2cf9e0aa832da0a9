package topology_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

// meet starts a join of one kind.
func meet(t *testing.T, kind string, n near, opts ...topology.StateOption) *world {
	return run(t, func(b *topology.Builder) { streamJoins[kind](b, n.spec(), opts...) }, func(w *world) { w.env.MaxIdle = -1 })
}

// Case J01: a record yields matches or exactly one null, never both.
func TestJ01NoNullBesideTheMatch(t *testing.T) {
	w := meet(t, "left", near{10, 10, 0})
	if got := w.say("words k1=A@0", "more k1=a@5", "words k2=B@20", "words k3=C@31"); got != "|k1=A+a@5||k2=B+-@20" {
		t.Error(got)
	}
}

// Case J02: a record that is late but within the grace waits for its partner.
func TestJ02LateWithinTheGrace(t *testing.T) {
	w := meet(t, "left", near{10, 10, 100})
	if got := w.say("more k2=b@50", "words k1=A@20", "more k1=a@25", "more k9=z@200"); got != "||k1=A+a@25|" {
		t.Error(got)
	}
	w = meet(t, "left", near{10, 10, 100})
	if got := w.say("more k2=b@50", "words k1=A@20", "more k2=c@130", "more k2=d@131"); got != "|||k1=A+-@20" {
		t.Error(got)
	}
}

// Case J03: the left side waits by After, the right one by Before.
func TestJ03AsymmetricWindow(t *testing.T) {
	for _, opts := range [][]topology.StateOption{nil, {topology.UnmatchedLate()}} {
		w := meet(t, "left", near{0, 100, 0}, opts...)
		if got := w.say("words x=A@0", "words y=B@1", "more x=a@100", "more y=b@102"); got != "||x=A+a@100|y=B+-@1" {
			t.Error(got)
		}
	}
	w := meet(t, "outer", near{0, 100, 0})
	if got := w.say("more x=a@5", "words y=B@6", "words x=A@6", "words z=Z@107"); got != "|x=-+a@5||x=A+-@6 y=B+-@6" {
		t.Error(got)
	}
}

// Case J04: that a record found a partner is known when the partner is gone, and after a restart.
func TestJ04MatchOutlivesPartner(t *testing.T) {
	top := build(t, func(b *topology.Builder) { streamJoins["left"](b, near{0, 5000, 0}.spec()) })
	for name, lose := range map[string]func(*topologytest.Driver){
		"evicted": func(d *topologytest.Driver) { d.Input(more).SendAt(time.UnixMilli(90_000), "y", "b") },
		"restart": (*topologytest.Driver).Restart,
		"crash":   (*topologytest.Driver).Crash,
	} {
		d := topologytest.New(t, top, epoch, topologytest.ManualCommit())
		d.Input(words).SendAt(time.UnixMilli(0), "x", "A")
		d.Input(more).SendAt(time.UnixMilli(0), "x", "a")
		d.Commit()
		lose(d)
		d.Input(words).SendAt(time.UnixMilli(6000), "y", "Z")
		d.Commit()
		got := inOrder(d.Records("joined"))
		want := "x=A+a@0"
		if name == "evicted" {
			want += " y=Z+-@6000" // its time was over when it came
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}

var textOrNull = topology.NewTopic("words", serde.String(), serde.Optional(serde.String()))

// Nulls, and records that come when their time is over: counted by cause, and sent on where the join keeps them.
func TestStreamJoinMisses(t *testing.T) {
	nulls := func(v *string) string {
		if v == nil {
			return "-"
		}
		return *v
	}
	left := func(b *topology.Builder) {
		b.Stream(textOrNull).LeftJoin("j", b.Stream(more), near{0, 10, 0}.spec(), func(l *string, r *string) string { return nulls(l) + "+" + nulls(r) }, topology.Named("x")).To(joined)
	}
	inner := func(b *topology.Builder) {
		b.Stream(textOrNull).Join("j", b.Stream(more), near{0, 10, 0}.spec(), func(l *string, r string) string { return nulls(l) + "+" + r }, topology.Named("x")).To(joined)
	}
	for _, c := range []struct {
		declare func(*topology.Builder)
		want    string
		drops   []string
	}{
		{left, "∅=a+-@1||||||k=old+-@5|k=ancient+-@6", []string{"x-this-join null_value", "x-this-join null_value", "x-outer-other-join null_key", "x-outer-other-join closed", "x-this-join expired"}},
		{inner, "|||||||", []string{"x-this-join null_key", "x-this-join null_value", "x-this-join null_value", "x-other-join null_key", "x-other-join closed", "x-this-join closed", "x-this-join expired"}},
	} {
		w := run(t, c.declare, func(w *world) { w.env.MaxIdle = -1 })
		got := w.say("words ∅=a@1", "words ∅=∅@2", "words k=∅@3", "more ∅=b@4", "more z=y@100", "more k=late@50", "words k=old@5")
		w.send("words", "z=young@900000")
		w.took("joined")
		if got += "|" + w.say("words k=ancient@6"); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
		w.dropped(c.drops...)
	}
}

// OnDrop holds for the drops of both sides.
func TestStreamJoinOnDrop(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		b.Stream(words).Join("j", b.Stream(more), window.Within(millis(5)), concat, topology.OnDrop(topology.DeadLetter("dead"), processor.Closed, processor.NullKey)).To(joined)
	}, func(w *world) { w.env.MaxIdle = -1 })
	w.send("words", "a=x@100", "b=y@91")
	w.send("more", "∅=z@100", "b=w@92")
	if got := w.took("dead"); got != "b=y@91 ∅=z@100" {
		t.Errorf("dead letters: %s", got)
	}
	w.wants("joined", "b=yw@92")
}

// A result has the time of the younger record and the headers of the one that came last; the left value comes first.
func TestStreamJoinTimes(t *testing.T) {
	top := build(t, func(b *topology.Builder) { streamJoins["outer"](b, near{10, 10, 0}.spec()) })
	d := topologytest.New(t, top, epoch)
	send := func(topic topology.Topic[string, string], key, value string, at int64) {
		d.Input(topic).SendRecord(processor.Record[string, string]{Key: key, Value: value, Time: time.UnixMilli(at), Headers: processor.Headers{}.With("of", []byte(value))})
	}
	send(more, "k", "r", 15)
	send(words, "k", "l", 10)
	send(words, "k", "m", 20)
	send(words, "z", "lone", 21)
	send(more, "q", "last", 40)
	for i, want := range []string{"k=l+r@15 l", "k=m+r@20 m", "z=lone+-@21 last"} {
		r := d.Records("joined")[i]
		value, _ := r.Headers.Get("of")
		if got := inOrder([]topologytest.Raw{r})[0] + " " + string(value); got != want {
			t.Errorf("result %d is %s, want %s", i, got, want)
		}
	}
}

// Records with one key and time are kept apart, and their numbers go on after a restart.
func TestStreamJoinDuplicates(t *testing.T) {
	top := build(t, func(b *topology.Builder) { streamJoins["outer"](b, near{10, 10, 0}.spec()) })
	d := topologytest.New(t, top, epoch, topologytest.ManualCommit())
	for i, v := range []string{"a", "b", "c", "d"} {
		d.Input(words).SendAt(time.UnixMilli(5), "k", v)
		d.Commit()
		switch i {
		case 1:
			d.Restart()
		case 2:
			d.Crash()
		}
	}
	d.Input(words).SendAt(time.UnixMilli(5), "lone", "e")
	d.Input(words).SendAt(time.UnixMilli(5), "lone", "f")
	d.Input(more).SendAt(time.UnixMilli(5), "k", "r")
	d.Input(more).SendAt(time.UnixMilli(16), "z", "z")
	d.Commit()
	if got := strings.Join(inOrder(d.Records("joined")), " "); got != "k=a+r@5 k=b+r@5 k=c+r@5 k=d+r@5 lone=e+-@5 lone=f+-@5" {
		t.Error(got)
	}
	seen := map[string]bool{}
	for _, r := range d.Changelog("j-outer-this-join-store") {
		if seen[string(r.Key)] {
			t.Errorf("the changelog has the key %x twice", r.Key)
		}
		seen[string(r.Key)] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d records in the changelog, want 6", len(seen))
	}
}

// A stream that is joined with itself: each pair both ways round, and each record with itself.
func TestStreamJoinWithItself(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		s := b.Stream(words)
		s.Join("j", s, window.Within(millis(5)), concat).To(joined)
	})
	if got := w.say("words k=a@1", "words k=b@3", "words k=c@20"); got != "k=aa@1|k=ba@3 k=ab@3 k=bb@3|k=cc@20" {
		t.Error(got)
	}
	w = run(t, func(b *topology.Builder) {
		s := b.Stream(words)
		s.OuterJoin("j", s, window.Following(millis(5)).Before(millis(-1)), func(l, r *string) string { return orNull(l) + orNull(r) }).To(joined)
	})
	// A difference of 0 is left out. No partner of a right record can be younger, so it does not wait.
	if got := w.say("words k=a@1", "words k=b@3", "words k=c@20"); got != "k=-a@1|k=ab@3|k=b-@3 k=-c@20" {
		t.Error(got)
	}
}

// Streams with new keys go through topics named after the join; nothing else does.
func TestStreamJoinRepartitions(t *testing.T) {
	top := build(t, func(b *topology.Builder) {
		l, r := b.Stream(words).SelectKey(byValue), b.Stream(more).SelectKey(byValue)
		l.LeftJoin("j", r, window.Within(millis(5)), func(l string, r *string) string { return l + orNull(r) }).To(joined)
	})
	d := topologytest.New(t, top, epoch)
	d.Input(words).SendAt(time.UnixMilli(1), "x", "k")
	d.Input(more).SendAt(time.UnixMilli(2), "y", "k")
	if got := strings.Join(inOrder(d.Records("joined")), " "); got != "k=kk@2" {
		t.Error(got)
	}
	for _, name := range []string{"j-left-repartition", "j-right-repartition"} {
		if !strings.Contains(top.Describe(), "(topics: ["+name+"])") {
			t.Errorf("no source of %s in\n%s", name, top.Describe())
		}
	}
}

// The description, names and numbers are those of Kafka Streams, as the parity vectors show them.
func TestStreamJoinDescription(t *testing.T) {
	named := func(kind string) string {
		return build(t, func(b *topology.Builder) { streamJoins[kind](b, window.Within(time.Second), topology.Named("ss")) }).Describe()
	}
	golden(t, "streamjoin.txt", named("inner")+named("left")+named("outer")+build(t, func(b *topology.Builder) { streamJoins["outer"](b, window.Within(time.Second)) }).Describe())
}

// Topics with different numbers of partitions are refused at start.
func TestPT03StreamJoin(t *testing.T) {
	top := build(t, func(b *topology.Builder) { streamJoins["inner"](b, window.Within(time.Second)) })
	_, bad := engine.Layout(engine.GraphOf(top), "app", map[string]int32{"words": 6, "more": 1, "joined": 3})
	if len(bad) != 1 || bad[0].Topic != "more" || !strings.Contains(bad[0].Problem, "has 1 partitions and words has 6") || !strings.Contains(bad[0].Remedy, "Repartition") {
		t.Errorf("%+v", bad)
	}
}

// What Build refuses, with what to do.
func TestStreamJoinFaults(t *testing.T) {
	inner := func(name string, spec window.JoinSpec) func(*topology.Builder) {
		return func(b *topology.Builder) { b.Stream(words).Join(name, b.Stream(more), spec, concat) }
	}
	const century = 100 * 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		declare func(*topology.Builder)
		want    string
	}{
		"no name":       {inner("", window.Within(time.Second)), "the name is empty"},
		"a bad name":    {inner("a/b", window.Within(time.Second)), "illegal character"},
		"no window":     {inner("j", window.JoinSpec{}), "the join's window is the zero JoinSpec"},
		"backwards":     {inner("j", window.Within(-time.Second)), "both older and younger"},
		"ends early":    {inner("j", window.Following(time.Second).Before(-2*time.Second)), "ends before it starts"},
		"grace":         {inner("j", window.Within(time.Second).Grace(-1*time.Second)), "grace"},
		"microseconds":  {inner("j", window.Within(time.Microsecond)), "before"},
		"overflow":      {inner("j", window.Within(century*2).Grace(century)), "the join's window overflows"},
		"overflow of 2": {inner("j", window.Within(math.MaxInt64/1_000_000*time.Millisecond)), "the join's window overflows"},
		"no function": {func(b *topology.Builder) {
			b.Stream(words).Join[string, string]("j", b.Stream(more), window.Within(time.Second), nil)
		}, "the function is nil"},
		"no stream": {func(b *topology.Builder) {
			b.Stream(words).Join("j", topology.Stream[string, string]{}, window.Within(time.Second), concat)
		}, "zero stream"},
		"another builder": {func(b *topology.Builder) {
			b.Stream(words).Join("j", topology.New().Stream(more), window.Within(time.Second), concat)
		}, "another Builder"},
		"no serde": {func(b *topology.Builder) {
			b.Stream(words).MapValues(toShop).Join("j", b.Stream(more), window.Within(time.Second), func(shop, string) string { return "" })
		}, "no serde is known for its value"},
		"twice": {func(b *topology.Builder) {
			inner("j", window.Within(time.Second))(b)
			inner("j", window.Within(time.Minute))(b)
		}, "two stores have this name"},
		"a table's store": {func(b *topology.Builder) {
			b.Stream(words).GroupByKey().Count("j-this-join-store", few)
			inner("j", window.Within(time.Second))(b)
		}, "two stores have this name"},
	} {
		b := topology.New()
		c.declare(b)
		if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, c.want)
		}
	}
}
