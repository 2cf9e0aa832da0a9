package store

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/kolkstreams/kolk/internal/seal"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

// Handle is what a processor opens: W is the store's interface, such as KeyValue[string, int64].
type Handle[W any] interface {
	Any
	opens() W
}

// Queryable is what is asked from outside: R is the reader, such as KeyValueReader[string, int64].
type Queryable[R any] interface {
	Any
	reads() R
}

// Keyed is a handle whose owner can be looked up by key.
type Keyed[K any] interface {
	Any
	keys(K)
}

// Any is a handle of any kind. Hand it to Stream.Process to connect the store to a processor.
type Any interface {
	Name() string
	seal.Process
	state.Declared
}

type (
	hook        = state.Hook
	processMark = seal.ProcessMark
)

type base struct {
	hook
	processMark
}

// Name is the store's name as declared, without its version; empty for a handle that was never declared.
func (b base) Name() string {
	if d := state.Of(b); d != nil {
		return d.Name
	}
	return ""
}

// KeyValueHandle declares or names a key-value store. It may be used by many goroutines. The zero value names no store and is refused by
// Build.
type KeyValueHandle[K comparable, V any] struct{ base }

// NewKeyValue declares a key-value store for processors. Tables and aggregations declare theirs themselves; see their Store method for the
// handle.
//
// The name is what the changelog is named by: letters, digits, '.', '_' and '-', at most 200 of them. Keys may be of any comparable type
// but pointers, interfaces, channels, floats and complex numbers. The key's serde must give different bytes for different keys, and decode
// them to an equal key. What is wrong with a declaration is reported by Build.
func NewKeyValue[K comparable, V any](name string, key serde.Serde[K], value serde.Serde[V], bound Bound, opts ...Option) KeyValueHandle[K, V] {
	d := &state.Decl{Name: name, Kind: "keyvalue"}
	if _, file, line, ok := runtime.Caller(1); ok {
		d.Place = fmt.Sprintf("%s:%d", file, line)
	}
	if problem := illegal(name); problem != "" {
		d.Faults = append(d.Faults, state.Fault{Problem: problem, Remedy: "a store's name is part of a topic's name: letters, digits, '.', '_' and '-', at most 200 of them"})
	}
	keys := keysOf[K]()
	if keys.problem != "" {
		d.Faults = append(d.Faults, state.Fault{Problem: keys.problem, Remedy: keys.remedy})
	}
	if key == nil {
		d.Faults = append(d.Faults, state.Fault{Problem: "the key has no serde", Remedy: "give one, such as serde.String()"})
	} else {
		d.Key = serde.Name(key)
	}
	if value == nil {
		d.Faults = append(d.Faults, state.Fault{Problem: "the value has no serde", Remedy: "give one, such as serde.JSON[T]()"})
	} else {
		d.Value = serde.Name(value)
	}
	bound.declare(d)
	for _, o := range opts {
		if o != nil {
			o.declare(d)
		}
	}
	opens(d, key, value, func(env state.Env, key serde.Serde[K], value serde.Serde[V]) state.Live {
		return openKeyValue(d, env, keys, key, value)
	})
	d.Read = func(v state.View) any { return KeyValueReader[K, V](keyValueReader[K, V]{v, d.Name}) }
	return KeyValueHandle[K, V]{base{hook: state.HookOf(d)}}
}

// These are only there for their types, from which handles are told apart and readers inferred.
func (h KeyValueHandle[K, V]) opens() KeyValue[K, V]       { return nil }
func (h KeyValueHandle[K, V]) reads() KeyValueReader[K, V] { return nil }
func (h KeyValueHandle[K, V]) keys(K)                      {}

func illegal(name string) string {
	switch {
	case name == "":
		return "the store has no name"
	case len(name) > 200:
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
