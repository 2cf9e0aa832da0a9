package changelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FromStart as Part.From restores everything that the log holds, for a store that has no checkpoint. Offset 0 is something else: a checkpoint that says that
// nothing of the log was read, which fails with ErrTruncated when the log no longer begins there.
const FromStart int64 = -1

// Why a restore cannot go on from where it is. All but ErrStalled and ErrClosed mean that what is on disk does not belong to this log.
var (
	// ErrTruncated says that the log begins after the position: what lay between, deletes among it, cannot be known. Wipe the store and restore FromStart.
	ErrTruncated = errors.New("the log no longer reaches back that far")
	// ErrDiverged says that the position lies past the log's end: the log lost records that were restored before. Wipe the store and restore FromStart.
	ErrDiverged = errors.New("the log ends before that")
	// ErrRecreated says that the topic is not the one that the checkpoint is from: it was deleted and made anew. The state that its predecessor held is on disk only.
	ErrRecreated = errors.New("the topic was deleted and created anew")
	// ErrStalled says that the position did not move for Config.Timeout.
	ErrStalled = errors.New("no progress")
	// ErrClosed says that the Reader was closed.
	ErrClosed = errors.New("reader is closed")
)

// Record is one committed record of a changelog. Key, Value and Headers share memory with the whole batch that was read: what is kept for long should be copied, so
// that it does not hold on to the rest. Nothing may be modified.
type Record struct {
	Key, Value []byte // a nil Value is a tombstone, an empty one is not
	Timestamp  int64  // milliseconds since 1970
	Offset     int64
	Headers    []kgo.RecordHeader
}

// Part is what to restore.
type Part struct {
	Topic     string
	Partition int32
	// ID is the topic's id that the checkpoint holds; another one is ErrRecreated. Zero takes any.
	ID [16]byte
	// From is the next offset to read by the checkpoint, or FromStart.
	From int64
	// End is where the restore is done, as Reader.End gave it: a position, so the offset before it is the last one of interest. Records from End on are not handed out.
	// For a source topic that is its table's changelog it is the committed input offset.
	End int64
}

// String is the part for messages.
func (p Part) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Config is how a Reader works. The zero value is usable as soon as Opts name a broker.
type Config struct {
	// Opts are for the client: seed brokers, TLS, SASL, dialer, logger. They come after the Reader's own, and win.
	Opts []kgo.Opt
	// FetchBytes bounds what all restores of the process have in memory or in flight, as fetched, before decompression. Zero means 8 MiB; less than 1 MiB counts as 1 MiB.
	// One fetch asks for 1 MiB, or for up to 4 MiB where few restores share the bound; a single batch that is larger is read all the same.
	FetchBytes int
	// StallAfter is how long the position may stand still before Stalled is called, and between its calls. Zero means 300 ms.
	StallAfter time.Duration
	// Timeout is how long the position may stand still before the restore fails. Time spent in apply, or waiting for memory, does not count. Zero means 2 minutes: a dead
	// predecessor's open transaction is aborted by the broker within 20 s even if nobody fences it.
	Timeout time.Duration
	// Stalled is called while a restore stands still, again every StallAfter, on the goroutine of that restore; others go on. It is where a dead predecessor's transaction
	// is aborted. ctx is the restore's. May be nil.
	Stalled func(ctx context.Context, topic string, partition int32, position, end int64)
}

const (
	fetchUnit    = 1 << 20
	largestFetch = 4 << 20
)

// Reader restores stores from their changelogs. One per process is enough: many restores run at once, each in a goroutine of its caller, over one client, within one
// memory bound. All methods are safe for concurrent use.
type Reader struct {
	config Config
	client *kgo.Client
	unpack kgo.Decompressor // pools its buffers; safe for all fetches at once
	ctx    context.Context  // ends with Close
	cancel context.CancelFunc
	slots  chan struct{}  // one per fetchUnit that may be in memory
	active atomic.Int64   // restores that run
	wg     sync.WaitGroup // fetches in flight
	gate   sync.Mutex     // guards wg.Add against Close
}

// NewReader makes a Reader. It does no I/O.
func NewReader(c Config) (*Reader, error) {
	if c.StallAfter < 0 || c.Timeout < 0 || c.FetchBytes < 0 {
		return nil, fmt.Errorf("restore reader: negative setting (StallAfter %s, Timeout %s, FetchBytes %d)", c.StallAfter, c.Timeout, c.FetchBytes)
	}
	if c.FetchBytes == 0 {
		c.FetchBytes = 8 << 20
	}
	c.FetchBytes = max(c.FetchBytes, fetchUnit)
	if c.StallAfter == 0 {
		c.StallAfter = 300 * time.Millisecond
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Minute
	}
	opts := append([]kgo.Opt{
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryBackoffFn(retryAfter),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	}, c.Opts...)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("restore reader: %w", err)
	}
	r := &Reader{config: c, client: client, unpack: kgo.DefaultDecompressor(), slots: make(chan struct{}, c.FetchBytes/fetchUnit)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// Close ends all restores with ErrClosed and closes the client.
func (r *Reader) Close() {
	r.gate.Lock()
	r.cancel()
	r.gate.Unlock()
	r.wg.Wait()
	r.client.Close()
}

// End returns the first offset of the log and its high watermark, which is where a restore of it has to end (see the package comment for why it is not the last
// stable offset). Ask for it after the input offset is known to be stable. A topic that does not exist is an error of the broker's kind, kerr.UnknownTopicOrPartition.
func (r *Reader) End(ctx context.Context, topic string, partition int32) (start, end int64, err error) {
	// The start first: the log may be truncated between the two, and then start <= end still holds.
	if start, err = r.offset(ctx, topic, partition, earliest); err != nil {
		return 0, 0, fmt.Errorf("start of %s/%d: %w", topic, partition, err)
	}
	if end, err = r.offset(ctx, topic, partition, latest); err != nil {
		return 0, 0, fmt.Errorf("end of %s/%d: %w", topic, partition, err)
	}
	return start, end, nil
}

// TopicID is the id of a topic as it is now, to be compared with and stored in a checkpoint. It is zero with brokers before Kafka 2.8.
func (r *Reader) TopicID(ctx context.Context, topic string) ([16]byte, error) {
	t, err := r.metadata(ctx, topic, false)
	if err != nil {
		return [16]byte{}, fmt.Errorf("id of topic %s: %w", topic, err)
	}
	return t.TopicID, nil
}

// Timestamps that ask for an offset instead.
const (
	latest   = -1
	earliest = -2
)

// offset asks the leader for one end of the log, read uncommitted. The client finds the leader and retries.
func (r *Reader) offset(ctx context.Context, topic string, partition int32, which int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition = partition
	p.Timestamp = which
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, r.client)
	if err != nil {
		if r.ctx.Err() != nil {
			return 0, ErrClosed
		}
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errors.New("the broker did not answer for the partition")
	}
	got := resp.Topics[0].Partitions[0]
	if err := codeError(got.ErrorCode); err != nil {
		return 0, err
	}
	return got.Offset, nil
}

// retryAfter is how long to wait after so many failures in a row.
func retryAfter(failures int) time.Duration {
	return min(20*time.Millisecond<<min(failures, 10), time.Second)
}
