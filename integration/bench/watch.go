package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kolkstreams/kolk/integration/contract"
)

// look is how often the driver asks whether a contender is done.
const look = 20 * time.Millisecond

// endOffsets are the ends of topics.
func (s *session) endOffsets(ctx context.Context, topics []string) (kadm.ListedOffsets, error) {
	ends, err := s.adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	return ends, ends.Error()
}

// uncommitted is how many input records the group has not committed.
func (s *session) uncommitted(ctx context.Context, j job, ends kadm.ListedOffsets) (left int64, err error) {
	committed, err := s.adm.FetchOffsets(ctx, j.flags.AppID)
	if err != nil {
		return 0, err
	}
	ends.Each(func(e kadm.ListedOffset) {
		at := int64(0)
		if o, ok := committed.Lookup(e.Topic, e.Partition); ok && o.Err == nil {
			at = max(at, o.At)
		}
		left += max(0, e.Offset-at)
	})
	return left, nil
}

// waitDone returns when the input is committed and, under exactly-once, the output readable. Under at-least-once a complete output is enough: with a commit
// interval of 30 s the last commit comes with the close, and is checked after it.
func (s *session) waitDone(ctx context.Context, p *run, j job, d *dataset, ends kadm.ListedOffsets, r *Result) error {
	for {
		select {
		case <-p.Done():
			return p.ended()
		case <-ctx.Done():
			return fmt.Errorf("not done: %w\n%s", ctx.Err(), p.stderr)
		case <-time.After(look):
		}
		done, err := s.done(ctx, j, d, ends, r)
		if err != nil || done {
			return err
		}
	}
}

// done is whether a contender has done everything.
func (s *session) done(ctx context.Context, j job, d *dataset, ends kadm.ListedOffsets, r *Result) (bool, error) {
	left, err := s.uncommitted(ctx, j, ends)
	if err != nil {
		return false, err
	}
	if r.Guarantee == contract.AtLeastOnce {
		if left == 0 || r.Scenario == CountCached {
			return left == 0, nil
		}
		high, err := s.endOffsets(ctx, []string{j.flags.Out})
		return total(high) >= d.want.records, err
	}
	if left > 0 {
		return false, nil
	}
	stable, err := s.adm.ListCommittedOffsets(ctx, j.flags.Out)
	if err == nil {
		err = stable.Error()
	}
	if err != nil {
		return false, err
	}
	high, err := s.endOffsets(ctx, []string{j.flags.Out})
	return total(stable) == total(high), err
}

// total is the sum of offsets.
func total(offsets kadm.ListedOffsets) (sum int64) {
	offsets.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum
}

// expel removes the members of a classic group whose process has ended without leaving, and tells how many there were.
func (s *session) expel(ctx context.Context, j job) (int, error) {
	groups, err := s.adm.DescribeGroups(ctx, j.flags.AppID)
	if err != nil {
		return 0, err
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = j.flags.AppID
	for _, m := range groups[j.flags.AppID].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID, member.InstanceID = m.MemberID, m.InstanceID
		req.Members = append(req.Members, member)
	}
	if len(req.Members) == 0 {
		return 0, nil
	}
	resp, err := req.RequestWith(ctx, s.cl)
	if err != nil {
		return 0, err
	}
	return len(req.Members), kerr.ErrorForCode(resp.ErrorCode)
}
