package store

import (
	"fmt"
	"runtime"
	"time"

	spans "github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

// WindowHandle declares or names a window store. It may be used by many goroutines. The zero value names no store and is refused by Build.
type WindowHandle[K comparable, V any] struct{ base }

// NewWindow declares a window store for processors. Windows are gone once their start is the retention behind the largest start that was
// written. size says where windows end, which is not stored; retention is at least size. Both are counted in whole milliseconds and are at least
// one. Name and keys are as for NewKeyValue. What is wrong with a declaration is reported by Build.
func NewWindow[K comparable, V any](name string, key serde.Serde[K], value serde.Serde[V], size, retention time.Duration, opts ...Option) WindowHandle[K, V] {
	d, kind := declareTimed("window", name, key, value, retention, opts)
	length := size.Milliseconds()
	if key != nil {
		d.Key = fmt.Sprintf("windowed(%s,%v)", d.Key, size)
	}
	switch {
	case length < 1:
		d.Faults = append(d.Faults, state.Fault{Problem: fmt.Sprintf("the windows' size is %v", size), Remedy: "give at least one millisecond"})
	case retention < size && d.Retention > 0:
		d.Faults = append(d.Faults, state.Fault{Problem: fmt.Sprintf("the retention is %v, less than the windows' size, %v", retention, size), Remedy: "give a retention of at least the size, and what records may be late by"})
	}
	d.Ends = func(start int64) int64 { return spans.Add(start, length) }
	opens(d, key, value, func(env state.Env, key serde.Serde[K], value serde.Serde[V]) state.Live {
		return openWindow(d, env, kind, key, value)
	})
	d.Read = func(v state.View) any { return WindowReader[K, V](windowReader[K, V]{v, d.Name}) }
	return WindowHandle[K, V]{base{hook: state.HookOf(d)}}
}

// These are only there for their types, from which handles are told apart and readers inferred.
func (h WindowHandle[K, V]) opens() Window[K, V]       { return nil }
func (h WindowHandle[K, V]) reads() WindowReader[K, V] { return nil }
func (h WindowHandle[K, V]) keys(K)                    {}

// SessionHandle declares or names a session store. It may be used by many goroutines. The zero value names no store and is refused by Build.
type SessionHandle[K comparable, V any] struct{ base }

// NewSession declares a session store for processors. Sessions are gone once their end is the retention behind the largest end that was
// written. The retention is counted in whole milliseconds and is at least one. Name and keys are as for NewKeyValue. What is wrong with a
// declaration is reported by Build.
func NewSession[K comparable, V any](name string, key serde.Serde[K], value serde.Serde[V], retention time.Duration, opts ...Option) SessionHandle[K, V] {
	d, kind := declareTimed("session", name, key, value, retention, opts)
	opens(d, key, value, func(env state.Env, key serde.Serde[K], value serde.Serde[V]) state.Live {
		return openSession(d, env, kind, key, value)
	})
	d.Read = func(v state.View) any { return WindowReader[K, V](windowReader[K, V]{v, d.Name}) }
	return SessionHandle[K, V]{base{hook: state.HookOf(d)}}
}

func (h SessionHandle[K, V]) opens() Session[K, V]      { return nil }
func (h SessionHandle[K, V]) reads() WindowReader[K, V] { return nil }
func (h SessionHandle[K, V]) keys(K)                    {}

// declareTimed is what both have in common. Its caller is called by the user.
func declareTimed[K comparable, V any](kind, name string, key serde.Serde[K], value serde.Serde[V], retention time.Duration, opts []Option) (*state.Decl, keyKind[K]) {
	d := &state.Decl{Name: name, Kind: kind, Retention: retention.Milliseconds(), Segmented: true}
	if _, file, line, ok := runtime.Caller(2); ok {
		d.Place = fmt.Sprintf("%s:%d", file, line)
	}
	fault := func(problem, remedy string) {
		d.Faults = append(d.Faults, state.Fault{Problem: problem, Remedy: remedy})
	}
	if problem := illegal(name); problem != "" {
		fault(problem, "a store's name is part of a topic's name: letters, digits, '.', '_' and '-', at most 200 of them")
	}
	keys := keysOf[K]()
	if keys.problem != "" {
		fault(keys.problem, keys.remedy)
	}
	if key == nil {
		fault("the key has no serde", "give one, such as serde.String()")
	} else {
		d.Key = serde.Name(key)
	}
	if value == nil {
		fault("the value has no serde", "give one, such as serde.JSON[T]()")
	} else {
		d.Value = serde.Name(value)
	}
	if d.Retention < 1 {
		fault(fmt.Sprintf("with a retention of %v nothing is kept", retention), "give the time for which "+kind+"s are needed, at least one millisecond")
		d.Retention = 0
	}
	for _, o := range opts {
		if o != nil {
			o.declare(d)
		}
	}
	return d, keys
}
