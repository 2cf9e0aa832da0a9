// Package topology is where an application says what it computes: streams, tables and joins, typed from end to end.
//
// A Builder opens topics as streams and tables; methods on those give further streams and tables; Build checks the whole and
// returns a Topology, which a kolk.App runs and a topologytest.Driver tests. Nothing here needs a network.
//
// Three rules cover most of the package:
//
//   - Whatever owns state or an internal topic takes its name first. Names are part of your data: they name stores, changelogs and
//     repartition topics, and nothing else in the graph changes them.
//   - State has a bound: a window, or a store.Bound where there is none.
//   - Functions get key and value. Methods ending in Values keep the key, and their functions get the value alone; those with Record in their name get the record.
//
// Functions must be pure: they run again when records are processed again, and on many partitions at once. A function that panics
// is treated as a failed record.
//
// # Words
//
// A topology is a graph of nodes: sources, which read topics, operators, and sinks, which write topics. What is connected without going through a topic is a
// sub-topology. It runs as one task per partition of its source topics, and a task has one goroutine, so state needs no locks. A repartition topic is an internal topic
// through which records go to the partition of a new key, and a changelog is the internal topic that holds the state of a store. Co-partitioned topics have equal
// numbers of partitions and choose them alike, so that equal keys meet in one task.
//
// # Serdes
//
// Topics carry their serdes. A stream keeps a serde as long as the type stays; where a function changes the type, the serde is the one
// registered for the new type with Builder.Default, or the built-in one for string, []byte, integers, floats, bool and their like. A
// serde that is needed and not known is a fault at Build, never at run time. WithKey and WithValue set one by hand.
//
// # Nulls
//
// A record with a null key passes through operators without state; functions get the zero key. FilterRecord and MapRecord can tell, and MapRecord can make one. Operators
// with state drop it, counted under "null_key". A null value in a topic of plain values never enters a stream: it is dropped at the source, counted under "null_value". Where nulls
// mean something, read the topic with serde.Optional: the stream's values are pointers then, and a nil pointer is a null value to every operator, with the
// rules of Kafka Streams. In tables a null deletes the row, and functions never see it.
//
// # Keys
//
// Strings, integers, bools, and arrays and structs of those are compared by value. Structs and arrays that hold anything else comparable, such as a time.Time, are compared by
// their encoded bytes, which costs an encoding per access. As keys themselves pointers, interfaces, channels, floats and complex numbers are refused by Build, with what to use
// instead: the value for a pointer (a null key needs none, see above), a struct or string for an interface, an integer of the wanted precision for a float.
//
// # Time
//
// All operators go by event time: the record's timestamp, or what Topic.TimedBy takes from it. Stream time is the largest event time so far. Each operator that closes,
// expires or refuses something goes by the stream time of its own: of the records, of all keys, that have reached it in its partition. It is committed with the offsets, so a restart or
// a move to another instance changes nothing, and the same records in the same order give the same results a year later.
//
// The other side of this: while a partition gets no records, its stream time stands still, and the last windows, partial matches and unmatched records wait. In a test send a later record to the
// same partition; in an application kolk.Config.CloseIdle lets time go on where nothing comes.
//
// # Windows and what comes of them
//
// GroupByKey or GroupBy, then Windowed (package window has the kinds) or Sessions, then Count, Reduce or Aggregate make a WindowTable: a row per key and window, kept for as
// long as late records may change it. No other bound is needed. How it becomes a stream is chosen where it is read, and each reader chooses for itself:
//
//	rows := b.Stream(orders).GroupByKey().Windowed(window.Tumbling(5 * time.Minute).Grace(time.Minute)).Count("counts")
//
//	rows.Final().To(bills)                          // one result per window, when it is closed, and none after it
//	rows.To(dashboard)                              // every update; there is no cache that leaves some out
//	rows.OnCommit().To(dashboard)                   // the last update of each window in each commit
//	rows.Throttle("slow", time.Minute).To(alerts)   // at most one update per window in a minute of event time
//
// Final needs no buffer, as the results are in the store already. Suppress gives the same results out of one: it is there for applications that come from Kafka Streams with a buffer in flight, and
// for joined tables of windows, which have no Final.
//
// Two further operators remember records for a time: Deduplicate drops those that were sent twice, and Sequence finds records that follow each other, or one that does not come.
//
// # Reading the signatures
//
// Most type parameters of methods are found from the functions you give. A few only repeat the type of an argument, such as B in Count[B bounds](name string, bound B): with
// them a program compiles only those parts of the package that it calls.
//
// # Mistakes
//
// What can be wrong by type does not compile. Everything else (a serde nobody gave, two stores of one name, an illegal name) is found by Build and
// returned with the place of the declaration and the remedy. What only the cluster knows (partition counts, existing state) is found by App.Run before the first record.
//
// # For whoever adds an operator
//
// No method of a DSL type may lead to a DSL type over its own type parameters wrapped: a Table[K, V] with a method that returns Stream[K, *V], or that only mentions one
// in its body, makes Go instantiate Stream[K, *V], Table[K, *V], Stream[K, **V] and so on, and the compiler refuses the cycle. There are three ways out. The result's type is a
// parameter of the method, made by a function of the user's, as in Changes. A free function does the wrapping, as nothing leads into it. Or a type of the run time is
// wrapped (operator.Change[V]), which may be done as long as run-time types never mention a DSL type.
//
// The graph is made of typed places. An operator's method adds a place, and attaches to its parent's place a function that makes the operator's code for one task: a
// Receive, which the parent calls with typed key and value. Types are erased only in the list of nodes, for the checks that Build makes, and in the memo of places while
// a task is made.
package topology
