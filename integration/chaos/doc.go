// Package chaos runs a job in several processes and does to them, and to the brokers, what happens to programs: they are killed at random moments, frozen and thawed,
// stopped, added. Records are produced all the while. In the end the results are compared with a plain batch computation over what was produced.
//
//	go run ./cmd/chaos -faults 20 -seed 1                        # all jobs, both guarantees, on one real broker
//	go run ./cmd/chaos -job count -guarantee exactly_once -nodes 3
//	go run ./cmd/chaos -fake                                     # on the in-process broker
//
// Under exactly-once every row must have been updated 1, 2, ... n, each once and in this order, in the output as committed; its changelog must end at n and
// never go back. Under at-least-once a count may be too large, by what was processed again and not by more: each process counts what it processes in a mapped file,
// which survives its end.
//
// That is for jobs that count. The tables of the job "foreign" are replaced and deleted all the while: their last rows must be right under both guarantees, and under exactly-once no row ever goes
// back to an older one. The job "pairs" joins two streams; what comes out are events, each as often as the batch has it. Rule has what is asked of an output.
//
// Two more things are tried once the faults are over. Every row is updated once more by the processes that have survived, from the stores that they have. Then
// they are stopped, and every row is updated once more by a process that has nothing and restores all of it. A row that any store holds wrongly shows in the output.
package chaos
