package processor

import (
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
)

// Record is one record. Copies are cheap; the headers are shared until changed.
type Record[K comparable, V any] struct {
	Key     K
	Value   V
	Time    time.Time // event time, never before 1970; milliseconds count
	NullKey bool      // the key is null; Key is then the zero K. Set it to give a record a null key
	Headers Headers
}

// WithValue is the same record with another value.
func (r Record[K, V]) WithValue[V2 any](value V2) Record[K, V2] {
	return Record[K, V2]{r.Key, value, r.Time, r.NullKey, r.Headers}
}

// WithKey is the same record with another key, which is not null.
func (r Record[K, V]) WithKey[K2 comparable](key K2) Record[K2, V] {
	return Record[K2, V]{key, r.Value, r.Time, false, r.Headers}
}

// FixedKeyRecord is a record whose key cannot be changed: what is made of it stays in its partition, so no repartition follows. Make one
// from another; a literal has no key, and sending it on is an error of the stage.
type FixedKeyRecord[K comparable, V any] struct {
	Value   V
	Time    time.Time // event time, never before 1970; milliseconds count
	Headers Headers
	fixed[K]
}

type fixed[K comparable] = engine.Fixed[K]

// Key is the record's key; the zero K if it is null.
func (r FixedKeyRecord[K, V]) Key() K { k, _, _ := engine.KeyOf(&r.fixed); return k }

// NullKey says that the key is null.
func (r FixedKeyRecord[K, V]) NullKey() bool { _, null, _ := engine.KeyOf(&r.fixed); return null }

// WithValue is the same record with another value.
func (r FixedKeyRecord[K, V]) WithValue[V2 any](value V2) FixedKeyRecord[K, V2] {
	return FixedKeyRecord[K, V2]{value, r.Time, r.Headers, r.fixed}
}

// Headers are a record's headers, in order; names may repeat. The zero value has none.
type Headers struct{ headers }

type headers = engine.Headers

// Get returns the last header of that name. The bytes must not be changed, and are valid while the record is processed: copy what you keep.
func (h Headers) Get(key string) (value []byte, ok bool) {
	list := engine.ListOf(&h.headers)
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Key == key {
			return list[i].Value, true
		}
	}
	return nil, false
}

// With returns headers with one more at the end; h stays as it is. value is not copied; nil is a header without value.
func (h Headers) With(key string, value []byte) Headers {
	list := engine.ListOf(&h.headers)
	longer := make([]engine.Header, len(list), len(list)+1)
	copy(longer, list)
	var out Headers
	engine.SetHeaders(&out, append(longer, engine.Header{Key: key, Value: value}))
	return out
}

// Reason says why a record was dropped. Every drop is counted by task, node and reason.
type Reason string

// The reasons.
const (
	Late      Reason = "late"       // its window is closed; a record of several windows is dropped once for each that is
	Expired   Reason = "expired"    // the store it was to be written to keeps only younger entries, or a join as of its time would need older ones
	Ahead     Reason = "ahead"      // its event time is further in the future than kolk.Config.MaxAhead allows
	NullKey   Reason = "null_key"   // an operator with state got no key
	NullValue Reason = "null_value" // a stream of plain values, or an operator with state, got a null
	NoTime    Reason = "no_time"    // its event time lies before 1970
	NoRow     Reason = "no_row"     // a join found nothing in the table
	RowNewer  Reason = "row_newer"  // a join as of a record's time found a row that is valid only from later on
	Stale     Reason = "stale"      // an answer within a foreign-key join, to a row that has changed since; a newer answer follows
	Closed    Reason = "closed"     // a join of streams found no partner, and the time in which one could come is over
	Unmatched Reason = "unmatched"  // no branch of a Split took it
	Duplicate Reason = "duplicate"  // a Deduplicate has let a record with the same id through
	Overflow  Reason = "overflow"   // the oldest partial match of a key's Sequence gave way to a new one; see topology.Pattern.MaxPartial
	Cut       Reason = "cut"        // it was not dropped: it began a session of its own, as that before has the greatest length that MaxLength allows
	Skipped   Reason = "skipped"    // it failed, and the policy is Skip or DeadLetter
)

// Metadata says where the input record came from. For records that went through a repartition topic that is the repartition topic.
type Metadata struct {
	Topic     string // its full name on the broker
	Partition int32
	Offset    int64
}
