package store

import (
	"fmt"
	"reflect"

	"github.com/kolkstreams/kolk/serde"
)

// keyKind is how entries of a key type are found in memory.
type keyKind[K comparable] struct {
	byValue bool // a Go map finds them by the key itself; if not, by the encoded key
	// share makes a key that uses the memory of its encoded form, if both are the same text: so a key that was cut out of a large
	// string does not hold on to it. nil for other than strings.
	share           func(key K, name string) K
	problem, remedy string // why the type is refused, if it is
}

func keysOf[K comparable]() (k keyKind[K]) {
	t := reflect.TypeFor[K]()
	k.byValue = comparesByValue(t)
	switch t.Kind() {
	case reflect.Pointer, reflect.UnsafePointer:
		k.problem, k.remedy = "pointers are equal only if they point to the same variable", "use the value itself as key"
	case reflect.Interface:
		k.problem, k.remedy = "keys of an interface type may not be comparable", "use a struct or a string as key"
	case reflect.Chan:
		k.problem, k.remedy = "channels cannot be written down", "use a string or a number as key"
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		k.problem, k.remedy = "NaN is not equal to itself, and 0 equals -0", "use an integer of the precision you need, such as cents"
	case reflect.String:
		k.share = shareText[K]
	}
	if k.problem != "" {
		k.problem = fmt.Sprintf("keys of type %v are refused: %s", t, k.problem)
	}
	return k
}

func shareText[K comparable](key K, name string) K {
	if s, ok := any(name).(K); ok { // K is string
		if s == key {
			return s
		}
		return key
	}
	v := reflect.ValueOf(&key).Elem()
	if v.String() == name {
		v.SetString(name)
	}
	return key
}

// comparesByValue says whether == on the type means the same as equal bytes: strings, integers, bools, and arrays and structs of those.
func comparesByValue(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	case reflect.Array:
		return comparesByValue(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !comparesByValue(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false
}

// keepsDecoded says whether values of the type are kept decoded. Only those without any pointer are: what holds a pointer, map or slice
// could be changed by whoever was given it. Strings cannot be changed, but they can be cut out of much larger ones, which would then stay in
// memory unseen, so they are kept as bytes too.
//
// A value that a serde writes as null means that there is no entry, so values must be encoded at once where that is possible.
func keepsDecoded[V any](s serde.Serde[V]) bool {
	if !pointerFree(reflect.TypeFor[V]()) {
		return false
	}
	if _, nullable := s.(serde.Nullable[V]); nullable {
		return false
	}
	var zero V
	b, err := s.Encode(nil, zero)
	return err != nil || b != nil
}

func pointerFree(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return true
	case reflect.Array:
		return pointerFree(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !pointerFree(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false
}
