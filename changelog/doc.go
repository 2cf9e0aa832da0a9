// Package changelog is the part of kolk that knows Kafka as the home of state: how its internal topics are named and configured, how they are created and
// checked, and how a store is read back from one.
//
// # What is on a changelog
//
// A store that one task keeps on local disk has its truth in Kafka: every change is also a record on partition p of the topic
// `<application>-<store>-changelog`, where p is the task's partition. The record's key is the row's key, its value the row's value, and a null value is a
// tombstone: the row is gone. What is kept depends on the kind of store:
//
//   - key-value: compacted, so the last value per key stays for ever;
//   - windowed (also sessions): compacted, and deleted some time after no window can reach that far back;
//   - join buffer: not compacted, as each of its records counts; deleted as windows are;
//   - versioned: compacted, but not before a version is older than the history that the store promises;
//   - repartition topics are no state: they carry records from one sub-topology to the next, are never deleted by age, and are purged up to the offset
//     that the reader has committed (see [Purge]).
//
// Names and configurations are those of Kafka Streams, so an application can bring its topics along. [Ensure] creates what is missing and checks what is
// there. It never alters a topic: one that would lose state refuses the start with a [TopicError], which holds the command that repairs it.
//
// # Event times of long ago
//
// Brokers delete and compact by the times of records and by their own clock, and the records of a changelog bear event times. Where event time lies far
// behind the clock, in a replay of last year's input or behind an input that has stood still for a day, what the broker takes for old is what the store still
// needs: a windowed changelog would be deleted, the history of a versioned one compacted away. [Protect] takes the broker's limit off a topic before that can happen. A
// windowed changelog stays bounded nevertheless, because its owner deletes what has expired by event time (see [Expire]).
//
// Beside data there is on a changelog: the markers that end transactions, one offset each; the records of aborted transactions, until the broker cleans them;
// and holes, where compaction has removed records. So offsets are not a count of records, and the last offset is seldom a record.
//
// # How a restore decides it is done
//
// It takes three steps, and their order matters:
//
//  1. The caller reads the committed input offset of the task, and waits until it is stable.
//  2. [Reader.End] asks for the changelog's high watermark. It must not be the last stable offset: once a transaction is committed its input offset can be
//     readable before its marker is on the changelog, and the last stable offset is then still before records which the input offset counts as done.
//  3. [Reader.Restore] reads committed records from the checkpoint's offset until its position reaches that end. The position is what the broker says the next
//     fetch begins at, not the last record plus one: markers, aborted records and holes all move it. An open transaction does not: the restore waits there, and
//     tells Config.Stalled, whose owner can abort the transaction of a dead predecessor at once instead of waiting for its timeout.
//
// A log whose start is its end is restored without a fetch, whatever the number. A checkpoint that the log no longer reaches back to ([ErrTruncated]), that lies
// past its end ([ErrDiverged]), or that belongs to an earlier topic of the same name ([ErrRecreated]) is an error of its own, because continuing would mix two histories.
//
// # Why single fetches and no consumer
//
// A Reader asks the partition's leader with fetch requests of its own instead of subscribing a consumer. A consumer tells its position only through records,
// so that a hole at the end of a compacted log would be waited for for ever; it drains one buffered partition before the next, so that sharing it needs queues
// with pause and resume, and what is buffered for a paused partition is thrown away and fetched again; and a removed partition has to be drained. A fetch answers
// with the exact next position, names the topic by its id, so that a recreated one shows, and a cancelled restore is simply one that asks no more.
// The price is the look-up of leaders and the retries, which are in fetch.go.
package changelog
