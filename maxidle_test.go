package kolk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

// timed is a record of one of two topics, with its second.
type timed struct {
	topic, key, value string
	second            int64
}

func (w *world) at(r timed) {
	w.t.Helper()
	w.produce(r.topic, []byte(r.key), []byte(r.value), 1_700_000_000_000+1000*r.second)
}

// history is a table of users that changes all the time, and events between, and what each event meets if all is taken in order of time. The
// table was declared first, so its record comes first where times are equal.
func history(keys, n int, pad string) (users, events []timed, want []string) {
	rng := rand.New(rand.NewPCG(1, 2))
	rows := make(map[string]string)
	for i := range n {
		second := int64(i)
		k := fmt.Sprint("k", rng.IntN(keys))
		if i%3 != 1 {
			u := timed{"users", k, fmt.Sprintf("u%d%s", i, pad), second}
			users, rows[k] = append(users, u), fmt.Sprintf("u%d", i)
		}
		if i%3 != 0 {
			k := fmt.Sprint("k", rng.IntN(keys))
			e := timed{"words", k, fmt.Sprint("e", i), second}
			events = append(events, e)
			want = append(want, strings.TrimSpace(e.value+" "+rows[k]))
		}
	}
	slices.Sort(want)
	return users, events, want
}

// meeting joins words with the first part of a user.
func meeting() *topology.Builder {
	b := topology.New()
	table := b.Table("users", usersTopic, few)
	b.Stream(words).LeftJoinTable(table, func(v string, user *string) string {
		if user == nil {
			return v
		}
		name, _, _ := strings.Cut(*user, ".")
		return v + " " + name
	}).To(painted)
	return b
}

// ST01: what the brokers have is waited for. The table is read far more slowly than the stream, which is there as a whole with the first fetch; still each record meets the row of
// its time, as none is taken before what is older in the other topic.
func TestST01(t *testing.T) {
	users, events, want := history(4, 60, "."+strings.Repeat("x", 5000))
	inWorld(t, map[string]int32{"words": 2, "users": 2, "painted": 1}, func(w *world) {
		for _, r := range slices.Concat(users, events) {
			w.at(r)
		}
		c := w.config("app")
		c.Kafka = []kgo.Opt{kgo.FetchMaxPartitionBytes(6000), kgo.FetchMaxBytes(12000)}
		w.start(meeting(), c).ready()
		w.settled("app", "words", "users")
		if got := w.values("painted"); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// With MaxIdle the result does not depend on when and how fast the topics are written and read, as long as neither is silent for longer; also over a restart.
func TestMaxIdleResultIsIndependent(t *testing.T) {
	users, events, want := history(5, 60, "")
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, map[string]int32{"words": 3, "users": 3, "painted": 1}, func(w *world) {
				rng := rand.New(rand.NewPCG(seed, 3))
				c := w.config("app")
				c.MaxIdle = time.Minute
				r := w.start(meeting(), c).ready()
				left := [][]timed{users, events}
				switch seed { // all of one topic before the other
				case 0:
					left = [][]timed{slices.Concat(events, users)}
				case 1:
					left = [][]timed{slices.Concat(users, events)}
				}
				for step := 0; len(left) > 0; step++ {
					i := rng.IntN(len(left))
					n := min(len(left[i]), 1+rng.IntN(12))
					for _, r := range left[i][:n] {
						w.at(r)
					}
					if left[i] = left[i][n:]; len(left[i]) == 0 {
						left = slices.Delete(left, i, i+1)
					}
					w.wait(time.Duration(rng.IntN(2000)) * time.Millisecond)
					if step == 5 && seed == 3 {
						if err := r.stop(); err != nil {
							t.Fatal(err)
						}
						c.StateDir = t.TempDir()
						r = w.start(meeting(), c).ready()
					}
				}
				w.settled("app", "words", "users")
				if got := w.values("painted"); !slices.Equal(got, want) {
					t.Errorf("got  %q\nwant %q", got, want)
				}
			})
		})
	}
}

// A task waits for an input only as long as MaxIdle, and then goes on without.
func TestMaxIdleEnds(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "users": 1, "painted": 1}, func(w *world) {
		c := w.config("app")
		c.MaxIdle = 30 * time.Second
		w.start(meeting(), c).ready()
		w.wait(time.Minute) // nobody waits where nothing is to be done
		w.at(timed{"words", "k", "e1", 10})
		w.wait(20 * time.Second)
		if got := w.values("painted"); len(got) > 0 {
			t.Errorf("%q after 20 s", got)
		}
		w.at(timed{"users", "k", "u1", 5})
		w.wait(time.Second)
		if got := w.values("painted"); len(got) > 0 { // there may be one between 5 and 10
			t.Errorf("%q after a row that is older", got)
		}
		w.wait(31 * time.Second)
		if got := w.values("painted"); !slices.Equal(got, []string{"e1 u1"}) {
			t.Errorf("%q in the end", got)
		}
	})
}

// An open transaction upstream holds up nobody: records behind it cannot be read, so they are not waited for. They are taken when it ends.
func TestMaxIdleOpenTransaction(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "users": 1, "painted": 1}, func(w *world) {
		w.at(timed{"users", "k", "u1", 1})
		up, err := kgo.NewClient(kgo.SeedBrokers(w.fake.ListenAddrs()...), kgo.Dialer(w.net.DialContext), kgo.TransactionalID("upstream"), kgo.TransactionTimeout(10*time.Minute), kgo.DefaultProduceTopic("users"))
		if err != nil {
			t.Fatal(err)
		}
		defer up.Close()
		if err := up.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		open := &kgo.Record{Key: []byte("k"), Value: []byte("u2"), Timestamp: time.UnixMilli(1_700_000_002_000)}
		if err := up.ProduceSync(w.t.Context(), open).FirstErr(); err != nil {
			t.Fatal(err)
		}
		w.at(timed{"words", "k", "e3", 3})
		r := w.start(meeting(), w.config("app")).ready()
		w.wait(2 * time.Second)
		if got := w.values("painted"); !slices.Equal(got, []string{"e3 u1"}) {
			t.Errorf("%q while the transaction is open", got)
		}
		w.at(timed{"words", "k", "e4", 4}) // the same for what comes while the task runs
		w.wait(2 * time.Second)
		if got := w.values("painted"); !slices.Equal(got, []string{"e3 u1", "e4 u1"}) {
			t.Errorf("%q later", got)
		}
		if err := up.EndTransaction(w.t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		w.wait(2 * time.Second)
		w.at(timed{"words", "k", "e5", 5})
		w.wait(2 * time.Second)
		if got := w.values("painted"); !slices.Equal(got, []string{"e3 u1", "e4 u1", "e5 u2"}) {
			t.Errorf("%q after it", got)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	})
}
