package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// readAll hands over everything that is committed in a topic, each partition in order.
func readAll(ctx context.Context, seeds []string, topic string, take func(*kgo.Record) error) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("start of %s: %w", topic, err)
	}
	// Not the end of what is stable: the transaction of a killed instance hides what was committed behind it until it times out.
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("end of %s: %w", topic, err)
	}
	from, left := make(map[int32]kgo.Offset), make(map[int32]int64)
	ends.Each(func(o kadm.ListedOffset) {
		if s, _ := starts.Lookup(topic, o.Partition); s.Offset < o.Offset {
			from[o.Partition], left[o.Partition] = kgo.NewOffset().At(s.Offset), o.Offset
		}
	})
	if len(left) == 0 {
		return nil
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer reader.Close()
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		for r := range fetches.RecordsAll() {
			if !r.Attrs.IsControl() {
				if err := take(r); err != nil {
					return fmt.Errorf("%s/%d@%d: %w", r.Topic, r.Partition, r.Offset, err)
				}
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		}
	}
	return nil
}
