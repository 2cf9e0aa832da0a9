package serde

import (
	"context"
	"encoding/binary"
	"encoding/json/v2"
	"errors"
	"fmt"
	"math"
	"reflect"
)

// JSON uses encoding/json/v2. Unknown members are ignored, as there. Map keys are written in order, so equal values give equal bytes.
func JSON[T any]() Serde[T] { return jsons[T]{} }

type jsons[T any] struct{}

// The type is left out: it may be renamed, and may gain members, without a change of what is stored.
func (jsons[T]) String() string { return "json" }

func (jsons[T]) Encode(dst []byte, v T) ([]byte, error) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return dst, fmt.Errorf("serde: %w", err)
	}
	return append(nonNil(dst), b...), nil
}

func (jsons[T]) Decode(src []byte) (v T, err error) {
	if err = json.Unmarshal(src, &v); err != nil {
		return v, fmt.Errorf("serde: %w", err)
	}
	return v, nil
}

// List is Java's ListSerde for elements of any size: the count, then each element's length and bytes. A null element is kept if the
// element's serde is Nullable, and is an error if not.
func List[T any](element Serde[T]) Serde[[]T] { return list[T]{element} }

type list[T any] struct{ element Serde[T] }

// Java writes how sizes are stored before the list; this is the byte for "each element has its own".
const variableSizes = 1

func (l list[T]) String() string { return "list(" + Name(l.element) + ")" }

func (l list[T]) Encode(dst []byte, v []T) ([]byte, error) {
	if len(v) > math.MaxInt32 {
		return dst, fmt.Errorf("serde: list of %d elements is too long", len(v))
	}
	dst = binary.BigEndian.AppendUint32(append(dst, variableSizes), uint32(len(v)))
	for i, x := range v {
		at := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		if isNull(l.element, x) {
			binary.BigEndian.PutUint32(dst[at:], math.MaxUint32)
			continue
		}
		longer, err := l.element.Encode(dst, x)
		if err != nil {
			return dst[:at], fmt.Errorf("serde: element %d of a list: %w", i, err)
		}
		if longer == nil {
			binary.BigEndian.PutUint32(dst[at:], math.MaxUint32)
			continue
		}
		dst = longer
		binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	return dst, nil
}

func (l list[T]) Decode(src []byte) ([]T, error) {
	if len(src) < 5 || src[0] != variableSizes {
		return nil, errors.New("serde: not a list of elements with sizes")
	}
	n, src := binary.BigEndian.Uint32(src[1:]), src[5:]
	if uint64(n)*4 > uint64(len(src)) {
		return nil, fmt.Errorf("serde: list says %d elements in %d bytes", n, len(src))
	}
	out := make([]T, 0, n)
	for i := range n {
		if len(src) < 4 {
			return nil, fmt.Errorf("serde: list ends before element %d of %d", i, n)
		}
		size, rest := binary.BigEndian.Uint32(src), src[4:]
		if size == math.MaxUint32 {
			null, ok := l.element.(Nullable[T])
			if !ok {
				return nil, fmt.Errorf("serde: element %d of a list is null; use Optional for its serde", i)
			}
			out, src = append(out, null.Null()), rest
			continue
		}
		if uint64(size) > uint64(len(rest)) {
			return nil, fmt.Errorf("serde: element %d of a list says %d bytes, %d are left", i, size, len(rest))
		}
		v, err := l.element.Decode(rest[:size])
		if err != nil {
			return nil, fmt.Errorf("serde: element %d of a list: %w", i, err)
		}
		out, src = append(out, v), rest[size:]
	}
	if len(src) > 0 {
		return nil, fmt.Errorf("serde: %d bytes after the last element of a list", len(src))
	}
	return out, nil
}

// Bind binds the element's serde.
func (l list[T]) Bind(ctx context.Context, at Target) (Serde[[]T], error) {
	element, err := Bind(ctx, l.element, at)
	return list[T]{element}, err
}

func isNull[T any](s Serde[T], v T) bool {
	n, ok := s.(Nullable[T])
	return ok && n.IsNull(v)
}

// Optional lets nulls through: nil is Kafka's null, in both directions. Use it where a null value means something to you; a
// stream of plain V never shows a null to your functions.
func Optional[T any](s Serde[T]) Serde[*T] { return optional[T]{s} }

type optional[T any] struct{ inner Serde[T] }

func (o optional[T]) String() string { return "optional(" + Name(o.inner) + ")" }

func (o optional[T]) Encode(dst []byte, v *T) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return o.inner.Encode(dst, *v)
}

func (o optional[T]) Decode(src []byte) (*T, error) {
	v, err := o.inner.Decode(src)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// Bind binds the serde of what is not null.
func (o optional[T]) Bind(ctx context.Context, at Target) (Serde[*T], error) {
	inner, err := Bind(ctx, o.inner, at)
	return optional[T]{inner}, err
}

func (o optional[T]) Null() *T         { return nil }
func (o optional[T]) IsNull(v *T) bool { return v == nil }

// Func makes a Serde of two functions, with the contracts of Serde's methods.
func Func[T any](encode func(dst []byte, v T) ([]byte, error), decode func(src []byte) (T, error)) Serde[T] {
	return &funcs[T]{encode, decode}
}

// funcs is used by pointer, so that it can be compared.
type funcs[T any] struct {
	encode func([]byte, T) ([]byte, error)
	decode func([]byte) (T, error)
}

func (f *funcs[T]) String() string                         { return "func(" + reflect.TypeFor[T]().String() + ")" }
func (f *funcs[T]) Encode(dst []byte, v T) ([]byte, error) { return f.encode(dst, v) }
func (f *funcs[T]) Decode(src []byte) (T, error)           { return f.decode(src) }
