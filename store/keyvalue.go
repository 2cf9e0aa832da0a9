package store

import (
	"iter"
	"time"
)

// KeyValue is a key-value store as a processor sees it: it reads its own writes of the running transaction. It belongs to the
// task; do not use it from other goroutines. Methods return no error: when the disk fails, the call does not return, the
// transaction is aborted and the task is closed, so there is nothing useful a processor could do. A key or value that its serde
// cannot encode is a record that failed: the call does not return either, and the store stays as it was.
//
// Each entry has a time: that of the record that wrote it last, or stream time if a timer did. It is the changelog record's timestamp, and
// what a TTL counts from. An entry past its TTL is not there any more, but for Len: see there.
//
// Values are copies: what is done with a value that was given or got does not reach the store. A value that its serde writes as null,
// such as a nil pointer of serde.Optional, means that there is none: storing it deletes.
//
// Ranges are in the order of the encoded keys. A range sees the store as it was when the loop began, whatever the loop writes. It must end
// in the call of the processor that began it.
type KeyValue[K comparable, V any] interface {
	// Get returns the value and whether there is one.
	Get(key K) (V, bool)
	// Entry is Get with the time of the last write.
	Entry(key K) (Entry[K, V], bool)
	// Put sets the value. Storing a nil pointer deletes.
	Put(key K, value V)
	// PutAt is Put with a time of your own, in whole milliseconds.
	PutAt(key K, value V, at time.Time)
	// Delete removes the entry, if there is one. The changelog gets a delete in any case, as the store is not asked.
	Delete(key K)
	// Update replaces the value by what f makes of it, with one look-up. keep false deletes. If f panics the entry stays as it was.
	Update(key K, f func(old V, ok bool) (value V, keep bool))
	// Range visits the keys from from to to, both included; none if to comes before from.
	Range(from, to K) iter.Seq2[K, V]
	// RangeBackward is Range in descending order: it begins at to.
	RangeBackward(from, to K) iter.Seq2[K, V]
	// Prefix visits the keys whose encoded form starts with prefix.
	Prefix(prefix []byte) iter.Seq2[K, V]
	// All visits everything.
	All() iter.Seq2[K, V]
	// Len is the exact number of entries. Those that are past their TTL count until they are removed, within about an eighth of it. It may
	// have to look up entries that were put without having been read.
	Len() int64
}

// Entry is a row and the event time of its last write.
type Entry[K comparable, V any] struct {
	Key   K
	Value V
	Time  time.Time
}
