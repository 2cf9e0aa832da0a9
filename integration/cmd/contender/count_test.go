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

// It counts every record once, says when it runs, and ends without an error when it is told to.
func TestCount(t *testing.T) {
	for _, guarantee := range []string{contract.ExactlyOnce, contract.AtLeastOnce} {
		t.Run(guarantee, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c := kafka.Shared(t)
			app := c.Name(t)
			f := contract.Flags{Brokers: c.Seeds(), Scenario: "count", Guarantee: guarantee, Threads: 2, AppID: app, StateDir: t.TempDir(),
				In: []string{c.Topic(t, app+"-in", 2)}, Out: c.Topic(t, app+"-out", 2), Partitions: 2}
			var records []*kgo.Record
			const keys, rounds = 7, 30
			for i := range keys * rounds {
				records = append(records, &kgo.Record{Topic: f.In[0], Key: fmt.Append(nil, i%keys), Value: []byte("v")})
			}
			if err := c.Client(t).ProduceSync(ctx, records...).FirstErr(); err != nil {
				t.Fatal(err)
			}

			r, w := io.Pipe()
			running, stop := context.WithCancel(ctx)
			defer stop()
			ended := make(chan error, 1)
			go func() {
				err := run(running, f, contract.NewReporter(w))
				w.CloseWithError(err)
				ended <- err
			}()
			var e contract.Event
			line, err := bufio.NewReader(r).ReadBytes('\n')
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(line, &e); err != nil || e.Event != "running" {
				t.Fatalf("first event %s, %v", line, err)
			}

			output := c.Client(t, kgo.ConsumeTopics(f.Out), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			last := map[string]uint64{}
			for seen := 0; seen < keys*rounds; {
				fetches := output.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					t.Fatalf("after %d records: %v", seen, err)
				}
				fetches.EachRecord(func(r *kgo.Record) {
					seen++
					if n := binary.BigEndian.Uint64(r.Value); n != last[string(r.Key)]+1 {
						t.Errorf("key %s: count %d after %d", r.Key, n, last[string(r.Key)])
					}
					last[string(r.Key)]++
				})
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
