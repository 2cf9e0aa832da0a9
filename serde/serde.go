// Package serde turns values into the bytes of Kafka keys and values, and back.
//
// A Serde is asked once per record at a source, a sink, a repartition topic or a changelog flush, and nowhere else. The built-in
// serdes write exactly the bytes of Kafka Streams' own (integers big-endian), so topics can be shared with Java applications.
//
//	orders := topology.NewTopic("orders", serde.String(), serde.JSON[Order]())
//
// A type of your own needs two functions:
//
//	serde.Func(
//		func(dst []byte, p Point) ([]byte, error) { return binary.BigEndian.AppendUint32(dst, p.Packed()), nil },
//		func(src []byte) (Point, error) { return Unpack(src) },
//	)
//
// # Equality
//
// Two serdes are the same if the same constructor made them with equal arguments. Those of Func are the same only if they are the
// same value: keep one in a variable. Topologies need this where two streams are merged or a topic is named twice.
package serde

import (
	"context"
	"fmt"
)

// Serde encodes and decodes one type. Implementations must be safe for use by many goroutines, and must be deterministic for
// keys: equal values must give equal bytes, because bytes choose the partition and find the row.
type Serde[T any] interface {
	// Encode appends the bytes of v to dst and returns the longer slice, as append does. A nil slice without an error is Kafka's null.
	Encode(dst []byte, v T) ([]byte, error)
	// Decode reads one value. It must not keep or change src, which is reused after the call. Null never reaches Decode; an
	// empty, non-null value does.
	Decode(src []byte) (T, error)
}

// Binder is implemented by serdes that must know their topic before the first record, such as those of a schema registry.
// Bind is called once per topic when the task opens, may use the network until ctx ends, and its errors are retried as
// outages, never treated as bad records.
type Binder[T any] interface {
	Serde[T]
	Bind(ctx context.Context, at Target) (Serde[T], error)
}

// Bind tells a serde its topic, if it must know it; others are returned as they are.
func Bind[T any](ctx context.Context, s Serde[T], at Target) (Serde[T], error) {
	if b, ok := s.(Binder[T]); ok {
		return b.Bind(ctx, at)
	}
	return s, nil
}

// Target says what a Binder is bound to.
type Target struct {
	Topic string // full topic name; for state, the changelog's
	Key   bool   // true for record keys
}

// Nullable is implemented by serdes that have a Go value for Kafka's null. Optional is the usual way to get one. A source whose
// value serde is not Nullable drops null-valued records and counts them under "null_value".
type Nullable[T any] interface {
	Serde[T]
	// Null is the value that stands for null.
	Null() T
	// IsNull says whether v stands for null.
	IsNull(v T) bool
}

// Same says whether a and b are the same serde: see the package comment. It never panics; serdes that cannot be compared differ.
func Same(a, b any) (same bool) {
	defer func() {
		if recover() != nil {
			same = false // a type that holds functions or slices is not comparable
		}
	}()
	return a == b
}

// Name describes a serde in words, for fingerprints and error messages: "string", "int64", "list(int64)". A serde that is not
// one of this module's and no fmt.Stringer is named by its type.
func Name(s any) string {
	if n, ok := s.(fmt.Stringer); ok {
		return n.String()
	}
	return fmt.Sprintf("%T", s)
}
