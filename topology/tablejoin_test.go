package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

var joinedTopic = topology.NewTopic("joined", serde.String(), serde.String())

// shown is what joins make of two sides.
func shown(l, r *string) string {
	one := func(s *string) string {
		if s == nil {
			return "_"
		}
		return *s
	}
	return one(l) + one(r)
}

func shownLeft(l string, r *string) string { return shown(&l, r) }

func shownBoth(l, r string) string { return l + r }

type textTable = topology.Table[string, string]

// joins are the three joins of two tables.
var joins = map[string]func(l, r textTable) textTable{
	"inner": func(l, r textTable) textTable { return l.Join(r, shownBoth) },
	"left":  func(l, r textTable) textTable { return l.LeftJoin(r, shownLeft) },
	"outer": func(l, r textTable) textTable { return l.OuterJoin(r, shown) },
}

// Semantics J17 to J19, with times: what is sent for each update, stored or not.
func TestJoinTables(t *testing.T) {
	steps := []struct{ topic, record string }{
		{"more", "k=∅@1"}, {"words", "k=l@1"}, {"more", "k=r@5"}, {"more", "k=R@3"}, {"words", "k=L@7"}, {"more", "k=∅@8"},
		{"words", "k=∅@9"}, {"words", "k=∅@9"}, {"more", "k=r@9"}, {"more", "k=∅@10"},
	}
	for kind, want := range map[string]string{
		"inner": "||k=lr@5|k=lR@3|k=LR@7|k=∅@8||||",
		"left":  "|k=l_@1|k=lr@5|k=lR@3|k=LR@7|k=L_@8|k=∅@9|||",
		"outer": "|k=l_@1|k=lr@5|k=lR@3|k=LR@7|k=L_@8|k=∅@9||k=_r@9|k=∅@10",
	} {
		for _, keep := range []bool{false, true} {
			w := run(t, func(b *topology.Builder) {
				j := joins[kind](b.Table("l", words, few), b.Table("r", more, few))
				if keep {
					j = j.Stored("j")
				}
				j.To(joinedTopic)
			})
			var got []string
			for _, s := range steps {
				w.send(s.topic, s.record)
				got = append(got, w.took("joined"))
			}
			if got := strings.Join(got, "|"); got != want {
				t.Errorf("%s, stored %v:\ngot  %s\nwant %s", kind, keep, got, want)
			}
		}
	}
}

// Old values are worked out from the sides or, where the result is stored, read from it.
func TestOldValuesOfJoinedTables(t *testing.T) {
	for kind, want := range map[string]string{
		"inner": "k=-->lr@2 k=lr->lR@3 k=lR->LR@4 k=LR->-@5",
		"left":  "k=-->l_@1 k=l_->lr@2 k=lr->lR@3 k=lR->LR@4 k=LR->-@5",
		"outer": "k=-->l_@1 k=l_->lr@2 k=lr->lR@3 k=lR->LR@4 k=LR->_R@5 k=_R->-@6",
	} {
		for _, keep := range []bool{false, true} {
			w := run(t, func(b *topology.Builder) {
				j := joins[kind](b.Table("l", words, few), b.Table("r", more, few))
				if keep {
					j = j.Stored("j")
				}
				j.Changes(func(_ string, c topology.Change[string]) string {
					one := func(v *string) string {
						if v == nil {
							return "-"
						}
						return *v
					}
					return one(c.Old) + "->" + one(c.New)
				}).To(joinedTopic)
			})
			w.send("words", "k=l@1")
			w.send("more", "k=r@2", "k=R@3")
			w.send("words", "k=L@4", "k=∅@5")
			w.send("more", "k=∅@6")
			w.wants("joined", want)
		}
	}
}

// A join that is not stored is read through, by streams and by further joins.
func TestJoinsAreReadThrough(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		l := b.Table("l", words, few)
		j := l.LeftJoin(b.Table("r", more, few), shownLeft)
		b.Stream(counts).JoinTable(j.Filter(func(_, v string) bool { return v != "xy" }), func(n int64, row string) string { return fmt.Sprint(n, row) }).To(joinedTopic)
	})
	if got := stored(w.graph); got != "l r" {
		t.Errorf("stored %q", got)
	}
	one := string([]byte{0, 0, 0, 0, 0, 0, 0, 1})
	look := func() { w.send("counts", "k="+one+"@9") }
	look()
	w.send("words", "k=x@1")
	look()
	w.send("more", "k=y@1")
	look()
	w.send("more", "k=z@1")
	look()
	w.wants("joined", "k=1x_@9 k=1xz@9")
	w.dropped("KSTREAM-JOIN-0000000009 no_row", "KSTREAM-JOIN-0000000009 no_row")
}

// A function that makes no value makes no row; one that fails is a failed record of its own side.
func TestJoinFunctions(t *testing.T) {
	f := func(l, r *string) *string {
		if v := shown(l, r); v != "none_" {
			return &v
		}
		return nil
	}
	w := run(t, func(b *topology.Builder) {
		b.Default(serde.Optional(serde.String()))
		b.Table("l", words, few).OuterJoin(b.Table("r", more, few), f).Stored("j", store.InMemory()).To(topology.NewTopic("joined", serde.String(), serde.Optional(serde.String())))
	})
	w.send("words", "k=none@1", "k=one@2")
	w.wants("joined", "k=∅@1 k=one_@2")

	w = run(t, func(b *topology.Builder) {
		b.Table("l", words, few).Join(b.Table("r", more, few), func(l, r string) string {
			if l == "bad" {
				panic(l)
			}
			return l + r
		}, topology.Named("pair")).To(joinedTopic)
	}, func(w *world) { w.env.OnProcess = engine.Policy{Kind: engine.Skip} })
	w.send("more", "k=r@1")
	w.send("words", "k=bad@2", "k=l@3", "k=bad@4")
	w.send("more", "k=R@5")
	w.send("words", "k=L@6")
	w.wants("joined", "k=lr@3 k=LR@6")
	w.dropped("pair-join-this skipped", "pair-join-this skipped", "pair-join-other skipped")
}

// Numbers and names are those of Kafka Streams.
func TestJoinedTablesInPictures(t *testing.T) {
	top := build(t, func(b *topology.Builder) {
		l, r := b.Table("l-store", words, few), b.Table("r-store", more, few)
		l.OuterJoin(r, shown).Stored("join-store").To(joinedTopic)
		l.Join(r, shownBoth, topology.Named("pair"))
	})
	golden(t, "tablejoin.txt", top.Describe())
}

// Sides with one origin: the result is exact, and old values are if the result is stored, which Build asks for.
func TestJoinWithItself(t *testing.T) {
	declare := func(b *topology.Builder, keep bool) {
		tab := b.Table("t", words, few)
		j := tab.OuterJoin(tab.MapValues(strings.ToUpper).Stored("upper"), shown)
		if keep {
			j = j.Stored("j")
		}
		j.GroupBy(func(_, v string) (string, string) { return "all", v }).Reduce("sum", few, func(sum, v string) string { return sum + "+" + v }, func(sum, v string) string { return sum + "-" + v }).To(joinedTopic)
	}
	w := run(t, func(b *topology.Builder) { declare(b, true) })
	w.send("words", "k=a@1", "k=b@2")
	w.wants("joined", "all=aA@1 all=aA-aA+aA@1 all=aA-aA+aA-aA+bB@2 all=aA-aA+aA-aA+bB-bB+bB@2")

	b := topology.New()
	declare(b, false)
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "call Stored with a name on the join") {
		t.Errorf("got %v", err)
	}
}

// What a TTL removes leaves the join.
func TestJoinedRowsExpire(t *testing.T) {
	w := run(t, func(b *topology.Builder) {
		b.Table("l", words, store.TTL(80*time.Millisecond)).LeftJoin(b.Table("r", more, few), shownLeft).Stored("j").To(joinedTopic)
	})
	w.send("more", "k=r@1")
	w.send("words", "k=l@1", "x=l@200")
	w.wants("joined", "k=lr@1 x=l_@200 k=∅@200")
}
