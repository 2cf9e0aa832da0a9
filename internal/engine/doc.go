// Package engine runs tasks: it takes raw records in order of time, calls typed operators, keeps their stores, clocks and timers, and says
// at a commit what must go to the changelog and which offsets belong to it. It has no Kafka client and no goroutine of its own: package
// kolk drives it against a broker and package topologytest without one. It imports no public package, so that all of them may import it.
//
// The life of a task, all on one goroutine:
//
//	Open             stores and operators are made
//	Restore          changelog records fill the stores
//	Start            where each input goes on, and the clocks as of there
//	Add, Process     records in, one at a time through the operators; outputs go to Env.Output
//	Punctuate        timers that follow the wall clock
//	Prepare, Flush   before a commit: what waits for it is sent on, dirty entries go to the changelog
//	Cuts             the offsets that the transaction commits, with their metadata
//	Committed        the transaction ended well; or
//	Rewind           it did not: stores, clocks and operators are as of the last commit
//	Freeze           what is committed, as a checkpoint, applied on any goroutine
//	Close
//
// A failure inside an operator unwinds to Process by a panic of an unexported type, so that nothing between needs to pass errors on.
package engine
