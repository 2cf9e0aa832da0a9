package exactlyonce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fenceEvery is how long a transactional id is left alone once it was fenced: the new owner of many tasks comes for the same
// id with each of them, and the ex-owner, if it lives, may by then be in another transaction that is in nobody's way.
const fenceEvery = time.Second

// Fencer ends the transactions of owners that are gone, so that a new owner need not wait for their timeout. It initialises
// their transactional ids, which aborts what is open. A live ex-owner only loses the rest of that transaction.
// It may be used from many goroutines; the zero value with Client and Prefix set is ready.
type Fencer struct {
	Client *kgo.Client
	Prefix string // only transactional ids that start with it are touched; required, so that no foreign producer is hit

	Timeout time.Duration // transaction timeout sent with the request, as a broker wants one; zero: 10 s

	mu   sync.Mutex
	last map[string]time.Time
}

// Fence finds the open transactions on partitions that the caller owns now, changelogs before all, and ends those with the
// Prefix. It returns the transactional ids that it fenced. Errors of single ids are joined.
//
// The caller needs DESCRIBE and WRITE on the transactional ids, and DESCRIBE or READ on the topics.
func (f *Fencer) Fence(ctx context.Context, partitions []TopicPartition) ([]string, error) {
	adm := kadm.NewClient(f.Client)
	var set kadm.TopicsSet
	for _, tp := range partitions {
		set.Add(tp.Topic, tp.Partition)
	}
	if len(set) == 0 {
		return nil, nil
	}
	described, err := adm.DescribeProducers(ctx, set)
	var faults []error
	if err != nil {
		faults = append(faults, fmt.Errorf("describing producers: %w", err))
	}
	var producers []int64
	for _, p := range described.SortedProducers() {
		if p.CurrentTxnStartOffset >= 0 && !slices.Contains(producers, p.ProducerID) {
			producers = append(producers, p.ProducerID)
		}
	}
	if len(producers) == 0 {
		return nil, errors.Join(faults...)
	}
	listed, err := adm.ListTransactions(ctx, producers, nil)
	if err != nil {
		faults = append(faults, fmt.Errorf("listing transactions: %w", err))
	}
	var fenced []string
	for _, t := range listed.Sorted() {
		if !strings.HasPrefix(t.TxnID, f.Prefix) {
			continue
		}
		done, err := f.FenceID(ctx, t.TxnID)
		if err != nil {
			faults = append(faults, err)
		}
		if done {
			fenced = append(fenced, t.TxnID)
		}
	}
	return fenced, errors.Join(faults...)
}

// FenceID ends the transaction of one transactional id, one that was found in an offset's metadata: the changelog of a
// stateless task shows nothing. It returns false where it did nothing, because the id does not have the Prefix or was fenced
// within the last second.
func (f *Fencer) FenceID(ctx context.Context, id string) (bool, error) {
	if f.Prefix == "" {
		return false, errors.New("exactlyonce: a Fencer without Prefix would fence foreign producers")
	}
	if !strings.HasPrefix(id, f.Prefix) || !f.claim(id) {
		return false, nil
	}
	timeout := f.Timeout
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, int32(timeout.Milliseconds()), -1, -1
	for begun := time.Now(); ; {
		resp, err := req.RequestWith(ctx, f.Client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ended(ctx), err)
		}
		row := Classify(ReqFence, err)
		if row.Meaning == Skip {
			return true, nil
		}
		if row.Meaning != Retry || time.Since(begun) >= timeout {
			return false, fmt.Errorf("fencing transactional id %q: %s: %w", id, row.Why, err)
		}
		sleep(ctx, offsetsPause)
	}
}

// claim says whether the id's turn has come, and takes it.
func (f *Fencer) claim(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if last, ok := f.last[id]; ok && now.Sub(last) < fenceEvery {
		return false
	}
	if f.last == nil {
		f.last = make(map[string]time.Time)
	}
	f.last[id] = now
	return true
}
