// Package soak shows that state is bounded. It runs one task with a store of each kind on disk, for 30 minutes of event time every second, while new keys come all the
// time and old ones do not come again, and looks at how much is kept: entries of each store, bytes on disk, heap.
//
//	go run ./cmd/soak            # a minute
//
// After the longest retention has gone by once, everything that is kept should have its final size. The rest of the run is cut in halves: if the largest value of anything in
// the second is more than Limit times that in the first, the run fails. Halves, because Badger's files grow and are compacted in turns of several steps. The buffers in which Badger
// builds tables are shown apart from the rest of the heap: there are as many as compactions ever met, up to a bound of their own.
//
// The task and its stores are those of an application. There is no broker, so that nothing else takes memory or disk.
package soak
