package exactlyonce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// options are those of the worker's client: defaults for producing, then the caller's, then what the cycle relies on.
func (d *Driver) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ProducerLinger(10 * time.Millisecond), // a flush does not wait for it
		kgo.MaxBufferedRecords(1 << 20),           // bytes are the bound
		kgo.MaxBufferedBytes(64 << 20),
		kgo.ProducerBatchCompression(kgo.Lz4Compression(), kgo.NoCompression()),
		kgo.RetryBackoffFn(backoff),
		// A batch that is refused because of the last transaction's markers, or because the leader moved, waits for the next
		// metadata. The client's own 5 s would make commits of seconds.
		kgo.MetadataMinAge(20 * time.Millisecond),
		// A topic that was just made is unknown to some brokers for a while; with the age above this is about 10 s.
		kgo.UnknownTopicRetries(500),
	}
	opts = append(opts, d.cfg.Client...)
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), 3) // 4 and above are for brokers
	if d.cfg.TopicID == nil {
		versions.SetMaxKeyVersion(int16(kmsg.OffsetCommit), 9)
		versions.SetMaxKeyVersion(int16(kmsg.OffsetFetch), 9)
		versions.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 5)
	}
	opts = append(opts,
		kgo.MaxVersions(versions),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), // tasks know their partition
		kgo.RequiredAcks(kgo.AllISRAcks()),
	)
	if d.cfg.Guarantee == ExactlyOnce {
		opts = append(opts, kgo.TransactionalID(d.cfg.TransactionalID), kgo.TransactionTimeout(d.cfg.Timeout))
	}
	return opts
}

// backoff is the pause before the n-th retry of a request: from 20 ms, doubling up to 1 s, spread by a fifth so that workers do
// not come in step.
func backoff(n int) time.Duration {
	d := time.Second
	if n < 7 {
		d = 20 * time.Millisecond << max(n-1, 0)
	}
	d = min(d, time.Second)
	return d - rand.N(d/5)
}

// reopen makes a new client in place of the one there is. The answer to InitProducerID means that whatever the id had open
// is committed or aborted, and that nothing that was under way can be accepted any more.
func (d *Driver) reopen(ctx context.Context) error {
	if d.cl != nil {
		d.cl.Close()
	}
	cl, err := kgo.NewClient(d.options()...)
	if err != nil {
		return fmt.Errorf("%w: %w", errOptions, err)
	}
	d.cl, d.loaded = cl, loaded{}
	if d.cfg.Guarantee == AtLeastOnce {
		return nil
	}
	if _, _, err = cl.ProducerID(ctx); err != nil {
		return err
	}
	d.m.implicit, err = implicitTransactions(ctx, cl)
	return err
}

// implicitTransactions asks a broker whether the cluster is at transaction.version 2 or above.
func implicitTransactions(ctx context.Context, cl *kgo.Client) (bool, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "kolk", "1"
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return false, err
	}
	if resp == nil {
		return false, errors.New("no answer to ApiVersions")
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" {
			return f.MaxVersionLevel >= 2, nil
		}
	}
	return false, nil
}
