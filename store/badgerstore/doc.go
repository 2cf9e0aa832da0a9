// Package badgerstore keeps the applied rows of a task on disk, in Badger. It is the default backend.
//
// The changelog is the truth and this is its cache. So nothing here is ever repaired by guessing: what cannot be trusted is wiped, and
// restored from the changelog.
//
// # On disk
//
//	LOCK         held by the process that has the store open; names it
//	STATE        CLEAN, or RUNNING with the boot of the machine
//	rows/        the task's database: the rows of all its stores, and the record
//	segments/    one database for each large segment: slot_number_checkpoint
//	runs/        sorted files of a bulk load, while it runs
//
// A store's rows have its slot number in front. A segment's rows are in the task's database too, until it has 100,000 rows or 8 MB: then
// it moves to a database of its own, which is dropped by removing a directory. Badger makes large sparse files; du shows what they take.
//
// # A checkpoint
//
// Every checkpoint has a number, used for nothing else ever again, which is Badger's version of its rows. Rows are written first, sorted;
// when they are all there, the record is, in a transaction of its own: number, counts, list of segments, the caller's data. The
// record makes the checkpoint valid. Up to 1000 rows are one transaction together with the record. Reads go on at the number before,
// undisturbed, until Switch; only then may Badger's compactions drop what the new rows replaced.
//
// Rows that the caller does not know are looked up, so that counts stay exact.
//
// # What a crash costs
//
// A process that dies loses nothing that was written: the kernel has it. An unfinished checkpoint leaves rows with a number above the
// record's. Open finds them by that number and writes their values as of the record again, under the next number, about 5 us a row;
// Opened.Undone counts them. If it dies in there, the next Open does the same. What is left to do is the replay of the changelog since
// the last checkpoint.
//
// A machine that dies may lose any page that was not synced, and Badger does not notice all of it. So a store that was not closed clean is
// trusted only within one boot of the machine. After another it is wiped, and Opened says so. Syncing every checkpoint would not
// be enough.
//
// A full disk would kill the process with a signal, as Badger writes through memory maps. Each write looks at the free space first, and
// fails with ErrDiskFull while there is still room. Other writers of the same disk can be faster: leave Config.MinFree large enough.
//
// # What it does not do
//
// There is no time to live: stores delete what expires, by stream time. Only segments that have a database of their own are compressed. Values over 1 MiB (less with little memory)
// are in a value log, whose space comes back some checkpoints after they were replaced; the delete of a row that had such a value takes up a row until merges of tables have dropped
// the value. On systems other than Linux and macOS the lock is
// Badger's own, free space is not looked at, and only a store that was closed clean is trusted.
package badgerstore
