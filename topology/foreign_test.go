package topology_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

var (
	requests = "app-fk-subscription-registration-topic"
	answers  = "app-fk-subscription-response-topic"
)

// named is the foreign key of a row: the value before a colon. A row that begins with a minus has none.
func named(_, v string) (string, bool) {
	if v == "bad" {
		panic(v)
	}
	key, _, _ := strings.Cut(v, ":")
	return key, !strings.HasPrefix(v, "-")
}

// foreignJoins are the two foreign-key joins.
var foreignJoins = map[string]func(l, r textTable, opts ...topology.ForeignOption) textTable{
	"inner": func(l, r textTable, opts ...topology.ForeignOption) textTable {
		return l.JoinForeign("fk", r, named, shownBoth, opts...)
	},
	"left": func(l, r textTable, opts ...topology.ForeignOption) textTable {
		return l.LeftJoinForeign("fk", r, named, shownLeft, opts...)
	},
}

func foreign(kind string, opts ...topology.ForeignOption) func(b *topology.Builder) {
	return func(b *topology.Builder) {
		foreignJoins[kind](b.Table("l", words, few), b.Table("r", more, few), opts...).To(joinedTopic)
	}
}

// say sends records, each as "topic key=value@time", and writes down what follows from each.
func (w *world) say(records ...string) string {
	w.t.Helper()
	var got []string
	for _, text := range records {
		topic, record, _ := strings.Cut(text, " ")
		w.send(topic, record)
		got = append(got, w.took("joined"))
	}
	return strings.Join(got, "|")
}

// Semantics J23 and J24, with what Kafka Streams 4.1 answered (section 22), and the times of FK results.
func TestJoinForeign(t *testing.T) {
	steps := []string{"words k1=A@1", "more A=X@5", "words k1=A:2@3", "words k2=A@4", "more A=Y@2", "words k1=B@7", "words k1=∅@8", "words k1=∅@9", "more A=∅@9", "words k2=-@10", "words k2=-2@11"}
	for kind, want := range map[string]string{
		"inner": "|k1=AX@5|k1=A:2X@5|k2=AX@5|k1=A:2Y@2 k2=AY@2|k1=∅@7|k1=∅@8||k2=∅@9|k2=∅@10|",
		"left":  "k1=A_@1|k1=AX@5|k1=A:2X@5|k2=AX@5|k1=A:2Y@2 k2=AY@2|k1=B_@7|k1=∅@8||k2=A_@9|k2=-_@10|k2=-2_@11",
	} {
		w := run(t, foreign(kind))
		if got := w.say(steps...); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", kind, got, want)
		}
		if kind == "inner" {
			w.dropped("fk-subscription-registration-processor null_key", "fk-subscription-registration-processor null_key")
		} else {
			w.dropped()
		}
	}
}

// The records on the internal topics and in the store are those of Kafka Streams.
func TestForeignBytes(t *testing.T) {
	w := run(t, foreign("inner"))
	w.send("more", "A=X@5")
	w.send("words", "k=A@1", "k=B@2", "k=∅@3")
	hexed := func(topic string) (out []string) {
		for _, e := range w.sent[topic] {
			out = append(out, fmt.Sprintf("%d %s=%s@%d", e.partition, e.key, hex.EncodeToString(e.value), e.at))
		}
		return out
	}
	asked := hexed(requests)
	a, b := "fa79dbb0eb96db7831044d767f696750", asked[1][len("0 A=0100"):][:32]
	want := fmt.Sprintf("0 A=0103%s6b00000000@1, 0 A=0100%s6b00000000@2, 0 B=0102%s6b00000000@2, 0 B=81016b00000000@3", a, b, b)
	if got := strings.Join(asked, ", "); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
	want = fmt.Sprintf("0 k=00%s58@5, 0 k=00%s@2, 0 k=80@3", a, b)
	if got := strings.Join(hexed(answers), ", "); got != want {
		t.Errorf("answered %s, want %s", got, want)
	}
	w.commit()
	w.logged("fk-subscription-store", "\x00\x00\x00\x01Ak=∅@2 \x00\x00\x00\x01Bk=∅@3")
}

// Case FK01: answers that a newer row has overtaken are dropped, in whatever order they come.
func TestFK01AnswersSwapped(t *testing.T) {
	for _, swapped := range []bool{false, true} {
		w := run(t, foreign("left"))
		w.send("more", "a=1@1", "b=2@1")
		w.took("joined")
		w.held = answers
		w.send("words", "k=a@2", "k=b@3")
		w.held = ""
		late := w.late
		if len(late) != 2 {
			t.Fatalf("%d answers", len(late))
		}
		if swapped {
			late[0], late[1] = late[1], late[0]
		}
		for _, e := range late {
			if err := w.give(e); err != nil {
				t.Fatal(err)
			}
		}
		w.wants("joined", "k=b2@3")
		w.dropped("fk-subscription-response-resolver stale")
	}
}

// Case FK02: a row that moves to a key that does not exist leaves the result, and comes back with the key.
func TestFK02MovesToNothing(t *testing.T) {
	w := run(t, foreign("inner"))
	if got := w.say("more fk1=one@1", "words k=fk1@2", "words k=fk2@3", "more fk2=two@4"); got != "|k=fk1one@2|k=∅@3|k=fk2two@4" {
		t.Error(got)
	}
}

// Case FK03: one result for each update, and never a null in between.
func TestFK03NoExtraNulls(t *testing.T) {
	w := run(t, foreign("left"))
	if got := w.say("more a=1@1", "more b=2@1", "words k=a@2", "words k=b@3", "words k=∅@4"); got != "||k=a1@2|k=b2@3|k=∅@4" {
		t.Error(got)
	}
}

// Case N04: a left join keeps rows without a foreign key; an inner join counts them.
func TestN04RowsWithoutKey(t *testing.T) {
	w := run(t, foreign("left"))
	if got := w.say("more 7=x@1", "words r1=-@2", "words r2=7@3"); got != "|r1=-_@2|r2=7x@3" {
		t.Error(got)
	}
	w = run(t, foreign("inner", topology.OnDrop(topology.DeadLetter("odd"), processor.NullKey)))
	if got := w.say("more 7=x@1", "words r1=-@2", "words r2=7@3"); got != "||r2=7x@3" {
		t.Error(got)
	}
	w.dropped("fk-subscription-registration-processor null_key")
	w.wants("odd", "r1=-@2")
}

// An empty key and an empty row are there (cases N01 and N02).
func TestForeignKeysThatAreEmpty(t *testing.T) {
	w := run(t, foreign("inner"))
	if got := w.say("words k=@1", "more =x@2", "more =@3", "more =∅@4", "more ==@5"); got != "|k=x@2|k=@3|k=∅@4|k==@5" {
		t.Error(got)
	}
}

// A key function that fails is a failed record. The row's result stays, its subscription ends, and the next value is as good as new.
func TestForeignKeyThatFails(t *testing.T) {
	if err := run(t, foreign("inner")).try("words", "k=bad@1"); err == nil || !strings.Contains(err.Error(), "fk-subscription-registration-processor") {
		t.Errorf("got %v", err)
	}
	skip := func(w *world) { w.env.OnProcess = engine.Policy{Kind: engine.Skip} }
	w := run(t, foreign("inner"), skip)
	if got := w.say("more A=X@1", "words k=A@2", "words k=bad@3", "more A=Y@4", "words k=bad@5", "words k=A@6", "words k=bad@7", "words k=∅@8"); got != "|k=AX@2||||k=AY@6||" {
		t.Error(got)
	}
	w.dropped("fk-subscription-registration-processor skipped", "fk-subscription-registration-processor skipped", "fk-subscription-registration-processor skipped")
	w.commit()
	w.logged("fk-subscription-store", "\x00\x00\x00\x01Ak=∅@7")
}

// Keys and rows that cannot be written are failed records of the sinks, and the task goes on if their policy says so.
func TestForeignJoinThatCannotWrite(t *testing.T) {
	picky := serde.Func(func(dst []byte, v string) ([]byte, error) {
		if v == "no" {
			return dst, errors.New("not this one")
		}
		if v == "panic" {
			panic(v)
		}
		return append(dst, v...), nil
	}, func(src []byte) (string, error) { return string(src), nil })
	declare := func(b *topology.Builder) {
		r := b.Table("r", topology.NewTopic("more", picky, serde.String()), few).MapValues(func(v string) string { return v }).WithValue(picky)
		b.Table("l", words, few).LeftJoinForeign("fk", r, named, shownLeft).To(joinedTopic)
	}
	if err := run(t, declare).try("words", "k=no@1"); err == nil || !strings.Contains(err.Error(), "fk-subscription-registration-sink") {
		t.Errorf("got %v", err)
	}
	skip := func(w *world) {
		w.env.OnProcess, w.env.OnProduce = engine.Policy{Kind: engine.Skip}, engine.Policy{Kind: engine.Skip}
	}
	w := run(t, declare, skip)
	if got := w.say("words k=no@1", "words k=panic@2", "words k=A@3", "more A=no@4", "more A=panic@5", "more A=X@6"); got != "||k=A_@3|||k=AX@6" {
		t.Error(got)
	}
	w.dropped("fk-subscription-registration-sink skipped", "fk-subscription-registration-sink skipped", "fk-subscription-response-sink skipped", "fk-subscription-response-sink skipped")
}

// The result is stored only if something needs its rows, under the join's name if it was given none.
func TestForeignResultIsStored(t *testing.T) {
	for _, c := range []struct {
		use  func(t textTable)
		want string
	}{
		{func(j textTable) { j.To(joinedTopic) }, ""},
		{func(j textTable) { j.Stored("own").GroupBy(swapped).Count("n", few) }, "own "},
		{func(j textTable) { j.GroupBy(swapped).Count("n", few) }, "fk-result "},
		{func(j textTable) { j.Filter(keep).MapValues(upper).GroupBy(swapped).Count("n", few) }, "fk-result "},
		{func(j textTable) { j.Join(j.MapValues(upper), shownBoth).To(joinedTopic) }, "fk-result "},
	} {
		g := engine.GraphOf(build(t, func(b *topology.Builder) {
			c.use(foreignJoins["left"](b.Table("l", words, store.FiniteKeys(7)), b.Table("r", more, few)))
		}))
		got := ""
		for _, s := range g.Subs {
			for _, d := range s.Stores {
				if d.Name != "l" && d.Name != "r" && d.Name != "n" && d.Name != "fk-subscription-store" {
					got += d.Name + " "
				}
				if d.Name != "r" && d.Name != "n" && d.Expected != 7 {
					t.Errorf("%s has room for %d rows", d.Name, d.Expected)
				}
			}
		}
		if got != c.want {
			t.Errorf("stored %q, want %q", got, c.want)
		}
	}
	w := run(t, func(b *topology.Builder) {
		foreignJoins["left"](b.Table("l", words, few), b.Table("r", more, few)).GroupBy(swapped).Count("n", few).To(counts)
	})
	w.send("words", "a=X@1", "b=X@2")
	w.send("more", "X=!@3")
	w.wants("counts", "X_=1@1 X_=2@2 X_=1@3 X!=1@3 X_=0@3 X!=2@3")
}

func swapped(k, v string) (string, string) { return v, k }

// A table may be joined with itself, and a result with further tables.
func TestForeignJoinsInARow(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		people := b.Table("people", words, few)
		boss := func(_, v string) (string, bool) { key, _, _ := strings.Cut(v, "/"); return key, true }
		withBoss := people.LeftJoinForeign("boss", people, boss, func(v string, b *string) string { return v + "/" + shown(b, nil) })
		withBoss.JoinForeign("again", b.Table("r", more, few), boss, shownBoth, topology.Named("end")).Join(people, shownBoth).To(joinedTopic)
	})
	w.send("more", "ann=R@1")
	w.send("words", "bob=ann@2", "ann=me@3")
	w.wants("joined", "bob=ann/__Rann@2 bob=ann/me_Rann@3")
}

// Names, numbers and co-partitioning are those of Kafka Streams.
func TestForeignPictures(t *testing.T) {
	top := build(t, func(b *topology.Builder) {
		l, r := b.Table("l-store", words, few), b.Table("r-store", more, few)
		l.LeftJoinForeign("fk", r, named, shownLeft).Stored("fk-store").To(joinedTopic)
	})
	golden(t, "foreign.txt", top.Describe())
	g := engine.GraphOf(top)
	counts, misfits := engine.Layout(g, "app", map[string]int32{"words": 3, "more": 5})
	if len(misfits) > 0 || counts[requests] != 5 || counts[answers] != 3 {
		t.Errorf("partitions %v, misfits %v", counts, misfits)
	}
	top = build(t, func(b *topology.Builder) {
		b.Version(2)
		foreign("left")(b)
	})
	for _, s := range engine.GraphOf(top).Subs {
		for _, in := range s.Inputs {
			if in.Repartition && !strings.HasPrefix(in.Full("app"), "app-fk-v2-subscription-") {
				t.Error(in.Full("app"))
			}
		}
	}
}

// Answers go to the partition that a row came from, whatever its key.
func TestAnswersGoHome(t *testing.T) {
	w := run(t, foreign("left"), func(w *world) { w.partition, w.counts["words"], w.counts[answers] = 2, 3, 3 })
	w.send("words", "k=A@1")
	for _, e := range w.sent[answers] {
		if e.partition != 2 {
			t.Errorf("an answer to partition %d", e.partition)
		}
	}
	w.wants("joined", "k=A_@1")
	// A subscription that was written before the topic shrank, if that were possible.
	w = run(t, foreign("left"))
	if err := w.give(emitted{topic: requests, key: []byte("A"), value: []byte("\x81\x02k\x00\x00\x00\x09"), at: 1}); err == nil || !strings.Contains(err.Error(), "partition 9") {
		t.Errorf("got %v", err)
	}
	w = run(t, foreign("left"), func(w *world) { w.env.OnDecode = engine.Policy{Kind: engine.Skip} })
	for _, value := range [][]byte{nil, []byte("nonsense"), []byte("\x81\x03k\x00\x00\x00\x00")} {
		if err := w.give(emitted{topic: requests, value: value, at: 1}); err != nil {
			t.Fatal(err)
		}
		if err := w.give(emitted{topic: answers, value: append(value, "\x80"...), at: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.took("joined"); got != "" {
		t.Error(got)
	}
	for _, reason := range []string{"fk-subscription-receive null_value", "fk-subscription-registration-source skipped", "fk-subscription-receive null_key", "fk-subscription-response-resolver null_key"} {
		if !strings.Contains(strings.Join(w.drops, ", "), reason) {
			t.Errorf("no %q in %q", reason, w.drops)
		}
	}
}

var joinMistakes = []struct {
	name    string
	declare func(b *topology.Builder)
}{
	{"no function", func(b *topology.Builder) {
		l, r := b.Table("l", words, few), b.Table("r", more, few)
		l.Join[string, string](r, nil)
		l.JoinForeign[string, string, string]("a", r, named, nil)
		l.LeftJoinForeign("b", r, nil, shownLeft)
	}},
	{"names", func(b *topology.Builder) {
		l, r := b.Table("l", words, few), b.Table("r", more, few)
		l.JoinForeign("", r, named, shownBoth)
		l.JoinForeign("a/b", r, named, shownBoth)
		l.JoinForeign(strings.Repeat("x", 151), r, named, shownBoth)
		l.JoinForeign("a", r, named, shownBoth)
		l.JoinForeign("a", r, named, shownBoth)
		b.Stream(counts).GroupByKey().Count("a-subscription-store", few)
	}},
	{"tables of another builder, and of none", func(b *topology.Builder) {
		l := b.Table("l", words, few)
		l.OuterJoin(textTable{}, shown)
		l.LeftJoin(topology.New().Table("r", more, few), shownLeft)
		l.JoinForeign("a", textTable{}, named, shownBoth)
	}},
	{"no serde", func(b *topology.Builder) {
		l, r := b.Table("l", words, few), b.Table("r", more, few)
		l.MapValues(toShop).JoinForeign("a", r, func(string, shop) (string, bool) { return "", true }, func(shop, string) string { return "" })
		l.JoinForeign("b", r.MapValues(toShop), named, func(string, shop) string { return "" })
		l.Join(r, func(string, string) shop { return shop{} }).Stored("shops")
	}},
	{"a right table in an order of its own", func(b *topology.Builder) {
		own := topology.NewTopic("own", serde.String(), serde.String()).PartitionedBy(func(_, _ string, _ int) int { return 0 })
		b.Table("l", words, few).JoinForeign("a", b.Table("r", own, few), named, shownBoth)
	}},
	{"one side in an order of its own", func(b *topology.Builder) {
		own := topology.NewTopic("own", serde.String(), serde.String()).PartitionedBy(func(_, _ string, _ int) int { return 0 })
		b.Stream(own).JoinTable(b.Table("l", words, few), shownBoth)
		b.Stream(own).RepartitionBy("r", func(_, _ string, _ int) int { return 0 }).Merge(b.Stream(more)).GroupByKey().Count("n", few)
		b.Stream(own).Repartition("fits").JoinTable(b.Table("m", more, few), shownBoth)
	}},
	{"old values that nobody knows", func(b *topology.Builder) {
		l, r := b.Table("l", words, few), b.Table("r", more, few)
		l.Join(l.MapValues(upper), shownBoth).GroupBy(swapped).Count("a", few)
		l.OnCommit().Join(r, shownBoth).GroupBy(swapped).Count("b", few)
	}},
	{"a table with a TTL on both sides", func(b *topology.Builder) {
		l := b.Table("l", words, store.TTL(1e9))
		l.OuterJoin(l.MapValues(upper), shown).Stored("a")
		l.Join(l.MapValues(upper), shownBoth).Stored("b")
	}},
}

func TestJoinFaults(t *testing.T) {
	var out strings.Builder
	for _, m := range joinMistakes {
		b := topology.New()
		m.declare(b)
		_, err := b.Build()
		faults, ok := errors.AsType[topology.Faults](err)
		if !ok {
			t.Errorf("%s: got %v", m.name, err)
			continue
		}
		fmt.Fprintf(&out, "# %s\n%s\n\n", m.name, place.ReplaceAllString(faults.Error(), "$1"))
	}
	golden(t, "joinfaults.txt", out.String())
	var none textTable
	none.Join(none, shownBoth).LeftJoin(none, shownLeft).OuterJoin(none, shown).JoinForeign("a", none, named, shownBoth).LeftJoinForeign("b", none, named, shownLeft).To(words)
}
