package exactlyonce

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A stamp at the end of the metadata numbers the transaction that committed an offset. Without it, a transaction in which
// no offset moved (a timer wrote) could not be told from the one before when its EndTxn got no answer, and neither could
// one whose first partition was committed on by a new owner.
const (
	stampMark = "~"
	stampSize = 11 // 64 bits in base 64

	// MetadataOverhead is how many bytes of an offset's metadata a transaction takes for itself.
	MetadataOverhead = len(stampMark) + stampSize
)

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// CommittedOffset is what a group has committed for a partition.
type CommittedOffset struct {
	Offset      int64  // next record to read; -1 when nothing is committed
	LeaderEpoch int32  // -1 when it is not known
	Metadata    string // as Participant.Offsets gave it
}

// SplitMetadata takes the transaction's stamp off the metadata of an offset that was read by other means than
// StableOffsets. Metadata without a stamp is returned as it is.
func SplitMetadata(metadata string) string {
	if n := len(metadata) - MetadataOverhead; n >= 0 && metadata[n:n+1] == stampMark {
		if _, err := base64.RawURLEncoding.DecodeString(metadata[n+1:]); err == nil {
			return metadata[:n]
		}
	}
	return metadata
}

// stampOffsets numbers the transaction in all of its offsets. Sending them again keeps the number.
func (d *Driver) stampOffsets() {
	if d.stamped {
		return
	}
	d.stamped = true
	d.stamp++
	suffix := stampMark + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, d.stamp))
	for i := range d.sent {
		d.sent[i].Metadata += suffix
	}
}

// compare says whether the transaction with the offsets sent is committed. One offset that is there as it was sent proves it for
// all of them: a transaction is committed as a whole, and nobody else uses its stamp. Offsets that are not there prove the
// contrary only once all have answered.
func (d *Driver) compare(ctx context.Context) (bool, error) {
	want := make(map[TopicPartition]*Offset, len(d.sent))
	parts := make([]TopicPartition, 0, len(d.sent))
	for i := range d.sent {
		tp := TopicPartition{d.sent[i].Topic, d.sent[i].Partition}
		want[tp] = &d.sent[i]
		parts = append(parts, tp)
	}
	got, _, err := fetchOffsets(ctx, d.cl, d.cfg.Group, parts, d.topicID, true)
	for tp, c := range got {
		if o := want[tp]; o != nil && c.Offset == o.Next && c.Metadata == o.Metadata {
			return true, nil
		}
	}
	return false, err
}

// StableOptions are the choices of StableOffsets.
type StableOptions struct {
	// TopicID returns a topic's id; required unless the client's versions of OffsetFetch are capped at 9.
	TopicID func(topic string) [16]byte

	Poll       time.Duration // between two looks at what is not stable yet; zero: 20 ms
	FenceAfter time.Duration // how long partitions may be unstable before Fence is called, and called again; zero: 100 ms
	GoneAfter  time.Duration // how long a topic may be unknown before that is an error; zero: 10 s

	// Fence is called with the partitions that some transaction keeps unstable, to end it, and with what was committed there
	// before: its metadata may name the transactional id of the owner (see Fencer). Its error is not final, since the
	// transaction also ends by its timeout. Nil: wait for that.
	Fence func(ctx context.Context, unstable map[TopicPartition]CommittedOffset) error

	// Report is called with every error that is being retried, for logs and progress. Nil: none.
	Report func(error)
}

// StableOffsets returns the committed offsets of a group for the partitions, waiting until no transaction holds any of them. Each
// has an entry; Offset is -1 where nothing is committed. It asks until it has an answer for all of them, or ctx ends, or
// an error comes that does not pass; then the result holds those that were answered.
//
// A task that opens asks for this first, and only then for the end of its changelog: the other way round a commit in between is missed.
func StableOffsets(ctx context.Context, cl *kgo.Client, group string, partitions []TopicPartition, opts StableOptions) (map[TopicPartition]CommittedOffset, error) {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&opts.Poll, 20*time.Millisecond)
	set(&opts.FenceAfter, 100*time.Millisecond)
	set(&opts.GoneAfter, 10*time.Second)
	if opts.TopicID == nil {
		opts.TopicID = func(string) (id [16]byte) { return id }
	}
	all := make(map[TopicPartition]CommittedOffset, len(partitions))
	missing := partitions
	var unstableSince, goneSince time.Time
	for {
		got, unstable, err := fetchOffsets(ctx, cl, group, missing, opts.TopicID, true)
		rest := missing[:0:0]
		for _, tp := range missing {
			if c, ok := got[tp]; ok {
				c.Metadata = SplitMetadata(c.Metadata)
				all[tp] = c
			} else {
				rest = append(rest, tp)
			}
		}
		if missing = rest; len(missing) == 0 {
			return all, nil
		}
		if ctx.Err() != nil {
			return all, fmt.Errorf("committed offsets of group %q, %d of %d partitions not answered: %w", group, len(missing), len(partitions), errors.Join(ctx.Err(), err))
		}
		now := time.Now()
		row := Classify(ReqOffsetFetch, err)
		if row.Meaning != Retry {
			return all, fmt.Errorf("committed offsets of group %q: %s: %w", group, row.Why, err)
		}
		if row.Then == Fail {
			if goneSince.IsZero() {
				goneSince = now
			}
			if now.Sub(goneSince) >= opts.GoneAfter {
				return all, fmt.Errorf("committed offsets of group %q: %s: %w", group, row.Why, err)
			}
		} else {
			goneSince = time.Time{}
		}
		if opts.Report != nil {
			opts.Report(err)
		}
		switch {
		case len(unstable) == 0:
			unstableSince = time.Time{}
		case unstableSince.IsZero():
			unstableSince = now
		case opts.Fence != nil && now.Sub(unstableSince) >= opts.FenceAfter:
			before, _, err := fetchOffsets(ctx, cl, group, unstable, opts.TopicID, false)
			if err == nil {
				for tp, c := range before {
					c.Metadata = SplitMetadata(c.Metadata)
					before[tp] = c
				}
				err = opts.Fence(ctx, before)
			}
			if err != nil && opts.Report != nil {
				opts.Report(err)
			}
			unstableSince = time.Now()
		}
		sleep(ctx, opts.Poll)
	}
}

// fetchOffsets asks once. It returns what was answered, which partitions a transaction holds, and an error if anything is
// missing: one that does not pass by itself before one that does.
func fetchOffsets(ctx context.Context, cl *kgo.Client, group string, parts []TopicPartition, id func(string) [16]byte, stable bool) (map[TopicPartition]CommittedOffset, []TopicPartition, error) {
	if len(parts) == 0 {
		return nil, nil, nil
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = stable
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	at := make(map[string]int)
	names := make(map[[16]byte]string)
	for _, tp := range parts {
		n, known := at[tp.Topic]
		if !known {
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic, t.TopicID = tp.Topic, id(tp.Topic)
			names[t.TopicID] = tp.Topic
			n = len(g.Topics)
			at[tp.Topic] = n
			g.Topics = append(g.Topics, t)
		}
		g.Topics[n].Partitions = append(g.Topics[n].Partitions, tp.Partition)
	}
	req.Groups = append(req.Groups, g)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, nil, fmt.Errorf("fetching offsets: %w", err)
	}
	got := make(map[TopicPartition]CommittedOffset, len(parts))
	var unstable []TopicPartition
	var first worst
	for _, rg := range resp.Groups {
		if err := kerr.ErrorForCode(rg.ErrorCode); err != nil {
			if Classify(ReqOffsetFetch, err).Meaning != Skip {
				return nil, nil, fmt.Errorf("fetching offsets: %w", err)
			}
			for _, tp := range parts {
				got[tp] = CommittedOffset{Offset: -1, LeaderEpoch: -1}
			}
			return got, nil, nil
		}
		for _, t := range rg.Topics {
			if t.Topic == "" {
				t.Topic = names[t.TopicID]
			}
			for _, p := range t.Partitions {
				tp := TopicPartition{t.Topic, p.Partition}
				first.add(t.Topic, p.Partition, p.ErrorCode)
				switch p.ErrorCode {
				case 0:
					c := CommittedOffset{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch}
					if p.Metadata != nil {
						c.Metadata = *p.Metadata
					}
					got[tp] = c
				case kerr.UnstableOffsetCommit.Code:
					unstable = append(unstable, tp)
				}
			}
		}
	}
	if first.code == nil {
		for _, tp := range parts {
			if _, ok := got[tp]; !ok {
				return got, unstable, fmt.Errorf("fetching offsets: the broker left out %s partition %d", tp.Topic, tp.Partition)
			}
		}
	}
	return got, unstable, first.err("fetching the offset")
}
