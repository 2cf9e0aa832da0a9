// Package processor is the layer under the DSL: what runs, record by record. Use it for what the operators of package topology do
// not offer; a processor takes and gives typed streams and mixes with them freely.
//
// A processor is a type with a Process method. Its stores are declared as handles, connected where the processor is added to the topology,
// and opened by it, usually in Init:
//
//	var lastSeen = store.NewKeyValue("last-seen", serde.String(), serde.Int64(), store.TTL(24*time.Hour))
//
//	type watch struct{ seen store.KeyValue[string, int64] }
//
//	func (w *watch) Init(ctx *processor.Context[string, string]) error {
//		w.seen = ctx.Store(lastSeen)
//		ctx.Every(time.Minute, processor.StreamTime, func(now time.Time) error { ... })
//		return nil
//	}
//
//	func (w *watch) Process(ctx *processor.Context[string, string], r processor.Record[string, Event]) error {
//		w.seen.Put(r.Key, r.Value.ID)
//		ctx.Forward(r.WithValue("seen"))
//		return nil
//	}
//
//	stream.Process("watch", func() *watch { return new(watch) }, lastSeen)
//
// A processor belongs to one task, and a task to one goroutine: fields need no locks, and a Context must not be used elsewhere. After an
// aborted transaction all processors of the task are made anew, from the function that made them first, so that nothing that was learned
// from undone records stays behind. What must survive belongs in a store.
//
// A processor that keeps the key of its records is a FixedKeyProcessor: its records cannot be given another key, so what follows it needs no
// repartition topic.
package processor
