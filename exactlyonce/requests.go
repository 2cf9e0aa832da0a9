package exactlyonce

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// addPartitions adds what the participant is going to write to the transaction. The client would do so with the first batch of
// each partition, but wait for its next metadata when the broker is not ready yet.
func (d *Driver) addPartitions(ctx context.Context) error {
	parts := d.p.Partitions()
	if len(parts) == 0 {
		return nil
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = d.cfg.TransactionalID, d.pid, d.epoch
	for _, p := range parts {
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = p.Topic, p.Partitions
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, d.cl)
	if err != nil {
		return fmt.Errorf("adding partitions to the transaction: %w", err)
	}
	var first worst
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != kerr.OperationNotAttempted.Code { // another partition of the request is at fault
				first.add(t.Topic, p.Partition, p.ErrorCode)
			}
		}
	}
	return first.err("adding to the transaction")
}

func (d *Driver) addOffsets(ctx context.Context) error {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = d.cfg.TransactionalID, d.pid, d.epoch, d.cfg.Group
	resp, err := req.RequestWith(ctx, d.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("adding the offsets of group %q to the transaction: %w", d.cfg.Group, err)
	}
	return nil
}

func (d *Driver) commitTxnOffsets(ctx context.Context) error {
	pid, epoch, err := d.cl.ProducerID(ctx)
	if err != nil {
		return fmt.Errorf("producer id of the transaction: %w", err)
	}
	if pid != d.pid || epoch != d.epoch {
		return errProducerMoved
	}
	d.stampOffsets()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = d.cfg.TransactionalID, d.cfg.Group, pid, epoch
	req.MemberID, req.Generation = d.identity.Member, d.identity.Generation
	if d.cfg.InstanceID != "" {
		req.InstanceID = &d.cfg.InstanceID
	}
	for _, in := range d.byTopic() {
		t := kmsg.NewTxnOffsetCommitRequestTopic()
		t.Topic, t.TopicID = in[0].Topic, d.topicID(in[0].Topic)
		for _, o := range in {
			p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = o.Partition, o.Next, o.LeaderEpoch, &o.Metadata
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, d.cl)
	if err != nil {
		return fmt.Errorf("committing offsets in the transaction: %w", err)
	}
	var first worst
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			first.add(d.topicName(t.Topic, t.TopicID), p.Partition, p.ErrorCode)
		}
	}
	return first.complete("committing the offset in the transaction", len(d.sent))
}

func (d *Driver) commitOffsets(ctx context.Context) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = d.cfg.Group, d.identity.Member, d.identity.Generation
	if d.cfg.InstanceID != "" {
		req.InstanceID = &d.cfg.InstanceID
	}
	for _, in := range d.byTopic() {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = in[0].Topic, d.topicID(in[0].Topic)
		for _, o := range in {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = o.Partition, o.Next, o.LeaderEpoch, &o.Metadata
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, d.cl)
	if err != nil {
		return fmt.Errorf("committing offsets: %w", err)
	}
	var first worst
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			first.add(d.topicName(t.Topic, t.TopicID), p.Partition, p.ErrorCode)
		}
	}
	return first.complete("committing the offset", len(d.sent))
}

// byTopic groups the offsets of this cycle as requests list them, topics in the order of their first offset.
func (d *Driver) byTopic() [][]*Offset {
	var groups [][]*Offset
	at := make(map[string]int)
	for i := range d.sent {
		o := &d.sent[i]
		n, known := at[o.Topic]
		if !known {
			n = len(groups)
			at[o.Topic] = n
			groups = append(groups, nil)
		}
		groups[n] = append(groups[n], o)
	}
	return groups
}

func (d *Driver) topicID(topic string) (id [16]byte) {
	if d.cfg.TopicID != nil {
		id = d.cfg.TopicID(topic)
	}
	return id
}

// topicName fills in the name that the newest versions leave out of their answers.
func (d *Driver) topicName(topic string, id [16]byte) string {
	if topic != "" {
		return topic
	}
	for i := range d.sent {
		if d.topicID(d.sent[i].Topic) == id {
			return d.sent[i].Topic
		}
	}
	return topic
}

// worst keeps one error of a request with many partitions: one that does not pass by itself before one that does.
type worst struct {
	code      *kerr.Error
	topic     string
	partition int32
	answered  int // partitions
}

func (w *worst) add(topic string, partition int32, code int16) {
	w.answered++
	e, _ := kerr.ErrorForCode(code).(*kerr.Error)
	if e == nil || w.code != nil && (!passing(w.code) || passing(e)) {
		return
	}
	w.code, w.topic, w.partition = e, topic, partition
}

// passing says whether an error goes away by waiting. CONCURRENT_TRANSACTIONS is not a retriable code, but passes.
func passing(e *kerr.Error) bool { return e.Retriable || e == kerr.ConcurrentTransactions }

func (w *worst) err(doing string) error {
	if w.code == nil {
		return nil
	}
	return fmt.Errorf("%s of %s partition %d: %w", doing, w.topic, w.partition, w.code)
}

// complete is err, and an error where the broker left partitions out of its answer.
func (w *worst) complete(doing string, asked int) error {
	if w.code == nil && w.answered < asked {
		return fmt.Errorf("%s: the broker answered for %d of %d partitions", doing, w.answered, asked)
	}
	return w.err(doing)
}
