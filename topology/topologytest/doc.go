// Package topologytest runs a topology in a test: the real task engine and real stores without a broker, any number of partitions, and time
// that moves only when told.
//
//	func TestOrders(t *testing.T) {
//		top, err := build() // a *topology.Topology
//		if err != nil {
//			t.Fatal(err)
//		}
//		d := topologytest.New(t, top, topologytest.Partitions(4))
//		in, out := d.Input(orders), d.Output(totals)
//
//		in.Send("bonn", Order{Cents: 100})
//		out.Next("bonn", 100)
//
//		d.Restart() // the disk is lost: totals come back from the changelog
//		in.Send("bonn", Order{Cents: 50})
//		out.Next("bonn", 150)
//		out.None()
//	}
//
// Sending a record processes it and all that follows from it, through repartition topics too, and commits, before Send returns. A topic that
// the topology both writes and reads is followed as well. With [ManualCommit] a test commits itself, and can lose what it has not committed.
//
// # What is real and what is not
//
// There is one task for each sub-topology and partition, as in an application, with the same queues, clocks, timers, stores and commits; records get
// their partition from the bytes of their key. Three things differ from an application. All tasks share one transaction. A record that goes
// through a repartition topic is read at once, where an application reads it after the commit that wrote it. And tasks take turns in a
// fixed order, so a test has the same result each time.
//
// # Losing things
//
// [Driver.Abort] loses a transaction: what was done since the last commit is done again. [Driver.Crash] loses the process in the worst moment,
// right after a commit of which the local stores have not heard. [Driver.Restart] loses the disk. None of them may change results. A topology that
// passes its test with one of them after each record keeps all its state where it should.
//
// A Driver and all that comes from it belong to one goroutine.
package topologytest
