package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Feeder produces a job's input at a steady rate, until it is stopped. The job belongs to it meanwhile.
type Feeder struct {
	client *kgo.Client
	stop   chan struct{}
	done   chan struct{}

	sent  int64
	mu    sync.Mutex
	err   error
	acked int64
}

// produceAll writes records and waits for all acknowledgements.
func produceAll(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return nil
}

const tick = 20 * time.Millisecond

// ahead is how many records may wait for their acknowledgement. While brokers are away producing stops there, so that topics that come back one by one are not far apart in event time.
const ahead = 2000

// Feed starts to produce so many records a second.
func Feed(client *kgo.Client, j Job, perSecond int) *Feeder {
	f := &Feeder{client: client, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		began := time.Now()
		for {
			select {
			case <-f.stop:
				return
			case <-ticker.C:
			}
			due := int64(time.Since(began).Seconds() * float64(perSecond))
			for ; f.sent < due && f.sent < f.settled()+ahead; f.sent++ {
				client.Produce(context.Background(), j.Next(), f.acknowledged)
			}
		}
	}()
	return f
}

func (f *Feeder) acknowledged(_ *kgo.Record, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acked++
	if f.err == nil && err != nil {
		f.err = err
	}
}

func (f *Feeder) settled() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acked
}

// Stop ends producing and returns when everything is acknowledged.
func (f *Feeder) Stop(ctx context.Context) error {
	close(f.stop)
	<-f.done
	err := f.client.Flush(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err = errors.Join(err, f.err); err != nil {
		return fmt.Errorf("produce the input: %w", err)
	}
	return nil
}
