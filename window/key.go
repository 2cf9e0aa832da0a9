package window

import (
	"fmt"
	"time"
)

// Key is a key within one window. It is comparable, so it may be a key of maps and tables itself. The zero value is the zero key in the
// first millisecond of 1970.
type Key[K comparable] struct {
	Key        K
	start, end int64
}

// Of makes a Key, mainly for tests. Times are cut to whole milliseconds.
func Of[K comparable](key K, start, end time.Time) Key[K] {
	return Key[K]{key, start.UnixMilli(), end.UnixMilli()}
}

// Start is the first instant in the window, in UTC.
func (k Key[K]) Start() time.Time { return time.UnixMilli(k.start).UTC() }

// End is the window's end, in UTC; see the package comment for whether it belongs to the window.
func (k Key[K]) End() time.Time { return time.UnixMilli(k.end).UTC() }

// String is the key and its window, in UTC: "EDDF [2001-02-03T04:05:00Z, 2001-02-03T04:10:00Z]".
func (k Key[K]) String() string {
	return fmt.Sprintf("%v [%s, %s]", k.Key, k.Start().Format(time.RFC3339Nano), k.End().Format(time.RFC3339Nano))
}
