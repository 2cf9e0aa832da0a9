// Package store holds the state of operators and processors. Every store has a name, which names its changelog topic too, and a
// bound, so that no state grows for ever unseen.
//
// A store is declared once, as a typed handle, and the handle is used wherever the store is: to connect it to a processor, to
// open it there, to query it from outside and to look into it in a test. Operators declare theirs themselves and take the
// same options: Count("words", store.FiniteKeys(1e6), store.InMemory()).
//
//	var lastSeen = store.NewKeyValue("last-seen", serde.String(), serde.Int64(), store.TTL(24*time.Hour))
//
// # Bounds
//
// Say why the store does not grow for ever. If keys come from a set that does not grow with time, such as the shops of a chain, it is
// FiniteKeys with about how many there are. If new keys keep coming, such as sessions or orders, it is TTL: an entry ends a while after its
// last write, in event time. Neither counts wall-clock time, so replaying the input gives the same state. Both are watched: a store with
// many more entries than were expected shows in health.
//
// With a TTL, reads are exact: an entry is gone as soon as stream time is d past its own time. It is removed, from the changelog too, when the
// eighth of d in which it expired has passed. A join of tables goes by the removal: its rows change when the delete comes by.
//
// # Windows and sessions
//
// NewWindow and NewSession declare stores of values by key and time. Their bound is the retention: a window is gone when a window that starts
// that much later has been written, a session when one that ends that much later has. What expires needs no deletes: entries lie in segments of
// half the retention (a minute at least), and a segment that has expired as a whole is dropped at the next checkpoint. What expires before its first
// checkpoint never touches the disk. The largest time that was written is kept with the state, so a restart or move does not let anything come back.
//
// A key that was never written is mostly known to be new without a look at the disk: each segment has a filter in memory, ten to twenty bits a key; all filters together
// take up to three eighths of kolk.Config.Memory, and beyond that they err more often, and give up at last. A store
// that was closed and opened again has none for the segments that it had on disk; only that of Stream.Deduplicate makes them again.
//
// The changelog has the bytes of Kafka Streams: the key, the start and four zero bytes for windows; the key, the end and the start for sessions.
//
// # Layers
//
// A store is memory over a backend. What a transaction writes stays in memory and is invisible outside until the transaction has ended well;
// if it is aborted the store is as before. Committed entries go to the backend with the next checkpoint, some seconds later. The changelog,
// a topic in Kafka, has all of them, so a lost disk costs time and no data.
//
// # Values and keys
//
// Values without pointers are kept as they are, others as bytes, decoded anew for each access: a function may change the slice it was
// given, and if it fails half-way the store has not noticed. Numbers and structs of numbers are therefore cheapest.
//
// Strings, integers, bools, and arrays and structs of those are compared as keys by value; structs and arrays with anything else, such as a
// time.Time, by their encoded bytes, which costs an encoding per access. Ranges are in the order of the encoded bytes: that of the
// numbers for serde.Int64 as long as none is negative, not that of the numbers for JSON.
//
// This package has the stores themselves. Where their applied rows are kept is the business of badgerstore (on disk) and memstore, and a
// backend of your own can be checked with storetest.
package store
