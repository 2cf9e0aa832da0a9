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
// # Time
//
// There are two clocks. Event time is that of the records: [Input.Send] makes each a millisecond younger than the one before, from the driver's start on, and [Input.SendAt] gives it a time,
// mostly one of [Driver.At]. Windows close, rows expire and records are late by it alone, in each partition apart: to see the last window of a key close, send a later
// record with the same key.
//
//	in.SendAt(d.At(0), "bonn", order)
//	in.SendAt(d.At(5*time.Minute), "bonn", order) // closes the window before
//	out.Next(window.Of("bonn", d.At(0), d.At(5*time.Minute)), 1)
//
// The clock on the wall stands still but for [Driver.Advance], which fires the timers of processors that go by it. It moves no window, unless the driver was made with [CloseIdle].
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
