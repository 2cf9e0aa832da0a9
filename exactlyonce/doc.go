// Package exactlyonce is the commit cycle of a worker: the order in which state changes, output and input offsets reach the
// cluster, and what every error on the way means. Both guarantees go through it.
//
// It knows nothing of tasks, stores or topologies. A worker gives it a [Participant], which hands out what changed, and
// gets a [Driver] back, which owns the worker's one client:
//
//	d, err := exactlyonce.Open(ctx, exactlyonce.Config{
//		Group:           "shop",
//		TransactionalID: "shop-7f3a-0", // one for each worker, the same after a restart
//		Client:          []kgo.Opt{kgo.SeedBrokers("localhost:9092")},
//		Identity:        member.Identity, // of the group client
//		TopicID:         topics.ID,
//	}, tasks)
//	...
//	d.Produce(ctx, record)    // while processing: begins a transaction with the first record
//	out := d.Commit(ctx)      // every commit interval, on revoke, and when enough is staged
//	switch out.Kind {
//	case exactlyonce.Aborted: // read again from the committed offsets
//	}
//
// # The cycle
//
//  1. The first record after a commit begins a transaction. Where transaction.version is 2 or above, the partitions that will be
//     written are added to it at once, waiting in steps of 5 ms for the markers of the transaction before. A
//     first batch that the broker refuses because of them would wait for the client's next metadata.
//  2. Commit asks the participant for its offsets. None: there is nothing to do.
//  3. The guard: [Config.Identity] says under which membership the tasks are held, or that they are not.
//  4. The participant stages its changes: one changelog record for each entry that changed.
//  5. Flush: every acknowledgement is in, or the transaction is aborted.
//  6. The offsets go into the transaction, with the member id and generation of step 3. This is the only request by which
//     the broker checks the membership, so a transaction without it is never committed. A broker that is a generation
//     ahead gets the offsets again, in the same transaction, once the client has caught up.
//  7. EndTxn.
//  8. The participant hears that it is committed: what was dirty is committed now.
//
// If nothing was produced, the offsets go alone in a plain OffsetCommit, since the client would send no EndTxn for them.
// At-least-once is the same cycle without the transaction: flush, then OffsetCommit. There the outputs are acknowledged before anything is staged, so that a crash never leaves a
// change whose output is lost.
//
// # When it goes wrong
//
// Until EndTxn is sent nothing can be committed, so every failure before it is an abort: the participant rolls back to the last
// commit, and the worker reads its inputs again from there. If the client cannot abort cleanly, it is closed, and a
// new one initialises the same transactional id, which makes the broker abort what is open.
//
// A failed EndTxn is not an abort: the broker may have committed and the answer been lost. The client is closed, a
// new one initialises the id, after which the transaction has ended one way or the other. Then the stable offsets are
// read until they answer. Every transaction puts a number that is used once at the end of its offsets' metadata (see
// [SplitMetadata]). One offset that is there as it was sent, number included, proves the commit; if all have answered and none is, it was aborted. Offsets
// alone would not do: a transaction in which only a timer wrote moves none, and a partition that has found
// a new owner meanwhile may be further on. No answer is no proof: the driver goes on asking until the caller's context
// ends, and then claims nothing (Abandoned).
//
// When the group refuses the member, the transaction is aborted once and the driver stops (Refused). Going on would fill
// the changelogs with aborted records. The group's next assignment decides which tasks remain; then [Driver.Resume].
//
// A transaction that stays open for longer than its timeout is ended by the broker. The cycle is replayed with a new client and
// Outcome.TimedOut set, so that the caller can name a record on which it happens twice. Three fencings within a minute that
// no timeout and no change of generation explain mean that another process uses the same transactional id (ErrSharedID).
//
// # States
//
//	                        nothing to commit
//	                     +----------------------+
//	                     |                      v
//	record --> idle --commit--> guarding --> staging --> flushing --> (joining) --> sending --> ending --> applying --> idle
//	            ^                  |            |           |             |          |   ^         |
//	            |                  |            |           |             |          v   |         | no clear answer
//	            |                  |            |           |             |        awaiting        v
//	            |                  v            v           v             v          |         reopening --> comparing --> applying
//	            |               aborting  <-----+-----------+-------------+----------+             ^             |
//	            |                  |   \                                                           |             |
//	            |                  |    +---- cannot abort ----------------------------------------+             | not there
//	            |                  v                                                               |             |
//	            +----------- rolling back <--------------------------------------------------------+-------------+
//	                               |
//	                               +--> refused (until Resume), dead
//
// joining is AddOffsetsToTxn, needed below transaction.version 2. The machine (machine.go) is pure: no goroutine, no socket, no
// clock. It is told what happened and answers what to do; testdata holds its stories.
//
// # Taking over
//
// Before a task opens, [StableOffsets] waits until no transaction holds its inputs' offsets, and a [Fencer] ends the transaction of
// an owner that died with one open, instead of waiting for its timeout. The order is: stable offsets first, then the
// changelog's end, read uncommitted; then restore up to it, read committed.
//
// # What is guaranteed
//
//   - Committed is called only when the transaction is committed, Rollback only when it is not, or when nothing may go on
//     before the tasks were opened again from the log (Refused, Fatal, Abandoned). In the latter case what the participant
//     holds is a commit behind at most, never ahead.
//   - Of an aborted transaction nothing is visible to readers of committed records.
//   - Nothing is committed for a member that the group has given up, whatever the process believes of itself.
//   - A context is never given to a request whose cutting off would leave the client in doubt. A process that stops still comes
//     to an end: five seconds after the context the client is closed.
//   - At-least-once: offsets are never ahead of what was acknowledged. After an abort or a crash, records since the last commit
//     come again, with changes and outputs of them possibly written already.
//
// # Errors
//
// Every error is looked up in one table, by the machine, by StableOffsets and by the Fencer. Retry and await end, after the
// transaction timeout and after Config.GenerationWait, in the meaning after the comma.
//
//	request            error                                  meaning
//	begin              any other error                        renew: the client's producer id failed before
//	AddPartitionsToTxn CONCURRENT_TRANSACTIONS                retry, skip: markers of the last transaction are not all written
//	                   INVALID_PRODUCER_EPOCH                 renew: ended by the broker, or fenced
//	                   PRODUCER_FENCED                        renew: the id was initialised elsewhere
//	                   INVALID_PRODUCER_ID_MAPPING            renew: the broker forgot the id
//	                   stopped by the caller                  skip: the commit or abort that follows deals with it
//	                   any other error                        skip: registering early only saves time; producing tells what is wrong
//	Produce            MESSAGE_TOO_LARGE                      reject: larger than max.message.bytes or than the client's batch
//	                   RECORD_LIST_TOO_LARGE                  reject: larger than a segment of the topic
//	                   INVALID_RECORD                         reject: refused by the broker, as a null key in a compacted topic is
//	                   INVALID_TIMESTAMP                      reject: outside of the topic's message.timestamp limits
//	                   POLICY_VIOLATION                       reject: a policy of the cluster refuses the record
//	                   INVALID_TOPIC_EXCEPTION                reject: no valid topic name
//	                   UNKNOWN_TOPIC_OR_PARTITION             reject: the topic does not exist, after the client's retries
//	                   UNKNOWN_TOPIC_ID                       reject: the topic was deleted or made anew
//	                   TOPIC_AUTHORIZATION_FAILED             reject: no right to write to the topic
//	                   UNSUPPORTED_FOR_MESSAGE_FORMAT         reject: the topic's message format is too old
//	                   CLUSTER_AUTHORIZATION_FAILED           fail: no right to produce idempotently
//	                   TRANSACTIONAL_ID_AUTHORIZATION_FAILED  fail: no right to the transactional id
//	                   INVALID_PRODUCER_EPOCH                 renew: the broker ended the transaction on timeout, or fenced
//	                   PRODUCER_FENCED                        renew: the id was initialised elsewhere
//	                   INVALID_TXN_STATE                      renew: the broker ended the transaction
//	                   INVALID_PRODUCER_ID_MAPPING            renew: the broker forgot the id
//	                   UNKNOWN_PRODUCER_ID                    renew: the log does not know the producer
//	                   OUT_OF_ORDER_SEQUENCE_NUMBER           renew: acknowledged records are missing
//	                   CONCURRENT_TRANSACTIONS                renew: outlived the client's retries
//	                   TRANSACTION_ABORTABLE                  replay: the broker asks for an abort
//	                   records were not acknowledged in time  renew: the flush took longer than the transaction may, or than two minutes at-least-once
//	                   stopped by the caller                  replay: no EndTxn was sent: not committed for sure
//	                   no answer (transport)                  replay: no EndTxn was sent: not committed for sure
//	                   any other retriable code               replay: outlived the client's retries
//	                   any other code                         renew: the producer's state is in doubt
//	stage              stopped by the caller                  replay: no EndTxn was sent: not committed for sure
//	                   any other error                        replay: no change left the process; the caller decides how often
//	AddOffsetsToTxn    CONCURRENT_TRANSACTIONS                retry, replay: markers of the last transaction are not all written
//	                   INVALID_PRODUCER_EPOCH                 renew: the broker ended the transaction on timeout, or fenced
//	                   PRODUCER_FENCED                        renew: the id was initialised elsewhere
//	                   INVALID_TXN_STATE                      renew: the broker ended the transaction
//	                   INVALID_PRODUCER_ID_MAPPING            renew: the broker forgot the id
//	                   TRANSACTION_ABORTABLE                  replay: the broker asks for an abort
//	                   TRANSACTIONAL_ID_AUTHORIZATION_FAILED  fail: no right to the transactional id
//	                   GROUP_AUTHORIZATION_FAILED             fail: no right to the group
//	                   stopped by the caller                  replay: no EndTxn was sent: not committed for sure
//	                   no answer (transport)                  replay: no EndTxn was sent: not committed for sure
//	                   any other retriable code               retry, replay: the coordinator is loading or moving
//	                   any other code                         renew: the producer's state is in doubt
//	TxnOffsetCommit    CONCURRENT_TRANSACTIONS                retry, replay: markers of the last transaction are not all written
//	                   ILLEGAL_GENERATION                     await generation, refuse: a rebalance is over at the broker and not yet at the client
//	                   STALE_MEMBER_EPOCH                     await generation, refuse: the member's epoch moved at the broker first
//	                   REBALANCE_IN_PROGRESS                  retry, refuse: the group is being assigned
//	                   UNKNOWN_MEMBER_ID                      refuse: evicted from the group
//	                   FENCED_MEMBER_EPOCH                    refuse: evicted from the group
//	                   GROUP_ID_NOT_FOUND                     refuse: the group is gone, and the membership with it
//	                   FENCED_INSTANCE_ID                     fail: another process took the group instance id
//	                   INVALID_PRODUCER_EPOCH                 renew: the broker ended the transaction on timeout, or fenced
//	                   PRODUCER_FENCED                        renew: the id was initialised elsewhere
//	                   INVALID_TXN_STATE                      renew: the broker ended the transaction
//	                   INVALID_PRODUCER_ID_MAPPING            renew: the broker forgot the id
//	                   TRANSACTION_ABORTABLE                  replay: the broker asks for an abort
//	                   OFFSET_METADATA_TOO_LARGE              fail: the offset's metadata is over the broker's offset.metadata.max.bytes
//	                   INVALID_COMMIT_OFFSET_SIZE             fail: the offset commit is over the size of a batch of the offsets topic
//	                   TRANSACTIONAL_ID_AUTHORIZATION_FAILED  fail: no right to the transactional id
//	                   GROUP_AUTHORIZATION_FAILED             fail: no right to the group
//	                   TOPIC_AUTHORIZATION_FAILED             fail: no right to read the input topic
//	                   UNKNOWN_TOPIC_OR_PARTITION             retry, fail: the input topic is gone
//	                   UNKNOWN_TOPIC_ID                       retry, fail: the input topic was deleted or made anew
//	                   the client's producer id or epoch changed within the transaction renew: the first part of the transaction is aborted already
//	                   stopped by the caller                  replay: no EndTxn was sent: not committed for sure
//	                   no answer (transport)                  replay: no EndTxn was sent: not committed for sure
//	                   any other retriable code               retry, replay: the coordinator is loading or moving
//	                   any other code                         renew: the producer's state is in doubt
//	OffsetCommit       ILLEGAL_GENERATION                     await generation, refuse: a rebalance is over at the broker and not yet at the client
//	                   STALE_MEMBER_EPOCH                     await generation, refuse: the member's epoch moved at the broker first
//	                   REBALANCE_IN_PROGRESS                  retry, refuse: the group is being assigned
//	                   UNKNOWN_MEMBER_ID                      refuse: evicted from the group
//	                   FENCED_MEMBER_EPOCH                    refuse: evicted from the group
//	                   GROUP_ID_NOT_FOUND                     refuse: the group is gone, and the membership with it
//	                   FENCED_INSTANCE_ID                     fail: another process took the group instance id
//	                   OFFSET_METADATA_TOO_LARGE              fail: the offset's metadata is over the broker's offset.metadata.max.bytes
//	                   INVALID_COMMIT_OFFSET_SIZE             fail: the offset commit is over the size of a batch of the offsets topic
//	                   GROUP_AUTHORIZATION_FAILED             fail: no right to the group
//	                   TOPIC_AUTHORIZATION_FAILED             fail: no right to read the input topic
//	                   UNKNOWN_TOPIC_OR_PARTITION             retry, fail: the input topic is gone
//	                   UNKNOWN_TOPIC_ID                       retry, fail: the input topic was deleted or made anew
//	                   stopped by the caller                  replay: offsets alone may be committed or not: a replay does no harm
//	                   no answer (transport)                  retry, replay: sending the same offsets twice does no harm
//	                   any other retriable code               retry, replay: the coordinator is loading or moving
//	                   UNKNOWN_SERVER_ERROR                   retry, replay: the broker does not say
//	                   any other code                         fail: nothing that is known to pass
//	EndTxn commit      OPERATION_NOT_ATTEMPTED                renew: the producer id failed; no EndTxn was sent
//	                   PRODUCER_FENCED                        outcome unknown: initialised elsewhere, before or after an EndTxn whose answer was lost
//	                   INVALID_PRODUCER_EPOCH                 outcome unknown: ended by the broker or fenced, before or after an EndTxn whose answer was lost
//	                   INVALID_TXN_STATE                      outcome unknown: the broker ended the transaction before
//	                   any other error                        outcome unknown: a failed EndTxn is not an abort
//	EndTxn abort       PRODUCER_FENCED                        renew: the id was initialised elsewhere
//	                   INVALID_PRODUCER_EPOCH                 renew: the broker ended the transaction on timeout, or fenced
//	                   any other error                        renew: a new client for the same id aborts what is open
//	InitProducerID     CONCURRENT_TRANSACTIONS                retry: the last transaction is being ended
//	                   PRODUCER_FENCED                        retry: two initialisations at once
//	                   INVALID_PRODUCER_EPOCH                 retry: two initialisations at once
//	                   the client's options are not valid     fail: the options given for the client contradict each other
//	                   stopped by the caller                  abandon: what is open ends by its timeout or by the next start
//	                   no answer (transport)                  retry: its coordinator is down
//	                   any other retriable code               retry: its coordinator is loading or moving
//	                   INVALID_TRANSACTION_TIMEOUT            fail: the transaction timeout is over the broker's transaction.max.timeout.ms
//	                   TRANSACTIONAL_ID_AUTHORIZATION_FAILED  fail: no right to the transactional id
//	                   CLUSTER_AUTHORIZATION_FAILED           fail: no right to produce idempotently
//	                   UNKNOWN_SERVER_ERROR                   retry, fail: the broker does not say
//	                   any other code                         fail: nothing that is known to pass
//	OffsetFetch        UNSTABLE_OFFSET_COMMIT                 retry: a transaction holds this offset; fence its owner after a while
//	                   UNKNOWN_TOPIC_OR_PARTITION             retry, fail: the input topic is gone
//	                   UNKNOWN_TOPIC_ID                       retry, fail: the input topic was deleted or made anew
//	                   GROUP_ID_NOT_FOUND                     skip: there is no such group: nothing is committed
//	                   stopped by the caller                  abandon: no answer is not an abort
//	                   no answer (transport)                  retry: no answer is not an abort
//	                   any other retriable code               retry: the coordinator is loading or moving
//	                   GROUP_AUTHORIZATION_FAILED             fail: no right to the group
//	                   TOPIC_AUTHORIZATION_FAILED             fail: no right to read the input topic
//	                   UNKNOWN_SERVER_ERROR                   retry, fail: the broker does not say
//	                   any other code                         fail: nothing that is known to pass
//	fence              CONCURRENT_TRANSACTIONS                retry, fail: the abort it caused is under way
//	                   INVALID_PRODUCER_EPOCH                 skip: somebody else fenced it
//	                   PRODUCER_FENCED                        skip: somebody else fenced it
//	                   stopped by the caller                  abandon: the caller stopped
//	                   no answer (transport)                  retry, fail: its coordinator is down
//	                   any other retriable code               retry, fail: its coordinator is loading or moving
//	                   any other code                         fail: no right to the transactional id, for one
package exactlyonce
