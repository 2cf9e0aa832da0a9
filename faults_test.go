package kolk

import (
	"encoding/binary"
	"errors"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var numbers = topology.NewTopic("numbers", serde.String(), serde.Int64())

// produce sends one raw record.
func (w *world) produce(topic string, key, value []byte, at int64) {
	w.t.Helper()
	r := &kgo.Record{Topic: topic, Key: key, Value: value, Timestamp: time.UnixMilli(at)}
	if err := w.cl.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// noise is bytes that no compression makes smaller.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

func eight(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// A record that cannot be decoded: the application stops and names it, or goes on without it, or sends it to a dead letter topic. Under none
// of the policies is it looked at again once it was dealt with.
func TestUndecodable(t *testing.T) {
	sum := func() *topology.Builder {
		b := topology.New()
		b.Stream(numbers).GroupByKey().Reduce("sums", store.FiniteKeys(10), func(a, b int64) int64 { return a + b }).To(totals)
		return b
	}
	topics := map[string]int32{"numbers": 1, "totals": 1, "dead": 1}
	feed := func(w *world) {
		w.produce("numbers", []byte("k"), eight(1), 1000)
		w.produce("numbers", []byte("k"), []byte("bad"), 1001)
		w.produce("numbers", []byte("k"), eight(2), 1002)
	}
	t.Run("stop", func(t *testing.T) {
		inWorld(t, topics, func(w *world) {
			feed(w)
			err := w.start(sum(), w.config("app")).failed()
			e, ok := errors.AsType[*RecordError](err)
			if !ok || e.Stage != "decode" || e.Topic != "numbers" || e.Partition != 0 || e.Offset != 1 || e.Task != "0_0" {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("skip", func(t *testing.T) {
		inWorld(t, topics, func(w *world) {
			feed(w)
			c := w.config("app")
			c.OnDecodeError = topology.Skip
			var drops atomic.Int64
			c.Hooks = &Hooks{OnDrop: func(d Drop) {
				if d.Reason == processor.Skipped && d.Source.Offset == 1 {
					drops.Add(1)
				}
			}}
			r := w.start(sum(), c).ready()
			w.settled("app", "numbers")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			w.same("sums", w.counts("totals"), map[string]int64{"k": 3})
			if drops.Load() != 1 {
				t.Errorf("%d drops, want 1", drops.Load())
			}
		})
	})
	t.Run("dead letter", func(t *testing.T) {
		inWorld(t, topics, func(w *world) {
			feed(w)
			c := w.config("app")
			c.OnDecodeError = topology.DeadLetter("dead")
			r := w.start(sum(), c).ready()
			w.settled("app", "numbers")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			w.same("sums", w.counts("totals"), map[string]int64{"k": 3})
			dead := w.read("dead")
			if len(dead) != 1 || string(dead[0].Value) != "bad" || string(dead[0].Key) != "k" || dead[0].Timestamp.UnixMilli() != 1001 {
				t.Fatalf("dead letters: %v", dead)
			}
			headers := make(map[string]string)
			for _, h := range dead[0].Headers {
				headers[h.Key] = string(h.Value)
			}
			if headers["__streams.errors.topic"] != "numbers" || headers["__streams.errors.offset"] != "1" || headers["kolk.reason"] == "" || headers["__streams.errors.message"] == "" {
				t.Errorf("headers: %v", headers)
			}
		})
	})
}

// X01: a partition with only bad records is committed to its end, once.
func TestOnlyBadRecords(t *testing.T) {
	inWorld(t, map[string]int32{"numbers": 1, "totals": 1}, func(w *world) {
		for i := range 10 {
			w.produce("numbers", []byte("k"), []byte("bad"), int64(1000+i))
		}
		b := topology.New()
		b.Stream(numbers, topology.OnError(topology.Skip)).To(totals)
		var drops atomic.Int64
		c := w.config("app")
		c.Hooks = &Hooks{OnDrop: func(Drop) { drops.Add(1) }}
		r := w.start(b, c).ready()
		w.settled("app", "numbers")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if drops.Load() != 10 {
			t.Errorf("%d drops, want 10", drops.Load())
		}
	})
}

// Null keys, null values and times before 1970 are dropped where they mean nothing, and counted.
func TestNullsAndTimes(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		w.produce("words", nil, []byte("x"), 1000)
		w.produce("words", []byte("a"), nil, 1001)
		w.produce("words", []byte(""), []byte(""), 1002)
		var reasons []string
		c := w.config("app")
		done := make(chan string, 10)
		c.Hooks = &Hooks{OnDrop: func(d Drop) { done <- string(d.Reason) }}
		r := w.start(counting(), c).ready()
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		close(done)
		for reason := range done {
			reasons = append(reasons, reason)
		}
		slices.Sort(reasons)
		if !slices.Equal(reasons, []string{"null_key", "null_value"}) {
			t.Errorf("drops: %v", reasons)
		}
		w.same("counts", w.counts("totals"), map[string]int64{"": 1})
	})
}

// X02: a value that has grown too large for the changelog must not be in the store either.
func TestTooLargeForTheChangelog(t *testing.T) {
	texts := topology.NewTopic("texts", serde.String(), serde.String())
	inWorld(t, map[string]int32{"words": 1, "texts": 1}, func(w *world) {
		b := topology.New()
		b.Stream(words).GroupByKey().Reduce("joined", store.FiniteKeys(10), func(a, b string) string { return a + b }).
			MapValues(func(string) string { return "grew" }).To(texts)
		c := w.config("app")
		c.OnProduceError = topology.Skip // which must not hold for state
		r := w.start(b, c).ready()
		w.produce("words", []byte("k"), []byte("x"), 1000)
		w.settled("app", "words")
		w.produce("words", []byte("k"), noise(150_000), 1001)
		w.settled("app", "words")
		w.produce("words", []byte("k"), noise(150_000), 1002)
		err := r.failed()
		e, ok := errors.AsType[*RecordError](err)
		if !ok || e.Stage != "produce" || e.Topic != "app-joined-changelog" {
			t.Fatalf("got %v", err)
		}
		if n := len(w.read("texts")); n != 2 {
			t.Errorf("%d records in the output, want the 2 that were committed", n)
		}
		if log := w.read("app-joined-changelog"); len(log) != 2 || len(log[1].Value) != 150_001 {
			t.Errorf("%d records in the changelog", len(log))
		}
	})
}

// A sink's record that the broker refuses: the application stops, or goes on without such records where the sink's policy says so.
func TestTooLargeForASink(t *testing.T) {
	texts := topology.NewTopic("texts", serde.String(), serde.String())
	pass := func(opts ...topology.SinkOption) *topology.Builder {
		b := topology.New()
		b.Stream(words).FlatMapValues(func(v string) iter.Seq[string] {
			return func(yield func(string) bool) {
				if v == "large" {
					v = string(noise(300_000))
				}
				yield(v)
			}
		}).To(texts, opts...)
		return b
	}
	feed := func(w *world) {
		w.produce("words", []byte("k"), []byte("small"), 1000)
		w.produce("words", []byte("k"), []byte("large"), 1001)
		w.produce("words", []byte("k"), []byte("after"), 1002)
	}
	t.Run("stop", func(t *testing.T) {
		inWorld(t, map[string]int32{"words": 1}, func(w *world) {
			w.create("texts", 1, "max.message.bytes", "200000")
			feed(w)
			err := w.start(pass(), w.config("app")).failed()
			e, ok := errors.AsType[*RecordError](err)
			if !ok || e.Stage != "produce" || e.Topic != "texts" {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("skip", func(t *testing.T) {
		inWorld(t, map[string]int32{"words": 1}, func(w *world) {
			w.create("texts", 1, "max.message.bytes", "200000")
			feed(w)
			r := w.start(pass(topology.OnError(topology.Skip)), w.config("app"))
			w.settled("app", "words")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			got := w.read("texts")
			if len(got) != 2 || string(got[0].Value) != "small" || string(got[1].Value) != "after" {
				t.Errorf("%d records", len(got))
			}
		})
	})
}

// A store whose files are damaged is wiped and read back.
func TestDamagedStore(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		r := w.start(counting(), c).ready()
		w.send("words", "a=", "b=", "a=")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		damaged := 0
		err := filepath.WalkDir(filepath.Join(c.StateDir, "app", "tasks"), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".sst") && d.Name() != "MANIFEST" {
				return err
			}
			damaged++
			return os.WriteFile(path, []byte(strings.Repeat("damage", 100)), 0o600)
		})
		if err != nil || damaged == 0 {
			t.Fatalf("damaged %d files: %v", damaged, err)
		}
		r = w.start(counting(), c).ready()
		w.send("words", "a=")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.same("counts", w.counts("totals"), map[string]int64{"a": 3, "b": 1})
	})
}

// A disk that is nearly full stops the application before the store breaks; nothing is lost.
func TestNearlyFullDisk(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		full := c
		full.MinFreeDisk = 1 << 60
		err := w.start(counting(), full).failed()
		if !errors.Is(err, ErrStateDir) || !strings.Contains(err.Error(), "free") {
			t.Errorf("got %v", err)
		}
		r := w.start(counting(), c).ready()
		w.send("words", "a=")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.same("counts", w.counts("totals"), map[string]int64{"a": 1})
	})
}

// A changelog that was deleted and made anew no longer holds the state: going on from the local store alone would lose it at the next move.
func TestRecreatedChangelog(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		r := w.start(counting(), c).ready()
		w.send("words", "a=", "a=")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.adm.DeleteTopic(w.t.Context(), "app-counts-changelog"); err != nil {
			t.Fatal(err)
		}
		err := w.start(counting(), c).failed()
		if !errors.Is(err, ErrIncompatible) || !strings.Contains(err.Error(), "app-counts-changelog") {
			t.Errorf("got %v", err)
		}
	})
}

// C01: offsets that somebody moved without the state are refused, also those of a sub-topology without stores; with the override the
// application goes on.
func TestMovedOffsets(t *testing.T) {
	for name, b := range map[string]func() *topology.Builder{
		"own stores":            func() *topology.Builder { return counting() },
		"stores behind a topic": countingValues,
	} {
		inputs := []string{"words"}
		if name != "own stores" {
			inputs = append(inputs, "app-counts-repartition")
		}
		for _, how := range []string{"reset", "deleted"} {
			t.Run(name+", "+how, func(t *testing.T) {
				inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
					c := w.config("app")
					r := w.start(b(), c).ready()
					w.send("words", "a=x", "b=x", "c=x", "d=x")
					w.settled("app", inputs...)
					if err := r.stop(); err != nil {
						t.Fatal(err)
					}
					if how == "reset" {
						var os kadm.Offsets
						os.Add(kadm.Offset{Topic: "words", Partition: 0, At: 0, LeaderEpoch: -1})
						os.Add(kadm.Offset{Topic: "words", Partition: 1, At: 0, LeaderEpoch: -1})
						if err := w.adm.CommitAllOffsets(w.t.Context(), "app", os); err != nil {
							t.Fatal(err)
						}
					} else {
						var set kadm.TopicsSet
						set.Add("words", 0, 1)
						if _, err := w.adm.DeleteOffsets(w.t.Context(), "app", set); err != nil {
							t.Fatal(err)
						}
					}
					err := w.start(b(), c).failed()
					if !errors.Is(err, ErrMovedOffsets) || !strings.Contains(err.Error(), "words") || !strings.Contains(err.Error(), "AllowMovedOffsets") {
						t.Fatalf("got %v", err)
					}
					c.AllowMovedOffsets = true
					r = w.start(b(), c).ready()
					w.settled("app", "words")
					if err := r.stop(); err != nil {
						t.Fatal(err)
					}
				})
			})
		}
	}
}

// A topology that would misread the state, on disk or in the changelog, is refused with the difference.
func TestIncompatibleTopology(t *testing.T) {
	for _, lost := range []bool{false, true} {
		inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
			c := w.config("app")
			r := w.start(counting(), c).ready()
			w.send("words", "a=")
			w.settled("app", "words")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			if lost {
				c.StateDir = t.TempDir()
			}
			b := topology.New()
			b.Stream(words).GroupByKey().Aggregate("counts", serde.String(), store.FiniteKeys(10), func(_, v, sum string) string { return sum + v })
			err := w.start(b, c).failed()
			if !errors.Is(err, ErrIncompatible) || !strings.Contains(err.Error(), `"counts"`) || !strings.Contains(err.Error(), "value was") || !strings.Contains(err.Error(), "is string") {
				t.Errorf("lost %v: got %v", lost, err)
			}
			if !lost && !strings.Contains(err.Error(), "was int64") {
				t.Errorf("the checkpoint knows what it was: %v", err)
			}
			// A declared version starts empty under a new name, and the old one is still there.
			r = w.start(counting(store.Version(2)), c).ready()
			w.send("words", "a=")
			w.settled("app", "words")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			w.same("counts of version 2", w.counts("app-counts-v2-changelog"), map[string]int64{"a": 1})
			w.same("counts of the old version", w.counts("app-counts-changelog"), map[string]int64{"a": 1})
		})
	}
}

// A record whose processing outlasts the transaction is named when it has happened twice: it would never get through.
func TestSlowUserCode(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		b := topology.New()
		b.Stream(words).Peek(func(k, _ string) {
			if k == "slow" {
				<-time.After(30 * time.Second)
			}
		}).GroupByKey().Count("counts", store.FiniteKeys(10)).To(totals)
		r := w.start(b, w.config("app")).ready()
		w.send("words", "a=", "b=")
		w.settled("app", "words")
		w.send("words", "c=", "slow=", "d=")
		err := r.failed()
		e, ok := errors.AsType[*RecordError](err)
		if !ok || e.Topic != "words" || e.Offset != 3 || !strings.Contains(err.Error(), "TransactionTimeout") {
			t.Errorf("got %v", err)
		}
		w.same("counts", w.counts("totals"), map[string]int64{"a": 1, "b": 1})
	})
}

// X03: a function that panics, or that fails half-way through an aggregate: nothing of the record remains.
func TestFailingFunctions(t *testing.T) {
	lists := serde.JSON[[]string]()
	failing := func() *topology.Builder {
		b := topology.New()
		b.Stream(words).GroupByKey().Aggregate("lists", lists, store.FiniteKeys(10), func(_, v string, l []string) []string {
			if len(l) > 0 {
				l[0] = "overwritten " + v
			}
			if v == "boom" {
				panic("half-way")
			}
			return append(l, v)
		})
		return b
	}
	t.Run("stop", func(t *testing.T) {
		inWorld(t, map[string]int32{"words": 1}, func(w *world) {
			r := w.start(failing(), w.config("app")).ready()
			w.send("words", "k=a")
			w.settled("app", "words")
			w.send("words", "k=boom")
			err := r.failed()
			e, ok := errors.AsType[*RecordError](err)
			if !ok || e.Stage != "process" || e.Offset != 1 || !strings.Contains(err.Error(), "half-way") || e.Node == "" {
				t.Errorf("got %v", err)
			}
			if log := w.read("app-lists-changelog"); len(log) != 1 || string(log[0].Value) != `["a"]` {
				t.Errorf("changelog: %v", log)
			}
		})
	})
	t.Run("skip", func(t *testing.T) {
		inWorld(t, map[string]int32{"words": 1}, func(w *world) {
			c := w.config("app")
			c.OnProcessError = topology.Skip
			r := w.start(failing(), c).ready()
			w.send("words", "k=a", "k=boom", "k=b")
			w.settled("app", "words")
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			log := w.read("app-lists-changelog")
			if last := string(log[len(log)-1].Value); last != `["overwritten b","b"]` {
				t.Errorf("last value: %s", last)
			}
		})
	})
}

// A user function that does not return must not keep Run from returning.
func TestHangingUserCode(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1}, func(w *world) {
		release := make(chan struct{})
		b := topology.New()
		b.Stream(words).Peek(func(string, string) { <-release })
		c := w.config("app")
		c.CloseTimeout = 5 * time.Second
		r := w.start(b, c).ready()
		w.send("words", "a=")
		w.wait(time.Second)
		began := time.Now()
		err := r.stop()
		if err == nil || !strings.Contains(err.Error(), "CloseTimeout") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %v", took)
		}
		close(release)
		w.wait(time.Minute) // what hung ends after all
	})
}

// A source topic that is deleted while it is read ends the application with its name.
func TestDeletedSource(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		r := w.start(counting(), w.config("app")).ready()
		w.send("words", "a=")
		w.settled("app", "words")
		if _, err := w.adm.DeleteTopic(w.t.Context(), "words"); err != nil {
			t.Fatal(err)
		}
		err := r.failed()
		if e, ok := errors.AsType[*TopicError](err); !ok || e.Topic != "words" {
			t.Errorf("got %v", err)
		}
	})
}

// Records that were deleted before they were read are not jumped over in silence.
func TestDeletedRecords(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		c := w.config("app")
		r := w.start(counting(), c).ready()
		w.send("words", "a=")
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		w.send("words", "a=", "a=", "a=")
		var os kadm.Offsets
		os.Add(kadm.Offset{Topic: "words", Partition: 0, At: 3})
		if _, err := w.adm.DeleteRecords(w.t.Context(), os); err != nil {
			t.Fatal(err)
		}
		err := w.start(counting(), c).failed()
		if err == nil || !strings.Contains(err.Error(), "words/0") || !strings.Contains(err.Error(), "deleted before it was read") {
			t.Errorf("got %v", err)
		}
	})
}

// TP02: partitions that are added under a stateful application stop it: keys lie elsewhere than their state.
func TestAddedPartitions(t *testing.T) {
	inWorld(t, map[string]int32{"words": 2, "totals": 1}, func(w *world) {
		c := w.config("app")
		r := w.start(counting(), c).ready()
		w.send("words", "a=")
		w.settled("app", "words")
		if _, err := w.adm.CreatePartitions(w.t.Context(), 1, "words"); err != nil {
			t.Fatal(err)
		}
		err := r.failed()
		if e, ok := errors.AsType[*TopicError](err); !ok || e.Topic != "words" {
			t.Errorf("while running: %v", err)
		}
		err = w.start(counting(), c).failed()
		if e, ok := errors.AsType[*TopicError](err); !ok || e.Topic != "app-counts-changelog" {
			t.Errorf("at the next start: %v", err)
		}
	})
}

// Sides of a join whose topics have different partition counts are refused, with both named and the place of the join.
func TestJoinOfUnlikeTopics(t *testing.T) {
	inWorld(t, map[string]int32{"words": 2, "names": 3, "texts": 1}, func(w *world) {
		b := topology.New()
		names := b.Table("names", topology.NewTopic("names", serde.String(), serde.String()), store.FiniteKeys(10))
		b.Stream(words).JoinTable(names, func(a, b string) string { return a + b }).To(topology.NewTopic("texts", serde.String(), serde.String()))
		err := w.start(b, w.config("app")).failed()
		e, ok := errors.AsType[*TopicError](err)
		if !ok || !strings.Contains(err.Error(), "words") || !strings.Contains(err.Error(), "names") || !strings.Contains(err.Error(), "faults_test.go") || !strings.Contains(e.Remedy, "Repartition") {
			t.Errorf("got %v", err)
		}
	})
}

// Times before 1970 do not move stream time and do not reach an operator: the record is dropped and counted.
func TestNegativeTimes(t *testing.T) {
	inWorld(t, map[string]int32{"words": 1, "totals": 1}, func(w *world) {
		timed := topology.NewTopic("words", serde.String(), serde.String()).TimedBy(func(_, v string) time.Time {
			n, _ := strconv.ParseInt(v, 10, 64)
			return time.UnixMilli(n)
		})
		b := topology.New()
		b.Stream(timed).GroupByKey().Count("counts", store.FiniteKeys(10)).To(totals)
		w.send("words", "a=-1", "a=5000", "a=-9223372036854775808")
		var drops atomic.Int64
		c := w.config("app")
		c.Hooks = &Hooks{OnDrop: func(d Drop) {
			if d.Reason == processor.NoTime {
				drops.Add(1)
			}
		}}
		r := w.start(b, c).ready()
		w.settled("app", "words")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		got := w.read("totals")
		if len(got) != 1 || got[0].Timestamp.UnixMilli() != 5000 || drops.Load() != 2 {
			t.Errorf("%d results, %d drops", len(got), drops.Load())
		}
	})
}
