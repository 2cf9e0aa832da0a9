package topology

import (
	"fmt"
	"reflect"
	"strings"
)

const nameRemedy = "use letters, digits, '.', '_' and '-', at most 200 of them"

// badName says what is wrong with the name of a node, store or internal topic.
func badName(name string) string { return badText(name, 200) }

// badTopic says what is wrong with the name of a topic.
func badTopic(name string) string { return badText(name, 249) }

func badText(name string, most int) string {
	switch {
	case name == "":
		return "the name is empty"
	case len(name) > most:
		return fmt.Sprintf("the name has %d characters", len(name))
	case name == "." || name == "..":
		return fmt.Sprintf("the name %q stands for a directory", name)
	}
	if i := strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
	}); i >= 0 {
		return fmt.Sprintf("the name %q has an illegal character at %d", name, i)
	}
	return ""
}

// badKey says what is wrong with a type as that of keys, and what to use instead.
func badKey[K comparable]() (problem, remedy string) {
	t := reflect.TypeFor[K]()
	switch t.Kind() {
	case reflect.Pointer, reflect.UnsafePointer:
		problem, remedy = "pointers are equal only if they point to the same variable", "use the value itself; a null key needs no pointer"
	case reflect.Interface:
		problem, remedy = "values of an interface may not be comparable", "use a struct or a string"
	case reflect.Chan:
		problem, remedy = "channels cannot be written down", "use a string or a number"
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		problem, remedy = "NaN is not equal to itself, and 0 equals -0", "use an integer of the precision you need, such as cents"
	default:
		return "", ""
	}
	return fmt.Sprintf("keys of type %v are refused: %s", t, problem), remedy
}
