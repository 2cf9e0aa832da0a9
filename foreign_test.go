package kolk

import (
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
)

// A foreign-key join through a broker, with inputs and internal topics of different sizes: the count of its rows equals the batch, also after a restart without disk.
func TestForeignJoin(t *testing.T) {
	build := func() *topology.Builder {
		b := topology.New()
		customers := b.Table("customers", topology.NewTopic("customers", serde.String(), serde.String()), few)
		b.Table("orders", words, few).JoinForeign("fk", customers, func(_, v string) (string, bool) { return v, v != "" }, func(_, country string) string { return country }).
			GroupBy(func(k, country string) (string, string) { return country, k }).Count("by-country", few).To(totals)
		return b
	}
	inWorld(t, map[string]int32{"words": 3, "customers": 2, "totals": 2}, func(w *world) {
		c := w.config("app")
		c.CommitEvery = 50 * time.Millisecond
		topics := strings.Fields("words customers app-fk-subscription-registration-topic app-fk-subscription-response-topic app-by-country-repartition")
		r := w.start(build(), c).ready()
		w.send("customers", "anna=AT", "bert=BE")
		w.send("words", "1=anna", "2=bert", "3=anna", "4=", "5=nobody")
		w.settled("app", topics...)
		w.send("customers", "anna=IT")
		w.settled("app", topics...)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.same("counts", w.counts("totals"), map[string]int64{"AT": 0, "BE": 1, "IT": 2})
		c.StateDir = t.TempDir()
		r = w.start(build(), c).ready()
		w.send("customers", "bert=IT", "nobody=BE")
		w.settled("app", topics...)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.same("counts after restart", w.counts("totals"), map[string]int64{"AT": 0, "BE": 1, "IT": 3})
		found, err := w.adm.ListTopics(t.Context(), topics[2], topics[3])
		if err != nil || len(found[topics[2]].Partitions) != 2 || len(found[topics[3]].Partitions) != 3 {
			t.Errorf("internal topics %v, %v", found, err)
		}
	})
}

var few = store.FiniteKeys(100)
