package kolk

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

// place produces key=value records where by puts them. Times go up by a second.
func (w *world) place(topic string, by func(key string, n int) int, pairs ...string) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.fake.ListenAddrs()...), kgo.Dialer(w.net.DialContext), kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, n int) int { return by(string(r.Key), n) }
	})))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		w.sends[topic]++
		r := &kgo.Record{Topic: topic, Key: []byte(k), Value: []byte(v), Timestamp: time.UnixMilli(1_700_000_000_000 + 1000*w.sends[topic])}
		if err := cl.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
			w.t.Fatal(err)
		}
	}
}

func byCRC(key string, n int) int  { return int(crc32.ChecksumIEEE([]byte(key)) % uint32(n)) }
func byJava(key string, n int) int { return int(engine.Partition([]byte(key), int32(n))) }

// values are those of a topic, sorted.
func (w *world) values(topic string) (out []string) {
	w.t.Helper()
	for _, r := range w.read(topic) {
		out = append(out, string(r.Value))
	}
	slices.Sort(out)
	return out
}

// usersTopic is what words are joined with.
var usersTopic = topology.NewTopic("users", serde.String(), serde.String())

// greet joins words with users.
func greet(repartition bool, in topology.Topic[string, string]) *topology.Builder {
	b := topology.New()
	table := b.Table("users", usersTopic, few)
	s := b.Stream(in)
	if repartition {
		s = s.Repartition("words-by-key")
	}
	s.LeftJoinTable(table, func(v string, user *string) string {
		if user == nil {
			return v + " nobody"
		}
		return v + " " + *user
	}).To(painted)
	return b
}

// PT01: a stream that a client on librdkafka wrote finds only rows that lie right by chance. Health says so, with an example and what to do, and the
// log once; what it says to do makes all of them match.
func TestPT01(t *testing.T) {
	inWorld(t, map[string]int32{"words": 6, "users": 6, "painted": 1}, func(w *world) {
		var users, events []string
		for i := range 30 {
			users = append(users, fmt.Sprintf("k%d=u%d", i, i))
			events = append(events, fmt.Sprintf("k%d=e%d", i, i))
		}
		right, elsewhere := 0, 0
		for i := range 30 {
			if k := fmt.Sprint("k", i); byCRC(k, 6) == byJava(k, 6) {
				right++
			} else {
				elsewhere++
			}
		}
		w.place("users", byJava, users...)
		w.place("words", byCRC, events...)
		c := w.config("app")
		var log bytes.Buffer
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		r := w.start(greet(false, words), c).ready()
		w.settled("app", "words", "users")
		w.wait(time.Second)
		h := r.app.Health()
		if len(h.Notices) != 1 || !h.Degraded() {
			t.Fatalf("notices %+v", h.Notices)
		}
		n := h.Notices[0]
		if n.Subject != "topic words" || !strings.Contains(n.Problem, fmt.Sprintf("of 30 sampled keys %d lie in another partition", elsewhere)) ||
			!strings.Contains(n.Remedy, "partitioner=murmur2_random") || !strings.Contains(n.Remedy, `Repartition("name")`) {
			t.Errorf("notice %+v", n)
		}
		var sum int64
		for _, task := range h.Tasks {
			for _, m := range task.Misplaced {
				sum += m.Elsewhere
				key := strings.Trim(m.Key, `"`)
				if m.Topic != "words" || byCRC(key, 6) != int(m.Partition) || byJava(key, 6) != int(m.Wanted) || m.Partition == m.Wanted {
					t.Errorf("example %+v", m)
				}
			}
		}
		if sum != int64(elsewhere) {
			t.Errorf("%d lie elsewhere, want %d", sum, elsewhere)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), "keys lie in other partitions"); got != 1 || strings.Contains(log.String(), n.Problem) {
			t.Errorf("logged %d times: %s", got, log.String())
		}
		matched := 0
		for _, v := range w.values("painted") {
			if !strings.HasSuffix(v, "nobody") {
				matched++
			}
		}
		if matched != right {
			t.Errorf("%d records matched, want %d", matched, right)
		}
	})
	inWorld(t, map[string]int32{"words": 6, "users": 6, "painted": 1}, func(w *world) {
		w.place("users", byJava, "alice=A", "order-42=B", "user-1=C", "TT0124=D")
		w.place("words", byCRC, "alice=a", "order-42=b", "user-1=c", "TT0124=d")
		r := w.start(greet(true, words), w.config("app")).ready()
		w.settled("app", "words", "users", "app-words-by-key-repartition")
		w.wait(time.Second)
		if h := r.app.Health(); h.Degraded() {
			t.Errorf("notices %+v", h.Notices) // the stream's own topic has no state beside it any more
		}
		if got := w.values("painted"); !slices.Equal(got, []string{"a A", "b B", "c C", "d D"}) {
			t.Errorf("repartitioned: %q", got)
		}
	})
}

// A topic with a partitioner of its own is checked against that, read and written by it, and a foreign-key join finds its rows.
func TestPT01OwnPartitioner(t *testing.T) {
	own := topology.NewTopic("users", serde.String(), serde.String()).PartitionedByKey(byCRC)
	job := func() *topology.Builder {
		b := topology.New()
		b.Table("orders", words, few).JoinForeign("fk", b.Table("users", own, few), func(_, v string) (string, bool) { return v, true }, func(v, user string) string { return v + " " + user }).
			To(painted)
		return b
	}
	var pairs, want []string
	for i := range 20 {
		pairs = append(pairs, fmt.Sprintf("o%d=k%d", i, i))
		want = append(want, fmt.Sprintf("k%d u%d", i, i))
	}
	slices.Sort(want)
	inWorld(t, map[string]int32{"words": 3, "users": 5, "painted": 1}, func(w *world) {
		for i := range 20 {
			w.place("users", byCRC, fmt.Sprintf("k%d=u%d", i, i))
		}
		w.send("words", pairs...)
		r := w.start(job(), w.config("app")).ready()
		w.settled("app", "words", "users", "app-fk-subscription-registration-topic", "app-fk-subscription-response-topic")
		w.wait(time.Second)
		if got := w.values("painted"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if h := r.app.Health(); h.Degraded() {
			t.Errorf("notices %+v", h.Notices)
		}
		for i := range 20 {
			w.place("users", byJava, fmt.Sprintf("k%d=v%d", i, i))
		}
		w.settled("app", "users")
		w.wait(time.Second)
		if h := r.app.Health(); len(h.Notices) != 1 || !strings.Contains(h.Notices[0].Remedy, "do not partition as the topic's PartitionedBy says") {
			t.Errorf("notices %+v", h.Notices)
		}
	})
}

// PT03: topics that must be partitioned alike and are not are named with their numbers, and nothing is created or written.
func TestPT03(t *testing.T) {
	inWorld(t, map[string]int32{"words": 6, "users": 1, "painted": 1}, func(w *world) {
		w.send("words", "a=x")
		err := w.start(greet(false, words), w.config("app")).failed()
		fault, ok := errors.AsType[*TopicError](err)
		if !ok || !strings.Contains(fault.Problem, "has 1 partitions and words has 6") && !strings.Contains(fault.Problem, "has 6 partitions and users has 1") || !strings.Contains(fault.Remedy, "Repartition") {
			t.Errorf("6 and 1: %v", err)
		}
		w.nothing()
	})
	inWorld(t, map[string]int32{"words": 5, "totals": 1, "app-counts-changelog": 8}, func(w *world) {
		w.send("words", "a=x")
		err := w.start(counting(), w.config("app")).failed()
		fault, ok := errors.AsType[*TopicError](err)
		if !ok || fault.Topic != "app-counts-changelog" || !strings.Contains(fault.Problem, "8") || !strings.Contains(fault.Problem, "5") {
			t.Errorf("5 and 8: %v", err)
		}
		w.nothing()
	})
}

// nothing fails the test if an application has written or created anything.
func (w *world) nothing() {
	w.t.Helper()
	found, err := w.adm.ListTopics(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for name := range found {
		if name != "words" && name != "users" && name != "app-counts-changelog" && name != "painted" && name != "totals" {
			w.t.Errorf("topic %s was created", name)
		}
		if name != "words" && len(w.read(name)) > 0 {
			w.t.Errorf("topic %s was written", name)
		}
	}
}
