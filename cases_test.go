package kolk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// R01: a broker that stamps records with the time of their arrival does not get to do so on repartition topics: windows behind them go by event time.
func TestR01(t *testing.T) {
	ten := window.Tumbling(10 * time.Second)
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		log := "LogAppendTime"
		if _, err := w.adm.AlterBrokerConfigs(w.t.Context(), []kadm.AlterConfig{{Name: "log.message.timestamp.type", Value: &log}}); err != nil {
			t.Fatal(err)
		}
		b := topology.New()
		b.Stream(words).GroupBy(func(_, v string) string { return v }).Windowed(ten).Count("windows").To(topology.NewTopic("totals", window.KeySerde(serde.String(), ten), serde.Int64()))
		w.create("stamped", 1)
		w.start(b, w.config("app")).ready()
		w.produce("words", []byte("k"), []byte("v"), 1000)
		w.settled("app", "words", "app-windows-repartition")
		out := w.read("totals")
		if len(out) != 1 {
			t.Fatalf("%d results", len(out))
		}
		if k, err := window.KeySerde(serde.String(), ten).Decode(out[0].Key); err != nil || k != window.Of("v", time.UnixMilli(0), time.UnixMilli(10_000)) {
			t.Errorf("counted in %v, %v", k, err)
		}
		configs, err := w.adm.DescribeTopicConfigs(w.t.Context(), "app-windows-repartition", "app-windows-changelog")
		if err != nil || len(configs) != 2 {
			t.Fatal(configs, err)
		}
		for _, c := range configs {
			if i := slices.IndexFunc(c.Configs, func(c kadm.Config) bool { return c.Key == "message.timestamp.type" }); i < 0 || c.Configs[i].MaybeValue() != "CreateTime" {
				t.Errorf("topic %s is not created with CreateTime", c.Name)
			}
		}
	})
}

// R03: operators that are added do not rename state: the count goes on.
func TestR03(t *testing.T) {
	inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
		c := w.config("app")
		r := w.start(countingValues(), c).ready()
		w.send("words", "a=k", "b=k", "c=k")
		w.settled("app", "words", "app-counts-repartition")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		b := topology.New()
		b.Stream(words).Filter(func(_, v string) bool { return v != "" }).MapValues(strings.ToLower).GroupBy(func(_, v string) string { return v }).Count("counts", few).To(totals)
		w.start(b, c).ready()
		w.send("words", "d=K")
		w.settled("app", "words", "app-counts-repartition")
		w.same("counts", w.counts("totals"), map[string]int64{"k": 4})
		found, err := w.adm.ListTopics(w.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name := range found {
			if strings.HasPrefix(name, "app-") && name != "app-counts-changelog" && name != "app-counts-repartition" {
				t.Errorf("topic %s was made too", name)
			}
		}
	})
}

// R04: internal topics have as many partitions as what writes them, through all levels, whatever the broker's default is; one that somebody else made with another number is refused.
func TestR04(t *testing.T) {
	chain := func() *topology.Builder {
		b := topology.New()
		table := b.Table("users", usersTopic, few)
		b.Stream(words).SelectKey(func(_, v string) string { return v }).Repartition("first").SelectKey(func(_, v string) string { return v + v }).Repartition("second").
			SelectKey(func(_, v string) string { return v }).Repartition("third").LeftJoinTable(table, func(v string, user *string) string {
			if user == nil {
				return v + " nobody"
			}
			return v + " " + *user
		}).GroupByKey().Count("counts", few).To(totals)
		return b
	}
	inWorld(t, map[string]int32{"words": 4, "users": 6, "totals": 1}, func(w *world) {
		w.send("users", "x=X", "y=Y")
		w.send("words", "a=x", "b=y", "c=x")
		w.start(chain(), w.config("app")).ready()
		w.settled("app", "words", "users", "app-first-repartition", "app-second-repartition", "app-third-repartition")
		w.same("counts", w.counts("totals"), map[string]int64{"x": 2, "y": 1})
		found, err := w.adm.ListTopics(w.t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// What is joined has the number of what it is joined with.
		for name, want := range map[string]int{"app-first-repartition": 4, "app-second-repartition": 4, "app-third-repartition": 6, "app-users-changelog": 6, "app-counts-changelog": 6} {
			if got := len(found[name].Partitions); got != want {
				t.Errorf("%s has %d partitions, want %d", name, got, want)
			}
		}
	})
	inWorld(t, map[string]int32{"words": 4, "totals": 1, "app-counts-repartition": 1}, func(w *world) {
		err := w.start(countingValues(), w.config("app")).failed()
		if fault, ok := errors.AsType[*TopicError](err); !ok || fault.Topic != "app-counts-repartition" || !strings.Contains(fault.Problem, "1") || !strings.Contains(fault.Problem, "4") {
			t.Errorf("a topic that the broker made by itself: %v", err)
		}
	})
}

// RB01: what comes in while another instance takes over a part of the tasks is neither lost nor counted twice.
func TestRB01(t *testing.T) {
	inWorld(t, map[string]int32{"words": 4, "totals": 1}, func(w *world) {
		w.start(counting(), w.config("app")).ready()
		want := make(map[string]int64)
		for i := range 100 {
			if i == 50 {
				w.start(counting(), w.config("app"))
			}
			k := fmt.Sprint("k", i%9)
			want[k]++
			w.send("words", k+"=")
			w.wait(20 * time.Millisecond)
		}
		w.settled("app", "words")
		w.same("counts", w.counts("totals"), want)
	})
}

// told collects what hooks are told, as "node reason".
type told struct {
	mu  sync.Mutex
	all []string
}

func (x *told) hook(d Drop) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, d.Node+" "+string(d.Reason))
}

func (x *told) sorted() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	slices.Sort(x.all)
	return x.all
}

// Rows and records without keys, and rows that are not there, are counted where they are missed, on either side of every join; Health and the hooks say so. The two users come
// before there is a row to join them with.
func TestMissesOfJoins(t *testing.T) {
	named := topology.Named
	job := func() *topology.Builder {
		b := topology.New()
		users := b.Table("users", usersTopic, few, named("users-table"))
		palette := b.GlobalTable("palette", colors, few, named("palette-table"))
		in := b.Stream(words)
		in.JoinTable(users, func(v, u string) string { return "table " + v + u }, named("table")).To(painted)
		in.JoinGlobal(palette, func(_, v string) (string, bool) { return v, v != "" }, func(v, c string) string { return "global " + c }, named("global")).To(painted)
		rows := in.ToTable("rows", few, named("rows-table"))
		rows.Join(users, func(v, u string) string { return "tables " + v + u }, named("tables")).To(painted)
		rows.JoinForeign("fk", users, func(_, v string) (string, bool) { return v, v != "" }, func(v, u string) string { return "foreign " + u }).To(painted)
		return b
	}
	inWorld(t, map[string]int32{"words": 2, "users": 2, "painted": 1}, func(w *world) {
		w.create("colors", 1, "cleanup.policy", "compact")
		w.send("colors", "x=red")
		w.send("users", "x=X", "k=K")
		nullKey := func(topic string) {
			if err := w.cl.ProduceSync(w.t.Context(), &kgo.Record{Topic: topic, Value: []byte("x"), Partition: 0, Timestamp: time.UnixMilli(1_700_000_000_000)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		nullKey("users")
		c := w.config("app")
		var dropped, missed told
		c.Hooks = &Hooks{OnDrop: dropped.hook, OnMiss: missed.hook}
		r := w.start(job(), c).ready()
		topics := []string{"words", "users", "app-fk-subscription-registration-topic", "app-fk-subscription-response-topic"}
		w.settled("app", topics...)
		w.send("words", "k=x") // all is there
		w.settled("app", topics...)
		w.send("words", "n=y") // nothing is there
		w.send("words", "k=")  // no key for two of them
		nullKey("words")
		w.settled("app", topics...)
		w.wait(time.Second)
		misses := []string{"fk-subscription-join-foreign no_row", "fk-subscription-registration-processor null_key", "global no_row", "global null_key", "table no_row", "table null_key", "tables-join-other no_row", "tables-join-other no_row", "tables-join-this no_row"}
		drops := []string{"fk-subscription-registration-processor null_key", "global no_row", "global null_key", "rows-table null_key", "table no_row", "table null_key", "users-table null_key"}
		if got := missed.sorted(); !slices.Equal(got, misses) {
			t.Errorf("missed %q\nwant   %q", got, misses)
		}
		if got := dropped.sorted(); !slices.Equal(got, drops) {
			t.Errorf("dropped %q\nwant    %q", got, drops)
		}
		var health []string
		for _, task := range r.app.Health().Tasks {
			for _, m := range task.Misses {
				for range m.Records {
					health = append(health, m.Join+" "+string(m.Cause))
				}
			}
		}
		slices.Sort(health)
		if !slices.Equal(health, misses) {
			t.Errorf("Health says %q\nwant        %q", health, misses)
		}
	})
}

// A function that finds foreign keys and panics ends the application with the record's place; under Skip only that record is lost, and counted.
func TestForeignKeyPanics(t *testing.T) {
	job := func() *topology.Builder {
		b := topology.New()
		b.Table("orders", words, few).JoinForeign("fk", b.Table("users", usersTopic, few), func(_, v string) (string, bool) {
			if v == "bad" {
				panic("no key in it")
			}
			return v, true
		}, func(v, user string) string { return v + " " + user }).To(painted)
		return b
	}
	inWorld(t, map[string]int32{"words": 1, "users": 1, "painted": 1}, func(w *world) {
		w.send("users", "x=X")
		w.send("words", "a=x", "b=bad", "c=x")
		err := w.start(job(), w.config("app")).failed()
		fault, ok := errors.AsType[*RecordError](err)
		if !ok || fault.Topic != "words" || fault.Offset != 1 || fault.Node != "fk-subscription-registration-processor" || !strings.Contains(err.Error(), "panic: no key in it") {
			t.Fatalf("got %v", err)
		}
		c := w.config("app")
		c.OnProcessError = topology.Skip
		r := w.start(job(), c).ready()
		w.settled("app", "words", "users", "app-fk-subscription-registration-topic", "app-fk-subscription-response-topic")
		w.wait(time.Second)
		if got := w.values("painted"); !slices.Equal(got, []string{"x X", "x X"}) {
			t.Errorf("skipped: %q", got)
		}
		skipped := int64(0)
		for _, task := range r.app.Health().Tasks {
			skipped += task.Dropped[string(processor.Skipped)]
		}
		if skipped != 1 {
			t.Errorf("%d records were skipped", skipped)
		}
	})
}
