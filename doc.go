// Package kolk runs topologies: stateful stream processing on Kafka, inside your own service.
//
//	top, err := build()                        // package topology
//	app, err := kolk.New(top, kolk.Config{
//		Application: "word-count",
//		Brokers:     []string{"localhost:9092"},
//		StateDir:    "state",
//	})
//	err = app.Run(ctx)                         // until ctx ends or something fails
//
// An App is one member of the consumer group that is named after the application. The group hands it tasks; each task keeps its state in
// a local store under StateDir and writes every change of it to a compacted changelog topic. Under ExactlyOnce, the default, input
// offsets, state and output are committed together in one Kafka transaction. To scale, start the same program again, on this machine with
// another StateDir or on another one: tasks move, and the changelog rebuilds their state.
//
// Losing a StateDir costs a restore, never data. Two processes must not share one: the second is refused.
//
// # What ends Run
//
// The end of its context: Run commits, hands the tasks over and returns nil. Anything that needs a person: state that does not fit the
// topology (ErrIncompatible), offsets that somebody moved without the state (ErrMovedOffsets), a record that fails under the policy Stop
// (*RecordError), a topic that is missing or wrong (*TopicError). Brokers that go away do not end Run, except at its start: whoever waits
// longer than a minute for the first answer gets an error that names the brokers.
package kolk
