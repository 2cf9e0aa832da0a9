package changelog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// Many partitions at once; some are cancelled midway, which the rest must not notice, and are restored again from where they stopped.
func TestManyPartitionsSomeCancelled(t *testing.T) {
	t.Parallel()
	const partitions = 40
	k := newKit(t, Config{FetchBytes: 3 << 20}, kfake.NumBrokers(3))
	k.create(logTopic, partitions, nil)
	client := k.producer("")
	models := make([]map[string]string, partitions)
	var rows []*kgo.Record
	for p := range models {
		models[p] = map[string]string{}
		for i := range 30 + p%7 {
			r := row(fmt.Sprint("k", i%11), fmt.Sprint(p, "-", i, strings.Repeat("x", 10_000)))
			r.Partition = int32(p)
			models[p][string(r.Key)] = string(r.Value)
			rows = append(rows, r)
		}
	}
	k.produce(client, rows...)
	failed := make([]error, partitions)
	var wg sync.WaitGroup
	for p := range models {
		wg.Go(func() { failed[p] = restoreTwice(t.Context(), k.reader, int32(p), p%4 == 0, models[p]) })
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Error(err)
	}
	// A cancelled restore's last fetch may still be under way; it gives its memory back when it is answered.
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := until(short, "all memory to be given back", func() bool { return len(k.reader.slots) == 0 }); err != nil {
		t.Error(err)
	}
}

// restoreTwice restores one partition, cancelled at its first batch if asked to, and then the rest of it.
func restoreTwice(ctx context.Context, r *Reader, p int32, cancelled bool, want map[string]string) error {
	_, end, err := r.End(ctx, logTopic, p)
	if err != nil {
		return err
	}
	s := newTable()
	from := FromStart
	if cancelled {
		short, cancel := context.WithCancel(ctx)
		from, err = r.Restore(short, Part{Topic: logTopic, Partition: p, From: FromStart, End: end + 1}, func(rs []Record) error {
			cancel()
			return s.apply(rs)
		}, nil)
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("partition %d was cancelled, but: %w", p, err)
		}
	}
	var progress Progress
	next, err := r.Restore(ctx, Part{Topic: logTopic, Partition: p, From: from, End: end}, s.apply, &progress)
	if err != nil || next != end {
		return fmt.Errorf("partition %d: next %d of %d: %w", p, next, end, err)
	}
	if !maps.Equal(s.rows, want) {
		return fmt.Errorf("partition %d differs", p)
	}
	for i, offset := range s.offsets {
		if offset != int64(i) {
			return fmt.Errorf("partition %d: record %d has offset %d", p, i, offset)
		}
	}
	return nil
}

func TestCloseEndsRestores(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, nil)
	tx := k.producer("tx")
	k.begin(tx, row("a", "1"))
	var p Progress
	done := make(chan error, 1)
	go func() {
		_, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, End: 1}, newTable().apply, &p)
		done <- err
	}()
	if err := until(t.Context(), "a stall", func() bool { return !p.State().StalledSince.IsZero() }); err != nil {
		t.Fatal(err)
	}
	k.reader.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, End: 1}, newTable().apply, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// Whatever was written, committed, aborted and deleted: a restore, in one piece or stopped anywhere and taken up again, gives the rows that the transactions left.
func TestRestoreEqualsModel(t *testing.T) {
	k := newKit(t, Config{})
	topics := 0
	rapid.Check(t, func(rt *rapid.T) {
		topics++
		topic := fmt.Sprint("app-model-", topics, "-changelog")
		k.create(topic, 1, map[string]string{"delete.retention.ms": "0"})
		model := map[string]string{}
		tx := k.producer("tx", kgo.DefaultProduceTopic(topic))
		defer tx.Close()
		for range rapid.IntRange(0, 8).Draw(rt, "transactions") {
			commit := rapid.Bool().Draw(rt, "commit")
			staged := maps.Clone(model)
			var rows []*kgo.Record
			for i := range rapid.IntRange(1, 6).Draw(rt, "rows") {
				r := row(rapid.StringMatching(`[a-d]?`).Draw(rt, "key"), rapid.StringMatching(`[x-z]{0,2}`).Draw(rt, "value"))
				r.Topic = topic
				if i%3 == 2 && r.Value == nil {
					r.Value = []byte{}
				}
				rows = append(rows, r)
				if r.Value == nil {
					delete(staged, string(r.Key))
				} else {
					staged[string(r.Key)] = string(r.Value)
				}
			}
			k.begin(tx, rows...)
			k.end(tx, kgo.TransactionEndTry(commit))
			if commit {
				model = staged
			}
		}
		if rapid.Bool().Draw(rt, "compact") {
			k.cluster.Compact()
		}
		_, end := k.ends(topic, 0)
		cut := rapid.Int64Range(0, end).Draw(rt, "cut")
		s := newTable()
		next, err := k.reader.Restore(t.Context(), Part{Topic: topic, From: FromStart, End: cut}, s.apply, nil)
		if err != nil || next < cut {
			rt.Fatalf("to %d: next %d, %v", cut, next, err)
		}
		if next, err = k.reader.Restore(t.Context(), Part{Topic: topic, From: next, End: max(end, next)}, s.apply, nil); err != nil || next != end {
			rt.Fatalf("to %d: next %d, %v", end, next, err)
		}
		if !maps.Equal(s.rows, model) {
			rt.Fatalf("restored %v, want %v", s.rows, model)
		}
	})
}

// The rate of eight partitions with small records; a restore's own cost without a store.
func BenchmarkRestore(b *testing.B) {
	for _, partitions := range []int32{1, 8} {
		b.Run(fmt.Sprint("partitions=", partitions), func(b *testing.B) {
			const records = 800_000
			k := newKit(b, Config{})
			k.create(logTopic, partitions, nil)
			client := k.producer("", kgo.MaxBufferedRecords(records))
			random := rand.New(rand.NewPCG(1, 2))
			for i := range int32(records) {
				r := row(fmt.Sprintf("key-%08d", random.IntN(100_000)), "0123456789abcdef0123456789abcdef")
				r.Partition = i % partitions
				client.Produce(b.Context(), r, nil)
			}
			if err := client.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			ends := make([]int64, partitions)
			for p := range partitions {
				_, ends[p] = k.ends(logTopic, p)
			}
			began := time.Now()
			for b.Loop() {
				var wg sync.WaitGroup
				for p := range partitions {
					wg.Go(func() {
						if _, err := k.reader.Restore(b.Context(), Part{Topic: logTopic, Partition: p, End: ends[p]}, func([]Record) error { return nil }, nil); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(b.N)*records/time.Since(began).Seconds(), "records/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
