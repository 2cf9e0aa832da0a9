package serde_test

import (
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/serde"
)

func TestJSON(t *testing.T) {
	type order struct {
		Shop  string         `json:"shop"`
		Cents map[string]int `json:"cents"`
	}
	s := serde.JSON[order]()
	for range 20 { // map order must not show
		b, err := s.Encode([]byte("x"), order{"bonn", map[string]int{"c": 3, "a": 1, "b": 2}})
		if err != nil || string(b) != `x{"shop":"bonn","cents":{"a":1,"b":2,"c":3}}` {
			t.Fatalf("%s, %v", b, err)
		}
	}
	v, err := s.Decode([]byte(`{"new":true,"shop":"köln"}`))
	if err != nil || v.Shop != "köln" {
		t.Errorf("%+v, %v", v, err)
	}
	for _, bad := range []string{"", "{", `{"shop":1}`, `{} {}`, "\xff"} {
		if v, err := s.Decode([]byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "serde: ") {
			t.Errorf("%q: %+v, %v", bad, v, err)
		}
	}
	dst := []byte("x")
	if b, err := serde.JSON[float64]().Encode(dst, math.NaN()); err == nil || string(b) != "x" {
		t.Errorf("NaN: %q, %v", b, err)
	}
}

func TestList(t *testing.T) {
	s := serde.List(serde.String())
	for _, c := range []struct {
		value []string
		hex   string
	}{
		{nil, "0100000000"}, {[]string{}, "0100000000"}, {[]string{""}, "010000000100000000"}, {[]string{"v"}, "01000000010000000176"},
		{[]string{"v", "", "wx"}, "0100000003" + "0000000176" + "00000000" + "000000027778"},
	} {
		b, err := s.Encode([]byte{}, c.value)
		if err != nil || hex.EncodeToString(b) != c.hex {
			t.Errorf("%q: %x, %v", c.value, b, err)
		}
		back, err := s.Decode(b)
		if err != nil || !slices.Equal(back, c.value) {
			t.Errorf("%q became %q, %v", c.value, back, err)
		}
	}
	for name, bad := range map[string]string{"nothing": "", "fixed sizes": "0000000000", "count too large": "01ffffffff", "cut off": "01000000020000000176", "size too large": "0100000001000000ff76",
		"too long": "0100000000aa", "null": "0100000001ffffffff"} {
		raw, err := hex.DecodeString(bad)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := s.Decode(raw); err == nil {
			t.Errorf("%s: %q", name, v)
		}
	}
	if _, err := serde.List(serde.Int64()).Decode([]byte{1, 0, 0, 0, 1, 0, 0, 0, 1, 7}); err == nil || !strings.Contains(err.Error(), "element 0") {
		t.Errorf("error %v", err)
	}
	if b, err := serde.List(serde.JSON[float64]()).Encode([]byte("x"), []float64{1, math.Inf(1)}); err == nil || !strings.Contains(err.Error(), "element 1") {
		t.Errorf("%q, %v", b, err)
	}
}

func TestListOfNulls(t *testing.T) {
	one := int64(1)
	s := serde.List(serde.Optional(serde.Int64()))
	b, err := s.Encode(nil, []*int64{nil, &one})
	if err != nil || hex.EncodeToString(b) != "0100000002ffffffff000000080000000000000001" {
		t.Fatalf("%x, %v", b, err)
	}
	v, err := s.Decode(b)
	if err != nil || len(v) != 2 || v[0] != nil || *v[1] != 1 {
		t.Errorf("%v, %v", v, err)
	}
	// A nil slice of bytes is null on the wire, though nothing says so in its type; reading it back needs Optional.
	b, err = serde.List(serde.Bytes()).Encode(nil, [][]byte{nil})
	if err != nil || hex.EncodeToString(b) != "0100000001ffffffff" {
		t.Errorf("%x, %v", b, err)
	}
}

func TestOptional(t *testing.T) {
	s := serde.Optional(serde.String())
	n, ok := s.(serde.Nullable[*string])
	if !ok || n.Null() != nil || !n.IsNull(nil) {
		t.Fatal("not nullable")
	}
	if b, err := s.Encode([]byte("x"), nil); b != nil || err != nil {
		t.Errorf("nil: %#v, %v", b, err)
	}
	empty := ""
	if b, err := s.Encode(nil, &empty); b == nil || len(b) > 0 || err != nil {
		t.Errorf("empty: %#v, %v", b, err)
	}
	if v, err := s.Decode([]byte{}); err != nil || v == nil || *v != "" {
		t.Errorf("empty: %v, %v", v, err)
	}
	if v, err := serde.Optional(serde.Int64()).Decode([]byte{1}); err == nil || v != nil {
		t.Errorf("damaged: %v, %v", v, err)
	}
}

func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOf(rapid.SliceOf(rapid.String())).Draw(t, "lists")
		s := serde.List(serde.List(serde.String()))
		prefix := rapid.SliceOf(rapid.Byte()).Draw(t, "prefix")
		b, err := s.Encode(slices.Clone(prefix), v)
		if err != nil {
			t.Fatal(err)
		}
		back, err := s.Decode(b[len(prefix):])
		if err != nil || !slices.EqualFunc(v, back, slices.Equal) {
			t.Fatalf("%q became %q, %v", v, back, err)
		}
	})
}
