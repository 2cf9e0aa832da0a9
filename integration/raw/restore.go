package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func (l *loop) changelogTopic() string { return l.flags.AppID + "-counts-changelog" }

// restore reads the whole changelog into the maps, or creates the topic if there is none.
func (l *loop) restore(ctx context.Context) error {
	started := time.Now()
	topic := l.changelogTopic()
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(l.flags.Brokers...),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // the last offset may be a transaction's marker
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	compact := "compact"
	_, err = adm.CreateTopic(ctx, int32(l.flags.Partitions), -1, map[string]*string{"cleanup.policy": &compact}, topic)
	if err == nil || !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	var records, bytes int64
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() {
				return
			}
			if len(r.Value) != 8 {
				err = fmt.Errorf("record %s/%d@%d has a value of %d bytes, not a count", topic, r.Partition, r.Offset, len(r.Value))
				return
			}
			records++
			bytes += int64(len(r.Key) + len(r.Value))
			l.counts[r.Partition][string(r.Key)] = &counter{key: r.Key, n: binary.BigEndian.Uint64(r.Value)}
		})
		if err != nil {
			return err
		}
	}
	return l.report.Restored(records, bytes, time.Since(started))
}
