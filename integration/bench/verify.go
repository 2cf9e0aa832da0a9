package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kolkstreams/kolk/integration/contract"
)

// verify compares the committed output with the batch result; a difference goes to r.Wrong.
func (s *session) verify(ctx context.Context, j job, d *dataset, r *Result) error {
	got := expectation{last: map[string]uint64{}}
	err := s.readAll(ctx, j.flags.Out, func(rec *kgo.Record) {
		got.records++
		if r.Scenario == Dedup && len(rec.Value) == valueSize {
			got.sum += hashOutput(rec.Key, rec.Value[:8])
		} else if d.want.last == nil {
			got.sum += hashOutput(rec.Key, rec.Value)
		} else if len(rec.Value) == 8 {
			got.last[string(rec.Key)] = binary.BigEndian.Uint64(rec.Value)
		}
	})
	if err != nil {
		return err
	}
	r.OutRecords = got.records
	if r.Wrong == "" {
		r.Wrong = difference(r.Scenario, r.Guarantee, d.want, got)
	}
	return nil
}

// difference says how an output differs from what is expected, or nothing.
func difference(scenario, guarantee string, want, got expectation) string {
	if len(got.last) != len(want.last) {
		return fmt.Sprintf("%d keys in the output, %d expected", len(got.last), len(want.last))
	}
	differ := 0
	for key, n := range want.last {
		if got.last[key] != n {
			differ++
		}
	}
	if differ > 0 {
		return fmt.Sprintf("last value differs for %d of %d keys", differ, len(want.last))
	}
	if guarantee == contract.ExactlyOnce {
		if scenario != CountCached && got.records != want.records {
			return fmt.Sprintf("%d output records, %d expected", got.records, want.records)
		}
		if got.sum != want.sum {
			return "the output records differ from those of the batch computation"
		}
	}
	return ""
}

// internalTopics are those whose names begin with the application id.
func (s *session) internalTopics(ctx context.Context, j job) ([]string, error) {
	// Asked of a broker: the client's own answer may be from its cache and lack topics that are seconds old.
	answer, err := s.cl.SeedBrokers()[0].Request(ctx, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return nil, err
	}
	var internal []string
	for _, t := range answer.(*kmsg.MetadataResponse).Topics {
		if t.Topic != nil && strings.HasPrefix(*t.Topic, j.flags.AppID+"-") {
			internal = append(internal, *t.Topic)
		}
	}
	return internal, nil
}

// sizes fills in what lies on the broker.
func (s *session) sizes(ctx context.Context, j job, r *Result) error {
	internal, err := s.internalTopics(ctx, j)
	if err != nil {
		return err
	}
	mb, err := s.topicsMB(ctx)
	if err != nil {
		return err
	}
	r.OutMB, r.InternalTopics = mb[j.flags.Out], map[string]float64{}
	for _, topic := range internal {
		r.InternalTopics[strings.TrimPrefix(topic, j.flags.AppID+"-")] = mb[topic]
		if !strings.HasSuffix(topic, "-changelog") {
			continue
		}
		r.ChangelogMB += mb[topic]
		if err := s.readAll(ctx, topic, func(*kgo.Record) { r.ChangelogRecords++ }); err != nil {
			return err
		}
	}
	return nil
}

// topicsMB is the size of every topic on disk, one replica, in MiB.
func (s *session) topicsMB(ctx context.Context) (map[string]float64, error) {
	dirs, err := s.adm.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, err
	}
	type partition struct {
		topic string
		n     int32
	}
	largest := map[partition]int64{} // of the replicas
	dirs.Each(func(dir kadm.DescribedLogDir) {
		dir.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			largest[partition{p.Topic, p.Partition}] = max(largest[partition{p.Topic, p.Partition}], p.Size)
		})
	})
	mb := map[string]float64{}
	for p, size := range largest {
		mb[p.topic] += float64(size) / (1 << 20)
	}
	return mb, nil
}

// readAll reads the committed records of a topic up to its present end.
func (s *session) readAll(ctx context.Context, topic string, each func(*kgo.Record)) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	ends, err := s.endOffsets(ctx, []string{topic})
	if err != nil {
		return err
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(s.cluster.Seeds()...),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // the last offset may be a transaction's marker
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			if rec.Offset+1 >= left[rec.Partition] {
				delete(left, rec.Partition)
			}
			if !rec.Attrs.IsControl() {
				each(rec)
			}
		})
	}
	return nil
}
