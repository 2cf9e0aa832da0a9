package store

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/kolkstreams/kolk/serde"
)

type (
	named  string
	pair   struct{ A, B string }
	point  struct{ X, Y int32 }
	nested struct {
		P [2]point
		T bool
	}
)

func TestKeyKinds(t *testing.T) {
	for name, c := range map[string]struct{ got, want bool }{
		"string": {keysOf[string]().byValue, true}, "named": {keysOf[named]().byValue, true}, "struct of strings": {keysOf[pair]().byValue, true},
		"nested": {keysOf[nested]().byValue, true}, "bytes": {keysOf[[16]byte]().byValue, true}, "bool": {keysOf[bool]().byValue, true},
		"time": {keysOf[time.Time]().byValue, false}, "struct of float": {keysOf[struct{ F float32 }]().byValue, false},
		"struct of pointer": {keysOf[struct{ P *int }]().byValue, false}, "array of any": {keysOf[[1]any]().byValue, false},
	} {
		if c.got != c.want {
			t.Errorf("%s: compared by value %v", name, c.got)
		}
	}
}

// A key that was cut out of a large text must not keep all of it.
func TestKeysDoNotHoldOn(t *testing.T) {
	large := strings.Repeat("x", 1000)
	name := strings.Clone(large[:3])
	if k := keysOf[string]().share(large[:3], name); unsafe.StringData(k) != unsafe.StringData(name) {
		t.Error("a string key holds on to its text")
	}
	if k := keysOf[named]().share(named(large[:3]), name); unsafe.StringData(string(k)) != unsafe.StringData(name) {
		t.Error("a key of a string type holds on to its text")
	}
	if k := keysOf[string]().share("other", name); k != "other" {
		t.Errorf("a key whose bytes are not its text became %q", k)
	}
	if k := keysOf[named]().share("other", name); k != "other" {
		t.Errorf("a key whose bytes are not its text became %q", k)
	}
}

func TestKeepsDecoded(t *testing.T) {
	zeroIsNull := serde.Func(func(dst []byte, v int64) ([]byte, error) {
		if v == 0 {
			return nil, nil
		}
		return serde.Int64().Encode(dst, v)
	}, serde.Int64().Decode)
	for name, c := range map[string]struct{ got, want bool }{
		"int64": {keepsDecoded(serde.Int64()), true}, "float64": {keepsDecoded(serde.Float64()), true}, "array": {keepsDecoded(serde.UUID()), true},
		"struct": {keepsDecoded(serde.JSON[nested]()), true}, "string": {keepsDecoded(serde.String()), false},
		"struct of strings": {keepsDecoded(serde.JSON[pair]()), false}, "slice": {keepsDecoded(serde.Bytes()), false},
		"pointer": {keepsDecoded(serde.Optional(serde.Int64())), false}, "nothing": {keepsDecoded(serde.None()), false},
		"null for zero": {keepsDecoded(zeroIsNull), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: kept decoded %v", name, c.got)
		}
	}
}
