package changelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataAge is how old cached metadata may be when nothing has failed.
const metadataAge = 250 * time.Millisecond

// source is where one partition is read: its leader and the topic's id. Only one fetch of a restore runs at a time, and only it uses these.
type source struct {
	part    Part
	located bool
	stale   bool // what the cache says did not work
	leader  int32
	id      [16]byte
}

// fetched is the answer to one fetch.
type fetched struct {
	records []*kgo.Record // markers among them, aborted ones not
	next    int64         // where the next fetch begins; the asked offset if nothing came
	err     error         // why nothing came, if not because there is nothing
	final   bool          // err will not go away by asking again
}

// fetch asks the leader once, from offset on. It does not wait for records: requests of all partitions follow one another on one connection, so one that waits for an open
// transaction to end would hold the others up.
func (r *Reader) fetch(s *source, offset int64, size int32) fetched {
	nothing := fetched{next: offset}
	if !s.located {
		if err := r.locate(r.ctx, s); err != nil {
			nothing.err, nothing.final = err, final(err)
			return nothing
		}
	}
	resp, err := s.request(offset, size).RequestWith(r.ctx, r.client.Broker(int(s.leader)))
	if err == nil {
		err = codeError(resp.ErrorCode)
	}
	if err != nil {
		s.located, s.stale = false, true
		nothing.err, nothing.final = fmt.Errorf("asking broker %d: %w", s.leader, err), final(err)
		return nothing
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		nothing.err = fmt.Errorf("broker %d did not answer for the partition", s.leader)
		return nothing
	}
	answer := &resp.Topics[0].Partitions[0]
	if err := codeError(answer.ErrorCode); err != nil {
		if errors.Is(err, kerr.OffsetOutOfRange) {
			err = r.outOfRange(s, offset)
		}
		s.located, s.stale = false, true
		nothing.err, nothing.final = err, final(err)
		return nothing
	}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true,
		Offset:             offset,
		IsolationLevel:     kgo.ReadCommitted(),
		Topic:              s.part.Topic,
		Partition:          s.part.Partition,
	}, answer, r.unpack, nil)
	if got.Err != nil {
		got.Err = fmt.Errorf("decoding at offset %d: %w", next, got.Err)
	}
	return fetched{records: got.Records, next: max(next, offset), err: got.Err}
}

// request is one fetch outside of any fetch session.
func (s *source) request(offset int64, size int32) *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition = s.part.Partition
	p.FetchOffset = offset
	p.PartitionMaxBytes = size
	t := kmsg.NewFetchRequestTopic()
	t.Topic = s.part.Topic
	t.TopicID = s.id
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = size
	req.MinBytes = 1
	req.MaxWaitMillis = 0
	req.IsolationLevel = 1 // read committed
	req.Topics = append(req.Topics, t)
	return req
}

// locate finds the leader, and notices a topic that was made anew.
func (r *Reader) locate(ctx context.Context, s *source) error {
	t, err := r.metadata(ctx, s.part.Topic, s.stale)
	if err != nil {
		return fmt.Errorf("finding the leader: %w", err)
	}
	known := s.id
	if known == ([16]byte{}) {
		known = s.part.ID
	}
	if known != ([16]byte{}) && t.TopicID != known {
		return fmt.Errorf("%w: its id was %x and is %x", ErrRecreated, known, t.TopicID)
	}
	for _, p := range t.Partitions {
		if p.Partition != s.part.Partition {
			continue
		}
		if err := codeError(p.ErrorCode); err != nil {
			return fmt.Errorf("finding the leader: %w", err)
		}
		s.leader, s.id, s.located, s.stale = p.Leader, t.TopicID, true, false
		return nil
	}
	return fmt.Errorf("finding the leader: the topic has %d partitions: %w", len(t.Partitions), kerr.UnknownTopicOrPartition)
}

// metadata asks for one topic; the answer comes from the client's cache if that is fresh enough.
func (r *Reader) metadata(ctx context.Context, topic string, fresh bool) (*kmsg.MetadataResponseTopic, error) {
	age := metadataAge
	if fresh {
		age = time.Nanosecond
	}
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, t)
	resp, err := r.client.RequestCachedMetadata(ctx, req, age)
	if err != nil {
		return nil, err
	}
	for i := range resp.Topics {
		if got := &resp.Topics[i]; got.Topic != nil && *got.Topic == topic {
			return got, codeError(got.ErrorCode)
		}
	}
	return nil, kerr.UnknownTopicOrPartition
}

// outOfRange finds out on which side of the log an offset lies that the leader refused.
func (r *Reader) outOfRange(s *source, offset int64) error {
	start, end, err := r.End(r.ctx, s.part.Topic, s.part.Partition)
	switch {
	case err != nil:
		return err
	case offset < start:
		return fmt.Errorf("%w: it begins at %d", ErrTruncated, start)
	case offset > end:
		return fmt.Errorf("%w: it ends at %d", ErrDiverged, end)
	}
	return kerr.OffsetOutOfRange // a new leader that has not caught up; ask again
}

// codeError is the error of a broker's answer, nil for none.
func codeError(code int16) error { return kerr.ErrorForCode(code) }

// final says whether asking again is useless. Transport errors pass; so do those of a topic, a leader or an offset that the cluster is still settling.
func final(err error) bool {
	if errors.Is(err, ErrTruncated) || errors.Is(err, ErrDiverged) || errors.Is(err, ErrRecreated) || errors.Is(err, ErrClosed) {
		return true
	}
	var broker *kerr.Error
	if !errors.As(err, &broker) || broker.Retriable {
		return false
	}
	for _, settling := range []error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID, kerr.FencedLeaderEpoch, kerr.OffsetOutOfRange, kerr.UnknownServerError} {
		if errors.Is(broker, settling) {
			return false
		}
	}
	return true
}
