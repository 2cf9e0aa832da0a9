package serde

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

func wrongSize(what string, want, got int) error {
	return fmt.Errorf("serde: %s wants %d bytes, got %d", what, want, got)
}

// String is UTF-8 text as it stands. Invalid UTF-8 is kept, not replaced.
func String() Serde[string] { return text[string]{} }

// StringOf is String for a named string type, such as a CustomerID.
func StringOf[T ~string]() Serde[T] { return text[T]{} }

type text[T ~string] struct{}

func (text[T]) String() string                         { return "string" }
func (text[T]) Encode(dst []byte, v T) ([]byte, error) { return append(nonNil(dst), v...), nil }
func (text[T]) Decode(src []byte) (T, error)           { return T(src), nil }

// nonNil keeps the empty text apart from null: a nil slice means null to the caller.
func nonNil(dst []byte) []byte {
	if dst == nil {
		return []byte{}
	}
	return dst
}

// Bytes keeps the bytes as they are; decoded values are copies. A nil slice is null.
func Bytes() Serde[[]byte] { return raw{} }

type raw struct{}

func (raw) String() string { return "bytes" }

func (raw) Encode(dst []byte, v []byte) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return append(nonNil(dst), v...), nil
}
func (raw) Decode(src []byte) ([]byte, error) { return append([]byte{}, src...), nil }

// Int64 is eight bytes, big-endian (Java's Long).
func Int64() Serde[int64] { return int64s[int64]{} }

// Int64Of is Int64 for a named integer type.
func Int64Of[T ~int64]() Serde[T] { return int64s[T]{} }

type int64s[T ~int64] struct{}

func (int64s[T]) String() string { return "int64" }
func (int64s[T]) Encode(dst []byte, v T) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
}
func (int64s[T]) Decode(src []byte) (T, error) {
	if len(src) != 8 {
		return 0, wrongSize("int64", 8, len(src))
	}
	return T(binary.BigEndian.Uint64(src)), nil
}

// Int32 is four bytes, big-endian (Java's Integer).
func Int32() Serde[int32] { return int32s{} }

type int32s struct{}

func (int32s) String() string { return "int32" }
func (int32s) Encode(dst []byte, v int32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, uint32(v)), nil
}
func (int32s) Decode(src []byte) (int32, error) {
	if len(src) != 4 {
		return 0, wrongSize("int32", 4, len(src))
	}
	return int32(binary.BigEndian.Uint32(src)), nil
}

// Int16 is two bytes, big-endian (Java's Short).
func Int16() Serde[int16] { return int16s{} }

type int16s struct{}

func (int16s) String() string { return "int16" }
func (int16s) Encode(dst []byte, v int16) ([]byte, error) {
	return binary.BigEndian.AppendUint16(dst, uint16(v)), nil
}
func (int16s) Decode(src []byte) (int16, error) {
	if len(src) != 2 {
		return 0, wrongSize("int16", 2, len(src))
	}
	return int16(binary.BigEndian.Uint16(src)), nil
}

// Float64 is the IEEE 754 bits, big-endian (Java's Double).
func Float64() Serde[float64] { return float64s{} }

type float64s struct{}

func (float64s) String() string { return "float64" }
func (float64s) Encode(dst []byte, v float64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)), nil
}
func (float64s) Decode(src []byte) (float64, error) {
	if len(src) != 8 {
		return 0, wrongSize("float64", 8, len(src))
	}
	return math.Float64frombits(binary.BigEndian.Uint64(src)), nil
}

// Float32 is the IEEE 754 bits, big-endian (Java's Float).
func Float32() Serde[float32] { return float32s{} }

type float32s struct{}

func (float32s) String() string { return "float32" }
func (float32s) Encode(dst []byte, v float32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, math.Float32bits(v)), nil
}
func (float32s) Decode(src []byte) (float32, error) {
	if len(src) != 4 {
		return 0, wrongSize("float32", 4, len(src))
	}
	return math.Float32frombits(binary.BigEndian.Uint32(src)), nil
}

// Bool is one byte, 1 or 0.
func Bool() Serde[bool] { return bools{} }

type bools struct{}

func (bools) String() string { return "bool" }
func (bools) Encode(dst []byte, v bool) ([]byte, error) {
	if v {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}
func (bools) Decode(src []byte) (bool, error) {
	if len(src) != 1 {
		return false, wrongSize("bool", 1, len(src))
	}
	if src[0] > 1 {
		return false, fmt.Errorf("serde: bool wants 0 or 1, got %d", src[0])
	}
	return src[0] == 1, nil
}

// UUID is the 36 characters of the text form, as Java writes it.
func UUID() Serde[[16]byte] { return uuids{} }

type uuids struct{}

func (uuids) String() string { return "uuid" }

func (uuids) Encode(dst []byte, v [16]byte) ([]byte, error) {
	dst = hex.AppendEncode(dst, v[:4])
	for at := 4; at < 10; at += 2 {
		dst = hex.AppendEncode(append(dst, '-'), v[at:at+2])
	}
	return hex.AppendEncode(append(dst, '-'), v[10:]), nil
}

func (uuids) Decode(src []byte) (v [16]byte, err error) {
	if len(src) != 36 {
		return v, wrongSize("uuid", 36, len(src))
	}
	if src[8] != '-' || src[13] != '-' || src[18] != '-' || src[23] != '-' {
		return v, fmt.Errorf("serde: uuid %q has no hyphens at 8, 13, 18 and 23", src)
	}
	var plain [32]byte
	n := copy(plain[:], src[:8])
	n += copy(plain[n:], src[9:13])
	n += copy(plain[n:], src[14:18])
	n += copy(plain[n:], src[19:23])
	copy(plain[n:], src[24:])
	if _, err = hex.Decode(v[:], plain[:]); err != nil {
		return v, fmt.Errorf("serde: uuid %q: %w", src, err)
	}
	return v, nil
}

// None is for keys or values nobody uses: it writes null and reads anything.
func None() Serde[struct{}] { return none{} }

type none struct{}

func (none) String() string                          { return "none" }
func (none) Encode([]byte, struct{}) ([]byte, error) { return nil, nil }
func (none) Decode([]byte) (struct{}, error)         { return struct{}{}, nil }

// A null is as good as any other value that nobody looks at, and none of them counts as null.
func (none) Null() struct{}       { return struct{}{} }
func (none) IsNull(struct{}) bool { return false }
