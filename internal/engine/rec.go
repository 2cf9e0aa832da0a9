package engine

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Record is a raw record of an input partition. A nil Key or Value is null. The task keeps the slices until the record is processed.
type Record struct {
	Key, Value []byte
	Headers    []Header
	Time       int64 // ms
	Offset     int64
}

// Rec is what a record is besides key and value, while it goes through the operators. There is one per task: an operator that changes a
// field for its children puts the old value back afterwards.
type Rec struct {
	Time    int64 // event time, ms
	NullKey bool
	Headers []Header
	Input   int   // which of the sub-topology's inputs it came from; -1 in a timer
	Offset  int64 // of the input record
	// RawKey and RawValue are the input record as it came, for sinks that get key or value unchanged. Both are nil in a timer.
	RawKey, RawValue []byte
	// Kept says that an operator kept the record from earlier ones and sends it now, in the turn of the one that Input and Offset name. It has
	// no raw form, and never goes to a dead letter topic.
	Kept bool
}

// Keep makes the record one that an operator had kept: with its own time and headers, in the turn of the record that is being processed. What it
// returns is the record as it was, to be put back.
func (r *Rec) Keep(at int64, headers []Header) (was Rec) {
	was = *r
	*r = Rec{Time: at, Headers: headers, Input: was.Input, Offset: was.Offset, Kept: true}
	return was
}

// Rec is the record being processed, for whoever was not given it: a processor's context, or what a timer sends.
func (t *Task) Rec() *Rec { return &t.rec }

// Receive is how an operator is called by its parent.
type Receive[K comparable, V any] func(r *Rec, k K, v V)

// FanOut makes one Receive of several children, called in order.
func FanOut[K comparable, V any](kids []Receive[K, V]) Receive[K, V] {
	switch len(kids) {
	case 0:
		return func(*Rec, K, V) {}
	case 1:
		return kids[0]
	case 2:
		first, second := kids[0], kids[1]
		return func(r *Rec, k K, v V) { first(r, k, v); second(r, k, v) }
	}
	return func(r *Rec, k K, v V) {
		for _, kid := range kids {
			kid(r, k, v)
		}
	}
}
