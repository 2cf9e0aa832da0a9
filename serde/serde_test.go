package serde_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/serde"
)

// vector is a value and the bytes that Kafka Streams' serde of that type writes.
type vector[T any] struct {
	value T
	hex   string
}

func checkVectors[T comparable](t *testing.T, s serde.Serde[T], vectors ...vector[T]) {
	t.Helper()
	for _, v := range vectors {
		got, err := s.Encode([]byte("before"), v.value)
		if err != nil {
			t.Errorf("%v: %v", v.value, err)
			continue
		}
		if want := "6265666f7265" + v.hex; hex.EncodeToString(got) != want {
			t.Errorf("%s %v: %x, not %s", serde.Name(s), v.value, got, want)
		}
		fresh, err := s.Encode(nil, v.value)
		if err != nil || fresh == nil || hex.EncodeToString(fresh) != v.hex {
			t.Errorf("%s %v into nothing: %x, %v", serde.Name(s), v.value, fresh, err)
		}
		back, err := s.Decode(fresh)
		if err != nil || back != v.value {
			t.Errorf("%s %s: %v, %v", serde.Name(s), v.hex, back, err)
		}
	}
}

func TestBytesOfKafkaStreams(t *testing.T) {
	checkVectors(t, serde.Int64(), vector[int64]{0, "0000000000000000"}, vector[int64]{1, "0000000000000001"}, vector[int64]{-1, "ffffffffffffffff"},
		vector[int64]{42, "000000000000002a"}, vector[int64]{math.MaxInt64, "7fffffffffffffff"}, vector[int64]{math.MinInt64, "8000000000000000"})
	checkVectors(t, serde.Int32(), vector[int32]{0, "00000000"}, vector[int32]{-1, "ffffffff"}, vector[int32]{42, "0000002a"},
		vector[int32]{math.MaxInt32, "7fffffff"}, vector[int32]{math.MinInt32, "80000000"})
	checkVectors(t, serde.Int16(), vector[int16]{0, "0000"}, vector[int16]{1, "0001"}, vector[int16]{-1, "ffff"}, vector[int16]{math.MaxInt16, "7fff"}, vector[int16]{math.MinInt16, "8000"})
	checkVectors(t, serde.Float64(), vector[float64]{0, "0000000000000000"}, vector[float64]{math.Copysign(0, -1), "8000000000000000"}, vector[float64]{1.5, "3ff8000000000000"},
		vector[float64]{-2.25, "c002000000000000"}, vector[float64]{math.MaxFloat64, "7fefffffffffffff"}, vector[float64]{math.SmallestNonzeroFloat64, "0000000000000001"})
	checkVectors(t, serde.Float32(), vector[float32]{0, "00000000"}, vector[float32]{1.5, "3fc00000"}, vector[float32]{-2.25, "c0100000"}, vector[float32]{math.MaxFloat32, "7f7fffff"})
	checkVectors(t, serde.Bool(), vector[bool]{true, "01"}, vector[bool]{false, "00"})
	checkVectors(t, serde.String(), vector[string]{"", ""}, vector[string]{"a", "61"}, vector[string]{"é", "c3a9"}, vector[string]{"日本語", "e697a5e69cace8aa9e"}, vector[string]{"\xff\xfe", "fffe"})
	checkVectors(t, serde.UUID(), vector[[16]byte]{[16]byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10},
		hex.EncodeToString([]byte("01234567-89ab-cdef-fedc-ba9876543210"))})
	type customer string
	type cents int64
	checkVectors(t, serde.StringOf[customer](), vector[customer]{"c7", "6337"})
	checkVectors(t, serde.Int64Of[cents](), vector[cents]{-5, "fffffffffffffffb"})
}

func TestBitsOfFloats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.Uint64().Draw(t, "bits")
		b, err := serde.Float64().Encode(nil, math.Float64frombits(bits))
		if err != nil {
			t.Fatal(err)
		}
		v, err := serde.Float64().Decode(b)
		if err != nil || math.Float64bits(v) != bits {
			t.Fatalf("%x became %x, %v", bits, math.Float64bits(v), err)
		}
	})
}

func TestSizes(t *testing.T) {
	wrong := func(name string, size int, decode func([]byte) error) {
		t.Helper()
		for n := range size + 3 {
			if err := decode(make([]byte, n)); (err == nil) != (n == size) {
				t.Errorf("%s of %d bytes: %v", name, n, err)
			}
		}
	}
	wrong("int64", 8, func(b []byte) error { _, err := serde.Int64().Decode(b); return err })
	wrong("int32", 4, func(b []byte) error { _, err := serde.Int32().Decode(b); return err })
	wrong("int16", 2, func(b []byte) error { _, err := serde.Int16().Decode(b); return err })
	wrong("float64", 8, func(b []byte) error { _, err := serde.Float64().Decode(b); return err })
	wrong("float32", 4, func(b []byte) error { _, err := serde.Float32().Decode(b); return err })
	wrong("bool", 1, func(b []byte) error { _, err := serde.Bool().Decode(b); return err })
	if _, err := serde.Bool().Decode([]byte{2}); err == nil {
		t.Error("2 is a bool")
	}
}

func TestUUID(t *testing.T) {
	for _, bad := range []string{"", "01234567-89ab-cdef-fedc-ba987654321", "0123456789-ab-cdef-fedc-ba9876543210", "01234567-89ab-cdef-fedc-ba987654321g", "{1234567-89ab-cdef-fedc-ba987654321}"} {
		if v, err := serde.UUID().Decode([]byte(bad)); err == nil {
			t.Errorf("%q is %x", bad, v)
		}
	}
	if v, err := serde.UUID().Decode([]byte("01234567-89AB-CDEF-FEDC-BA9876543210")); err != nil || v[4] != 0x89 {
		t.Errorf("upper case: %x, %v", v, err)
	}
}

func TestNullAndEmpty(t *testing.T) {
	if b, err := serde.Bytes().Encode(nil, nil); b != nil || err != nil {
		t.Errorf("nil bytes: %#v, %v", b, err)
	}
	if b, err := serde.Bytes().Encode([]byte("x"), nil); b != nil || err != nil {
		t.Errorf("nil bytes into a buffer: %#v, %v", b, err)
	}
	if b, err := serde.Bytes().Encode(nil, []byte{}); b == nil || len(b) > 0 || err != nil {
		t.Errorf("empty bytes: %#v, %v", b, err)
	}
	if v, err := serde.Bytes().Decode([]byte{}); v == nil || len(v) > 0 || err != nil {
		t.Errorf("empty bytes decoded: %#v, %v", v, err)
	}
	src := []byte("abc")
	v, err := serde.Bytes().Decode(src)
	if err != nil {
		t.Fatal(err)
	}
	if src[0] = 'x'; string(v) != "abc" {
		t.Error("the decoded value is part of the source")
	}
	if b, err := serde.None().Encode([]byte("x"), struct{}{}); b != nil || err != nil {
		t.Errorf("none: %#v, %v", b, err)
	}
	if _, err := serde.None().Decode([]byte("anything")); err != nil {
		t.Errorf("none: %v", err)
	}
	none := serde.None().(serde.Nullable[struct{}])
	if none.IsNull(none.Null()) {
		t.Error("what nobody looks at counts as null")
	}
}

func TestBuiltin(t *testing.T) {
	check := func(name string, ok bool, got string) {
		t.Helper()
		if !ok || got != name {
			t.Errorf("%s: %v, %q", name, ok, got)
		}
	}
	text, ok := serde.Builtin[string]()
	check("string", ok, serde.Name(text))
	raw, ok := serde.Builtin[[]byte]()
	check("bytes", ok, serde.Name(raw))
	i64, ok := serde.Builtin[int64]()
	check("int64", ok, serde.Name(i64))
	f32, ok := serde.Builtin[float32]()
	check("float32", ok, serde.Name(f32))
	id, ok := serde.Builtin[[16]byte]()
	check("uuid", ok, serde.Name(id))
	none, ok := serde.Builtin[struct{}]()
	check("none", ok, serde.Name(none))
	if !serde.Same(text, serde.String()) {
		t.Error("the built-in one is not the constructor's")
	}
	type mine string
	if s, ok := serde.Builtin[mine](); ok {
		t.Errorf("a named type got %v", s)
	}
	if s, ok := serde.Builtin[int](); ok {
		t.Errorf("int, whose size differs between machines, got %v", s)
	}
}

// faulty cannot be compared, as it holds a slice.
type faulty struct{ list []int }

func (f faulty) Encode(dst []byte, v int) ([]byte, error) {
	return dst, fmt.Errorf("never: %v", f.list)
}
func (f faulty) Decode([]byte) (int, error) { return 0, fmt.Errorf("never: %v", f.list) }

func TestSameAndName(t *testing.T) {
	type order struct{ ID int }
	f := serde.Func(func(dst []byte, v int) ([]byte, error) { return append(dst, byte(v)), nil }, func(src []byte) (int, error) { return int(src[0]), nil })
	g := serde.Func(func(dst []byte, v int) ([]byte, error) { return append(dst, byte(v)), nil }, func(src []byte) (int, error) { return int(src[0]), nil })
	for _, c := range []struct {
		a, b any
		want bool
	}{
		{serde.String(), serde.String(), true}, {serde.String(), serde.StringOf[string](), true}, {serde.String(), serde.Bytes(), false},
		{serde.JSON[order](), serde.JSON[order](), true}, {serde.JSON[order](), serde.JSON[int](), false},
		{serde.List(serde.String()), serde.List(serde.String()), true}, {serde.List(serde.Int64()), serde.List(serde.Int64Of[int64]()), true},
		{serde.Optional(serde.String()), serde.Optional(serde.String()), true}, {serde.Optional(f), serde.Optional(f), true}, {serde.Optional(f), serde.Optional(g), false},
		{f, f, true}, {f, g, false}, {faulty{}, faulty{}, false}, {serde.Optional(serde.Serde[int](faulty{})), serde.Optional(serde.Serde[int](faulty{})), false},
		{nil, serde.String(), false}, {nil, nil, true},
	} {
		if got := serde.Same(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
	}
	for want, s := range map[string]any{"string": serde.String(), "list(optional(int64))": serde.List(serde.Optional(serde.Int64())), "func(int)": f, "serde_test.faulty": faulty{}} {
		if got := serde.Name(s); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	b, err := f.Encode([]byte("x"), 'y')
	if v, derr := f.Decode([]byte("z")); err != nil || derr != nil || string(b) != "xy" || v != 'z' {
		t.Errorf("func: %q, %v, %v, %v", b, err, v, derr)
	}
}

func FuzzDecoders(f *testing.F) {
	f.Add([]byte("01234567-89ab-cdef-fedc-ba9876543210"))
	f.Add([]byte{1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 118})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 1})
	f.Add([]byte(`{"a":[1,2]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		keep := bytes.Clone(src)
		again(t, serde.Int64(), src, true)
		again(t, serde.Bool(), src, true)
		again(t, serde.String(), src, true)
		again(t, serde.UUID(), src, false)
		again(t, serde.List(serde.String()), src, true)
		again(t, serde.List(serde.Optional(serde.Int32())), src, true)
		again(t, serde.List(serde.List(serde.Bytes())), src, true)
		again(t, serde.JSON[map[string][]int](), src, false)
		if !bytes.Equal(src, keep) {
			t.Error("a decoder changed its source")
		}
	})
}

// again encodes what was decoded: exact says that the bytes must be the same, and in any case the second round must be.
func again[T any](t *testing.T, s serde.Serde[T], src []byte, exact bool) {
	t.Helper()
	v, err := s.Decode(src)
	if err != nil {
		return
	}
	b, err := s.Encode(nil, v)
	if err != nil {
		t.Fatalf("%s: %v", serde.Name(s), err)
	}
	if exact && !bytes.Equal(b, src) {
		t.Fatalf("%s: %x became %x", serde.Name(s), src, b)
	}
	v2, err := s.Decode(b)
	if err != nil {
		t.Fatalf("%s: %v", serde.Name(s), err)
	}
	if c, err := s.Encode(nil, v2); err != nil || !slices.Equal(b, c) {
		t.Fatalf("%s: %x became %x, %v", serde.Name(s), b, c, err)
	}
}
