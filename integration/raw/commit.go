package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commit writes the changelog, waits for everything produced, and commits the offsets.
func (l *loop) commit(ctx context.Context) error {
	if len(l.offsets) == 0 {
		return nil
	}
	now := time.Now()
	for p, dirty := range l.dirty {
		for _, c := range dirty {
			c.dirty = false
			l.produce(l.changelogTopic(), int32(p), c, now)
		}
		l.dirty[p] = dirty[:0]
	}
	if err := l.cl.Flush(ctx); err != nil {
		return err
	}
	if l.produced != nil {
		return l.produced
	}
	offsets := l.offsets
	l.offsets = map[int32]int64{}
	if !l.exactlyOnce() {
		return l.commitOffsets(ctx, offsets)
	}
	if err := l.commitOffsetsInTxn(ctx, offsets); err != nil {
		return err
	}
	l.inTxn = false
	return l.cl.EndTransaction(ctx, kgo.TryCommit)
}

func (l *loop) commitOffsets(ctx context.Context, offsets map[int32]int64) (failed error) {
	byPartition := map[int32]kgo.EpochOffset{}
	for p, o := range offsets {
		byPartition[p] = kgo.EpochOffset{Epoch: -1, Offset: o}
	}
	l.cl.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{l.flags.In[0]: byPartition},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
			failed = err
		})
	return failed
}

// commitOffsetsInTxn puts the offsets into the open transaction, as a member of the group. Brokers of version 4 need no announcement before.
func (l *loop) commitOffsetsInTxn(ctx context.Context, offsets map[int32]int64) error {
	id, epoch, err := l.cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = l.transactionalID(), l.flags.AppID, id, epoch
	req.MemberID, req.Generation = l.cl.GroupMetadata()
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = l.flags.In[0], l.topicID
	for p, o := range offsets {
		part := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = p, o
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, l.cl)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("offset of %s/%d: %w", l.flags.In[0], p.Partition, err)
			}
		}
	}
	return nil
}

func (l *loop) transactionalID() string { return l.flags.AppID + "-1" }
