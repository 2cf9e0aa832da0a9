package exactlyonce

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Conditions a caller can act on. Outcome.Err wraps them where they apply.
var (
	// ErrSharedID: the transactional id was taken over again and again while this worker lost no task.
	// Two running processes use the same id, most often because a state directory was copied or is shared.
	ErrSharedID = errors.New("another running process uses the same transactional id: give each process a state directory of its own")

	// ErrRefused: the group does not count this worker's tasks as the member's own any more. Nothing may be processed
	// until the group has assigned again and Driver.Resume was called.
	ErrRefused = errors.New("the group does not accept this member's commits: stopped until the group assigns again")

	// ErrNoOffsets: records were produced or staged, and the participant named no offsets for them. Such a transaction is
	// aborted, because only the offset commit proves that the tasks are still this member's own.
	ErrNoOffsets = errors.New("records were produced but no task gave offsets to commit with them")

	// ErrStage is wrapped when Participant.Stage failed.
	ErrStage = errors.New("staging the changes of the tasks failed")

	// ErrClosed: the driver was closed, or gave up, before.
	ErrClosed = errors.New("the driver is closed")

	// errEnded stands for the caller's context having ended; the driver puts it in place of whatever the client returned.
	errEnded = errors.New("stopped by the caller")

	// errProducerMoved: the client initialised its producer id again in the middle of a transaction, which aborted it.
	errProducerMoved = errors.New("the client's producer id or epoch changed within the transaction")

	// errStuck: records were not acknowledged for so long that waiting on is of no use.
	errStuck = errors.New("records were not acknowledged in time")

	// errOptions: the client could not even be made.
	errOptions = errors.New("the client's options are not valid")
)

// ProduceError says which record could not be produced. With Outcome.Kind Rejected the record itself is refused and would be
// refused again after a replay.
type ProduceError struct {
	Topic      string
	Partition  int32
	KeySize    int // bytes
	RecordSize int // bytes: key, value and headers, before compression
	Err        error
}

// Error implements error.
func (e *ProduceError) Error() string {
	return fmt.Sprintf("producing to %s partition %d (key %d bytes, record %d bytes): %v", e.Topic, e.Partition, e.KeySize, e.RecordSize, e.Err)
}

// Unwrap returns the cause, a *kerr.Error where a broker refused the record.
func (e *ProduceError) Unwrap() error { return e.Err }

func produceError(r *kgo.Record, err error) *ProduceError {
	size := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return &ProduceError{Topic: r.Topic, Partition: r.Partition, KeySize: len(r.Key), RecordSize: size, Err: err}
}

// Request names what was being asked of the cluster, or of the participant, when an error came.
type Request uint8

// The requests of a commit cycle.
const (
	reqNone            Request = iota
	ReqBegin                   // beginning a transaction in the client; sends nothing
	ReqRegister                // AddPartitionsToTxn, sent early so that the flush does not wait for old markers
	ReqProduce                 // a record, up to the flush that waits for it
	ReqStage                   // Participant.Stage
	ReqAddOffsets              // AddOffsetsToTxn, where transaction.version is below 2
	ReqTxnOffsetCommit         // offsets inside the transaction
	ReqOffsetCommit            // offsets alone: at-least-once, or nothing was produced
	ReqEndCommit               // EndTxn that commits
	ReqEndAbort                // EndTxn that aborts
	ReqInitProducerID          // a new client for the same transactional id
	ReqOffsetFetch             // the stable offsets, after an unknown outcome and before a task opens
	ReqFence                   // re-initialising the transactional id of a dead owner
)

var requestNames = [...]string{"", "begin", "AddPartitionsToTxn", "Produce", "stage", "AddOffsetsToTxn", "TxnOffsetCommit",
	"OffsetCommit", "EndTxn commit", "EndTxn abort", "InitProducerID", "OffsetFetch", "fence"}

// String returns the request's name as the table of the package page has it.
func (r Request) String() string { return requestNames[r] }

// Meaning is what an error asks for.
type Meaning uint8

// The meanings.
const (
	// Retry: send the same request again after a short pause, for at most the transaction timeout.
	Retry Meaning = iota + 1
	// Await: wait until the client knows of another generation, then send again in the same transaction.
	Await
	// Skip: go on without it.
	Skip
	// Replay: abort the transaction, go back to the last commit and process again.
	Replay
	// Renew: the producer is of no more use. A new client for the same transactional id aborts what is open; then replay.
	Renew
	// Unknown: the transaction may or may not be committed. A new client ends it, then the stable offset tells.
	Unknown
	// Refuse: these tasks are not this member's own any more. Abort, then stop until the group assigns again.
	Refuse
	// Reject: the record itself is at fault and would fail again. Abort; what then is the caller's policy.
	Reject
	// Fail: nothing that goes on can help. Abort; the process stops with the error.
	Fail
	// Abandon: the caller wants to stop and the outcome is not known. Nothing is applied; the tasks open again from the log.
	Abandon
)

var meaningNames = [...]string{"", "retry", "await generation", "skip", "replay", "renew", "outcome unknown", "refuse", "reject", "fail", "abandon"}

// String returns the meaning's name as the table of the package page has it.
func (m Meaning) String() string { return meaningNames[m] }

// Row is one entry of the table of errors.
type Row struct {
	Request Request
	Err     error   // a *kerr.Error, or a class of errors
	Meaning Meaning // what to do
	Then    Meaning // what to do once Retry or Await have lasted too long; equal to Meaning: never too long
	Fenced  bool    // somebody else may have taken the transactional id
	Why     string
}

// Classes of errors, for what no row names.
var (
	errAnyTransport = errors.New("no answer (transport)")
	errAnyRetriable = errors.New("any other retriable code")
	errAnyOther     = errors.New("any other code")
	errAnyClient    = errors.New("any other error")
)

// table is the only place that says what an error means. Rows of one request stand together; within a request the first
// row that matches is taken, the classes last.
var table = []Row{
	{Request: ReqBegin, Err: errAnyClient, Meaning: Renew, Why: "the client's producer id failed before"},

	{Request: ReqRegister, Err: kerr.ConcurrentTransactions, Meaning: Retry, Then: Skip, Why: "markers of the last transaction are not all written"},
	{Request: ReqRegister, Err: kerr.InvalidProducerEpoch, Meaning: Renew, Fenced: true, Why: "ended by the broker, or fenced"},
	{Request: ReqRegister, Err: kerr.ProducerFenced, Meaning: Renew, Fenced: true, Why: "the id was initialised elsewhere"},
	{Request: ReqRegister, Err: kerr.InvalidProducerIDMapping, Meaning: Renew, Why: "the broker forgot the id"},
	{Request: ReqRegister, Err: errEnded, Meaning: Skip, Why: "the commit or abort that follows deals with it"},
	{Request: ReqRegister, Err: errAnyClient, Meaning: Skip, Why: "registering early only saves time; producing tells what is wrong"},

	{Request: ReqProduce, Err: kerr.MessageTooLarge, Meaning: Reject, Why: "larger than max.message.bytes or than the client's batch"},
	{Request: ReqProduce, Err: kerr.RecordListTooLarge, Meaning: Reject, Why: "larger than a segment of the topic"},
	{Request: ReqProduce, Err: kerr.InvalidRecord, Meaning: Reject, Why: "refused by the broker, as a null key in a compacted topic is"},
	{Request: ReqProduce, Err: kerr.InvalidTimestamp, Meaning: Reject, Why: "outside of the topic's message.timestamp limits"},
	{Request: ReqProduce, Err: kerr.PolicyViolation, Meaning: Reject, Why: "a policy of the cluster refuses the record"},
	{Request: ReqProduce, Err: kerr.InvalidTopicException, Meaning: Reject, Why: "no valid topic name"},
	{Request: ReqProduce, Err: kerr.UnknownTopicOrPartition, Meaning: Reject, Why: "the topic does not exist, after the client's retries"},
	{Request: ReqProduce, Err: kerr.UnknownTopicID, Meaning: Reject, Why: "the topic was deleted or made anew"},
	{Request: ReqProduce, Err: kerr.TopicAuthorizationFailed, Meaning: Reject, Why: "no right to write to the topic"},
	{Request: ReqProduce, Err: kerr.UnsupportedForMessageFormat, Meaning: Reject, Why: "the topic's message format is too old"},
	{Request: ReqProduce, Err: kerr.ClusterAuthorizationFailed, Meaning: Fail, Why: "no right to produce idempotently"},
	{Request: ReqProduce, Err: kerr.TransactionalIDAuthorizationFailed, Meaning: Fail, Why: "no right to the transactional id"},
	{Request: ReqProduce, Err: kerr.InvalidProducerEpoch, Meaning: Renew, Fenced: true, Why: "the broker ended the transaction on timeout, or fenced"},
	{Request: ReqProduce, Err: kerr.ProducerFenced, Meaning: Renew, Fenced: true, Why: "the id was initialised elsewhere"},
	{Request: ReqProduce, Err: kerr.InvalidTxnState, Meaning: Renew, Why: "the broker ended the transaction"},
	{Request: ReqProduce, Err: kerr.InvalidProducerIDMapping, Meaning: Renew, Why: "the broker forgot the id"},
	{Request: ReqProduce, Err: kerr.UnknownProducerID, Meaning: Renew, Why: "the log does not know the producer"},
	{Request: ReqProduce, Err: kerr.OutOfOrderSequenceNumber, Meaning: Renew, Why: "acknowledged records are missing"},
	{Request: ReqProduce, Err: kerr.ConcurrentTransactions, Meaning: Renew, Why: "outlived the client's retries"},
	{Request: ReqProduce, Err: kerr.TransactionAbortable, Meaning: Replay, Why: "the broker asks for an abort"},
	{Request: ReqProduce, Err: errStuck, Meaning: Renew, Why: "the flush took longer than the transaction may, or than two minutes at-least-once"},
	{Request: ReqProduce, Err: errEnded, Meaning: Replay, Why: "no EndTxn was sent: not committed for sure"},
	{Request: ReqProduce, Err: errAnyTransport, Meaning: Replay, Why: "no EndTxn was sent: not committed for sure"},
	{Request: ReqProduce, Err: errAnyRetriable, Meaning: Replay, Why: "outlived the client's retries"},
	{Request: ReqProduce, Err: errAnyOther, Meaning: Renew, Why: "the producer's state is in doubt"},

	{Request: ReqStage, Err: errEnded, Meaning: Replay, Why: "no EndTxn was sent: not committed for sure"},
	{Request: ReqStage, Err: errAnyClient, Meaning: Replay, Why: "no change left the process; the caller decides how often"},

	{Request: ReqAddOffsets, Err: kerr.ConcurrentTransactions, Meaning: Retry, Then: Replay, Why: "markers of the last transaction are not all written"},
	{Request: ReqAddOffsets, Err: kerr.InvalidProducerEpoch, Meaning: Renew, Fenced: true, Why: "the broker ended the transaction on timeout, or fenced"},
	{Request: ReqAddOffsets, Err: kerr.ProducerFenced, Meaning: Renew, Fenced: true, Why: "the id was initialised elsewhere"},
	{Request: ReqAddOffsets, Err: kerr.InvalidTxnState, Meaning: Renew, Why: "the broker ended the transaction"},
	{Request: ReqAddOffsets, Err: kerr.InvalidProducerIDMapping, Meaning: Renew, Why: "the broker forgot the id"},
	{Request: ReqAddOffsets, Err: kerr.TransactionAbortable, Meaning: Replay, Why: "the broker asks for an abort"},
	{Request: ReqAddOffsets, Err: kerr.TransactionalIDAuthorizationFailed, Meaning: Fail, Why: "no right to the transactional id"},
	{Request: ReqAddOffsets, Err: kerr.GroupAuthorizationFailed, Meaning: Fail, Why: "no right to the group"},
	{Request: ReqAddOffsets, Err: errEnded, Meaning: Replay, Why: "no EndTxn was sent: not committed for sure"},
	{Request: ReqAddOffsets, Err: errAnyTransport, Meaning: Replay, Why: "no EndTxn was sent: not committed for sure"},
	{Request: ReqAddOffsets, Err: errAnyRetriable, Meaning: Retry, Then: Replay, Why: "the coordinator is loading or moving"},
	{Request: ReqAddOffsets, Err: errAnyOther, Meaning: Renew, Why: "the producer's state is in doubt"},

	{Request: ReqTxnOffsetCommit, Err: kerr.ConcurrentTransactions, Meaning: Retry, Then: Replay, Why: "markers of the last transaction are not all written"},
	{Request: ReqTxnOffsetCommit, Err: kerr.IllegalGeneration, Meaning: Await, Then: Refuse, Why: "a rebalance is over at the broker and not yet at the client"},
	{Request: ReqTxnOffsetCommit, Err: kerr.StaleMemberEpoch, Meaning: Await, Then: Refuse, Why: "the member's epoch moved at the broker first"},
	{Request: ReqTxnOffsetCommit, Err: kerr.RebalanceInProgress, Meaning: Retry, Then: Refuse, Why: "the group is being assigned"},
	{Request: ReqTxnOffsetCommit, Err: kerr.UnknownMemberID, Meaning: Refuse, Why: "evicted from the group"},
	{Request: ReqTxnOffsetCommit, Err: kerr.FencedMemberEpoch, Meaning: Refuse, Why: "evicted from the group"},
	{Request: ReqTxnOffsetCommit, Err: kerr.GroupIDNotFound, Meaning: Refuse, Why: "the group is gone, and the membership with it"},
	{Request: ReqTxnOffsetCommit, Err: kerr.FencedInstanceID, Meaning: Fail, Why: "another process took the group instance id"},
	{Request: ReqTxnOffsetCommit, Err: kerr.InvalidProducerEpoch, Meaning: Renew, Fenced: true, Why: "the broker ended the transaction on timeout, or fenced"},
	{Request: ReqTxnOffsetCommit, Err: kerr.ProducerFenced, Meaning: Renew, Fenced: true, Why: "the id was initialised elsewhere"},
	{Request: ReqTxnOffsetCommit, Err: kerr.InvalidTxnState, Meaning: Renew, Why: "the broker ended the transaction"},
	{Request: ReqTxnOffsetCommit, Err: kerr.InvalidProducerIDMapping, Meaning: Renew, Why: "the broker forgot the id"},
	{Request: ReqTxnOffsetCommit, Err: kerr.TransactionAbortable, Meaning: Replay, Why: "the broker asks for an abort"},
	{Request: ReqTxnOffsetCommit, Err: kerr.OffsetMetadataTooLarge, Meaning: Fail, Why: "the offset's metadata is over the broker's offset.metadata.max.bytes"},
	{Request: ReqTxnOffsetCommit, Err: kerr.InvalidCommitOffsetSize, Meaning: Fail, Why: "the offset commit is over the size of a batch of the offsets topic"},
	{Request: ReqTxnOffsetCommit, Err: kerr.TransactionalIDAuthorizationFailed, Meaning: Fail, Why: "no right to the transactional id"},
	{Request: ReqTxnOffsetCommit, Err: kerr.GroupAuthorizationFailed, Meaning: Fail, Why: "no right to the group"},
	{Request: ReqTxnOffsetCommit, Err: kerr.TopicAuthorizationFailed, Meaning: Fail, Why: "no right to read the input topic"},
	{Request: ReqTxnOffsetCommit, Err: kerr.UnknownTopicOrPartition, Meaning: Retry, Then: Fail, Why: "the input topic is gone"},
	{Request: ReqTxnOffsetCommit, Err: kerr.UnknownTopicID, Meaning: Retry, Then: Fail, Why: "the input topic was deleted or made anew"},
	{Request: ReqTxnOffsetCommit, Err: errProducerMoved, Meaning: Renew, Why: "the first part of the transaction is aborted already"},
	{Request: ReqTxnOffsetCommit, Err: errEnded, Meaning: Replay, Why: "no EndTxn was sent: not committed for sure"},
	{Request: ReqTxnOffsetCommit, Err: errAnyTransport, Meaning: Replay, Why: "no EndTxn was sent: not committed for sure"},
	{Request: ReqTxnOffsetCommit, Err: errAnyRetriable, Meaning: Retry, Then: Replay, Why: "the coordinator is loading or moving"},
	{Request: ReqTxnOffsetCommit, Err: errAnyOther, Meaning: Renew, Why: "the producer's state is in doubt"},

	{Request: ReqOffsetCommit, Err: kerr.IllegalGeneration, Meaning: Await, Then: Refuse, Why: "a rebalance is over at the broker and not yet at the client"},
	{Request: ReqOffsetCommit, Err: kerr.StaleMemberEpoch, Meaning: Await, Then: Refuse, Why: "the member's epoch moved at the broker first"},
	{Request: ReqOffsetCommit, Err: kerr.RebalanceInProgress, Meaning: Retry, Then: Refuse, Why: "the group is being assigned"},
	{Request: ReqOffsetCommit, Err: kerr.UnknownMemberID, Meaning: Refuse, Why: "evicted from the group"},
	{Request: ReqOffsetCommit, Err: kerr.FencedMemberEpoch, Meaning: Refuse, Why: "evicted from the group"},
	{Request: ReqOffsetCommit, Err: kerr.GroupIDNotFound, Meaning: Refuse, Why: "the group is gone, and the membership with it"},
	{Request: ReqOffsetCommit, Err: kerr.FencedInstanceID, Meaning: Fail, Why: "another process took the group instance id"},
	{Request: ReqOffsetCommit, Err: kerr.OffsetMetadataTooLarge, Meaning: Fail, Why: "the offset's metadata is over the broker's offset.metadata.max.bytes"},
	{Request: ReqOffsetCommit, Err: kerr.InvalidCommitOffsetSize, Meaning: Fail, Why: "the offset commit is over the size of a batch of the offsets topic"},
	{Request: ReqOffsetCommit, Err: kerr.GroupAuthorizationFailed, Meaning: Fail, Why: "no right to the group"},
	{Request: ReqOffsetCommit, Err: kerr.TopicAuthorizationFailed, Meaning: Fail, Why: "no right to read the input topic"},
	{Request: ReqOffsetCommit, Err: kerr.UnknownTopicOrPartition, Meaning: Retry, Then: Fail, Why: "the input topic is gone"},
	{Request: ReqOffsetCommit, Err: kerr.UnknownTopicID, Meaning: Retry, Then: Fail, Why: "the input topic was deleted or made anew"},
	{Request: ReqOffsetCommit, Err: errEnded, Meaning: Replay, Why: "offsets alone may be committed or not: a replay does no harm"},
	{Request: ReqOffsetCommit, Err: errAnyTransport, Meaning: Retry, Then: Replay, Why: "sending the same offsets twice does no harm"},
	{Request: ReqOffsetCommit, Err: errAnyRetriable, Meaning: Retry, Then: Replay, Why: "the coordinator is loading or moving"},
	{Request: ReqOffsetCommit, Err: kerr.UnknownServerError, Meaning: Retry, Then: Replay, Why: "the broker does not say"},
	{Request: ReqOffsetCommit, Err: errAnyOther, Meaning: Fail, Why: "nothing that is known to pass"},

	{Request: ReqEndCommit, Err: kerr.OperationNotAttempted, Meaning: Renew, Why: "the producer id failed; no EndTxn was sent"},
	{Request: ReqEndCommit, Err: kerr.ProducerFenced, Meaning: Unknown, Fenced: true, Why: "initialised elsewhere, before or after an EndTxn whose answer was lost"},
	{Request: ReqEndCommit, Err: kerr.InvalidProducerEpoch, Meaning: Unknown, Fenced: true, Why: "ended by the broker or fenced, before or after an EndTxn whose answer was lost"},
	{Request: ReqEndCommit, Err: kerr.InvalidTxnState, Meaning: Unknown, Why: "the broker ended the transaction before"},
	{Request: ReqEndCommit, Err: errAnyClient, Meaning: Unknown, Why: "a failed EndTxn is not an abort"},

	{Request: ReqEndAbort, Err: kerr.ProducerFenced, Meaning: Renew, Fenced: true, Why: "the id was initialised elsewhere"},
	{Request: ReqEndAbort, Err: kerr.InvalidProducerEpoch, Meaning: Renew, Fenced: true, Why: "the broker ended the transaction on timeout, or fenced"},
	{Request: ReqEndAbort, Err: errAnyClient, Meaning: Renew, Why: "a new client for the same id aborts what is open"},

	{Request: ReqInitProducerID, Err: kerr.ConcurrentTransactions, Meaning: Retry, Then: Retry, Why: "the last transaction is being ended"},
	{Request: ReqInitProducerID, Err: kerr.ProducerFenced, Meaning: Retry, Then: Retry, Why: "two initialisations at once"},
	{Request: ReqInitProducerID, Err: kerr.InvalidProducerEpoch, Meaning: Retry, Then: Retry, Why: "two initialisations at once"},
	{Request: ReqInitProducerID, Err: errOptions, Meaning: Fail, Why: "the options given for the client contradict each other"},
	{Request: ReqInitProducerID, Err: errEnded, Meaning: Abandon, Why: "what is open ends by its timeout or by the next start"},
	{Request: ReqInitProducerID, Err: errAnyTransport, Meaning: Retry, Then: Retry, Why: "its coordinator is down"},
	{Request: ReqInitProducerID, Err: errAnyRetriable, Meaning: Retry, Then: Retry, Why: "its coordinator is loading or moving"},
	{Request: ReqInitProducerID, Err: kerr.InvalidTransactionTimeout, Meaning: Fail, Why: "the transaction timeout is over the broker's transaction.max.timeout.ms"},
	{Request: ReqInitProducerID, Err: kerr.TransactionalIDAuthorizationFailed, Meaning: Fail, Why: "no right to the transactional id"},
	{Request: ReqInitProducerID, Err: kerr.ClusterAuthorizationFailed, Meaning: Fail, Why: "no right to produce idempotently"},
	{Request: ReqInitProducerID, Err: kerr.UnknownServerError, Meaning: Retry, Then: Fail, Why: "the broker does not say"},
	{Request: ReqInitProducerID, Err: errAnyOther, Meaning: Fail, Why: "nothing that is known to pass"},

	{Request: ReqOffsetFetch, Err: kerr.UnstableOffsetCommit, Meaning: Retry, Then: Retry, Why: "a transaction holds this offset; fence its owner after a while"},
	{Request: ReqOffsetFetch, Err: kerr.UnknownTopicOrPartition, Meaning: Retry, Then: Fail, Why: "the input topic is gone"},
	{Request: ReqOffsetFetch, Err: kerr.UnknownTopicID, Meaning: Retry, Then: Fail, Why: "the input topic was deleted or made anew"},
	{Request: ReqOffsetFetch, Err: kerr.GroupIDNotFound, Meaning: Skip, Why: "there is no such group: nothing is committed"},
	{Request: ReqOffsetFetch, Err: errEnded, Meaning: Abandon, Why: "no answer is not an abort"},
	{Request: ReqOffsetFetch, Err: errAnyTransport, Meaning: Retry, Then: Retry, Why: "no answer is not an abort"},
	{Request: ReqOffsetFetch, Err: errAnyRetriable, Meaning: Retry, Then: Retry, Why: "the coordinator is loading or moving"},
	{Request: ReqOffsetFetch, Err: kerr.GroupAuthorizationFailed, Meaning: Fail, Why: "no right to the group"},
	{Request: ReqOffsetFetch, Err: kerr.TopicAuthorizationFailed, Meaning: Fail, Why: "no right to read the input topic"},
	{Request: ReqOffsetFetch, Err: kerr.UnknownServerError, Meaning: Retry, Then: Fail, Why: "the broker does not say"},
	{Request: ReqOffsetFetch, Err: errAnyOther, Meaning: Fail, Why: "nothing that is known to pass"},

	{Request: ReqFence, Err: kerr.ConcurrentTransactions, Meaning: Retry, Then: Fail, Why: "the abort it caused is under way"},
	{Request: ReqFence, Err: kerr.InvalidProducerEpoch, Meaning: Skip, Why: "somebody else fenced it"},
	{Request: ReqFence, Err: kerr.ProducerFenced, Meaning: Skip, Why: "somebody else fenced it"},
	{Request: ReqFence, Err: errEnded, Meaning: Abandon, Why: "the caller stopped"},
	{Request: ReqFence, Err: errAnyTransport, Meaning: Retry, Then: Fail, Why: "its coordinator is down"},
	{Request: ReqFence, Err: errAnyRetriable, Meaning: Retry, Then: Fail, Why: "its coordinator is loading or moving"},
	{Request: ReqFence, Err: errAnyOther, Meaning: Fail, Why: "no right to the transactional id, for one"},
}

// Classify finds the row of the table for an error of a request. Every error has one.
func Classify(req Request, err error) Row {
	ke, isCode := errors.AsType[*kerr.Error](err)
	ended := errors.Is(err, errEnded)
	for _, row := range table {
		if row.Request != req {
			continue
		}
		var match bool
		switch want := row.Err; want {
		case errEnded:
			match = ended
		case errAnyTransport:
			match = !isCode
		case errAnyRetriable:
			match = isCode && ke.Retriable
		case errAnyOther:
			match = isCode
		case errAnyClient:
			match = true
		case errProducerMoved, errOptions, errStuck:
			match = errors.Is(err, want)
		default:
			match = isCode && !ended && want == error(ke)
		}
		if match {
			return row
		}
	}
	return Row{Request: req, Err: err, Meaning: Fail, Why: "not in the table"}
}

// Table returns a copy of the table of errors.
func Table() []Row { return append([]Row(nil), table...) }
