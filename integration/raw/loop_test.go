package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kolkstreams/kolk/integration/contract"
	"github.com/kolkstreams/kolk/integration/kafka"
)

func TestMain(m *testing.M) { kafka.Main(m) }

// running starts a loop and returns its events up to the one that it runs, and how to stop it.
func running(t *testing.T, f contract.Flags) (events []contract.Event, stop func()) {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		err := newLoop(f, contract.NewReporter(w), true, kgo.ProducerBatchCompression(kgo.NoCompression())).run(ctx)
		w.CloseWithError(err)
		done <- err
	}()
	for lines := bufio.NewScanner(r); len(events) == 0 || events[len(events)-1].Event != "running"; {
		if !lines.Scan() {
			t.Fatalf("the loop ended: %v", lines.Err())
		}
		var e contract.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Counts go on after a restart, from the changelog, and the output has one record per input record.
func TestCountsGoOnAfterARestart(t *testing.T) {
	for _, guarantee := range []string{contract.ExactlyOnce, contract.AtLeastOnce} {
		t.Run(guarantee, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c := kafka.Shared(t)
			app := c.Name(t)
			f := contract.Flags{Brokers: c.Seeds(), Scenario: "count", Guarantee: guarantee, Threads: 1, AppID: app, Partitions: 2,
				In: []string{c.Topic(t, app+"-in", 2)}, Out: c.Topic(t, app+"-out", 2)}
			input := c.Client(t)
			output := c.Client(t, kgo.ConsumeTopics(f.Out), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			const keys, rounds = 5, 20
			feed := func() {
				t.Helper()
				var records []*kgo.Record
				for i := range keys * rounds {
					records = append(records, &kgo.Record{Topic: f.In[0], Key: fmt.Append(nil, i%keys)})
				}
				if err := input.ProduceSync(ctx, records...).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			last, seen := map[string]uint64{}, 0
			read := func(want int) {
				t.Helper()
				for seen < want {
					fetches := output.PollFetches(ctx)
					if err := fetches.Err(); err != nil {
						t.Fatalf("after %d of %d: %v", seen, want, err)
					}
					fetches.EachRecord(func(r *kgo.Record) {
						seen++
						if n := binary.BigEndian.Uint64(r.Value); n != last[string(r.Key)]+1 {
							t.Errorf("key %s: count %d after %d", r.Key, n, last[string(r.Key)])
						}
						last[string(r.Key)]++
					})
				}
			}

			feed()
			events, stop := running(t, f)
			if len(events) != 1 {
				t.Errorf("events of the first start: %v", events)
			}
			read(keys * rounds)
			stop()
			feed()
			events, stop = running(t, f)
			if len(events) != 2 || events[0].Records < keys {
				t.Errorf("events of the second start: %+v, want at least %d restored records", events, keys)
			}
			read(2 * keys * rounds)
			stop()
			if len(last) != keys || seen != 2*keys*rounds {
				t.Errorf("%d keys, %d records", len(last), seen)
			}
		})
	}
}
