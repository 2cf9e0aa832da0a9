package store

import (
	"fmt"
	"runtime"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
)

// Versioned is a store that remembers older values for a while. It belongs to the task; do not use it from other goroutines. Failures are
// those of a KeyValue.
//
// The versions of a key follow each other: one is valid from its own time until that of the next. They may be put in any order, also below newer
// ones. How far back is counted from the largest time that was put, whatever the key: that minus the history is the oldest time that can be
// asked for and put to. A newest version stays, however old it is.
type Versioned[K comparable, V any] interface {
	// Get returns the newest value; nothing if the newest version is a delete.
	Get(key K) (VersionedValue[V], bool)
	// AsOf returns the value that was valid at t, in whole milliseconds. For times older than the history it returns the newest value if that was
	// valid already, and else nothing.
	AsOf(key K, t time.Time) (VersionedValue[V], bool)
	// Put sets the value valid from at on, in whole milliseconds, until the version that follows. One put at the same time before is replaced. A
	// value that its serde writes as null deletes. It returns false if at is older than the history: nothing is changed then, and "expired" is
	// counted. A time before 1970 is a record that failed.
	Put(key K, value V, at time.Time) bool
	// Delete says that there is no value from at on, until the version that follows. It is a Put in all else.
	Delete(key K, at time.Time)
}

// VersionedValue is a value and the time it was valid: from From up to, not including, To. To is zero for the newest.
type VersionedValue[V any] struct {
	Value    V
	From, To time.Time
}

// VersionedHandle declares or names a versioned store. It may be used by many goroutines. The zero value names no store and is refused by
// Build.
type VersionedHandle[K comparable, V any] struct{ base }

// NewVersioned declares a versioned store for processors: bound covers the newest values, history, at least one millisecond, is how far back AsOf
// and Put reach. A TTL is refused: what is not needed any more is to be deleted. For the rest see NewKeyValue.
//
// Every put that was not refused goes to the changelog, one by one and in order. One below a newer version is followed there by the newest version
// once more: so a broker that keeps the last record of each key keeps that one.
func NewVersioned[K comparable, V any](name string, key serde.Serde[K], value serde.Serde[V], bound Bound, history time.Duration, opts ...Option) VersionedHandle[K, V] {
	d := &state.Decl{Name: name, Kind: "versioned", Retention: history.Milliseconds(), NoLoad: true}
	if _, file, line, ok := runtime.Caller(1); ok {
		d.Place = fmt.Sprintf("%s:%d", file, line)
	}
	fault := func(problem, remedy string) {
		d.Faults = append(d.Faults, state.Fault{Problem: problem, Remedy: remedy})
	}
	if problem := illegal(name); problem != "" {
		fault(problem, "a store's name is part of a topic's name: letters, digits, '.', '_' and '-', at most 200 of them")
	}
	if keys := keysOf[K](); keys.problem != "" {
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
	if history < time.Millisecond {
		fault(fmt.Sprintf("a history of %v remembers nothing", history), "give the time for which older values are needed, at least one millisecond, or use NewKeyValue")
	}
	bound.declare(d)
	if bound.timed {
		fault("a versioned store has no TTL", "give store.FiniteKeys, and delete what is not needed any more")
		d.TTL = 0
	}
	for _, o := range opts {
		if o != nil {
			o.declare(d)
		}
	}
	opens(d, key, value, func(env state.Env, key serde.Serde[K], value serde.Serde[V]) state.Live {
		return openVersioned(d, env, key, value)
	})
	d.Read = func(v state.View) any { return VersionedReader[K, V](versionedReader[K, V]{v, d.Name}) }
	return VersionedHandle[K, V]{base{hook: state.HookOf(d)}}
}

func (h VersionedHandle[K, V]) opens() Versioned[K, V]       { return nil }
func (h VersionedHandle[K, V]) reads() VersionedReader[K, V] { return nil }
func (h VersionedHandle[K, V]) keys(K)                       {}
