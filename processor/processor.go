package processor

// Processor is user code for one task. A fresh one is made for each task, and again after an aborted transaction, so fields need no locks.
//
// An error of Process goes to the stage's error policy, topology.OnError. By default, Stop, the application stops and nothing of the
// transaction remains. With Skip and DeadLetter the record ends there, as in Kafka Streams: what earlier stages and other branches did with
// it stays, and so does what Process itself wrote to stores and forwarded before it failed. A processor that must do all or nothing checks
// first and writes last. A panic counts as an error.
type Processor[K comparable, V any, K2 comparable, V2 any] interface {
	// Process handles one record. The context may be kept for timers of the same processor.
	Process(ctx *Context[K2, V2], r Record[K, V]) error
}

// FixedKeyProcessor is a Processor that keeps the key; see topology's Stream.ProcessValues. What it sends on needs no repartition.
type FixedKeyProcessor[K comparable, V any, V2 any] interface {
	// Process handles one record.
	Process(ctx *FixedKeyContext[K, V2], r FixedKeyRecord[K, V]) error
}

// Initializer is implemented by processors that open stores or timers before the first record. An error ends the task.
type Initializer[K2 comparable, V2 any] interface {
	Init(ctx *Context[K2, V2]) error
}

// FixedKeyInitializer is Initializer for processors that keep the key.
type FixedKeyInitializer[K comparable, V2 any] interface {
	Init(ctx *FixedKeyContext[K, V2]) error
}

// Closer is implemented by processors that hold something to let go. It is called when the task is closed and when the processor is made
// anew. Stores may be read, not written, and nothing may be forwarded.
type Closer interface{ Close() error }

// Output is a further, named output of a processor, with types of its own.
type Output[K comparable, V any] struct{ name string }

// NewOutput declares an output; forward to it with Context.ForwardTo, and take its stream with topology's Processed.Output. The name is
// unique within a processor.
func NewOutput[K comparable, V any](name string) Output[K, V] { return Output[K, V]{name} }

// Name is the output's name.
func (o Output[K, V]) Name() string { return o.name }
