// Package memstore keeps a task's rows in memory. It is the backend of stores that were declared in memory, and of tests.
//
// A checkpoint is a new root of copy-on-write trees: applying one costs time in the number of its rows only, and the reads of the last one
// go on beside it. Nothing is written anywhere, so an instance that starts again restores such a store from its changelog as a whole.
//
// # A disk that is none
//
// A Disk stands for the directory of a store on disk. It outlives the Store that is open on it, so a test can let a process die, with or
// without the checkpoint that was being written, and look at what its successor finds:
//
//	disk := memstore.NewDisk()
//	store := disk.Open()
//	...
//	store = disk.Open() // the first one was killed; it cannot write any more
//
// With Disk.Fault the death comes within a checkpoint.
package memstore
