package soak

import (
	"runtime"
	"strings"
)

// buffers is how much of the heap is memory in which Badger builds tables, in bytes, as of the last collection. Badger keeps up to eight such buffers of some 12 MB each for
// the next tables, as many as it ever needed at once, and lets them go when it is idle. So their number follows the chance of compactions that meet, not
// what is kept.
func buffers() (sum int64) {
	var records []runtime.MemProfileRecord
	n, ok := runtime.MemProfile(nil, false)
	for !ok {
		records = make([]runtime.MemProfileRecord, n+64) // there may be more by the time of the next call
		n, ok = runtime.MemProfile(records, false)
	}
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for {
			f, more := frames.Next()
			if strings.HasPrefix(f.Function, "github.com/dgraph-io/ristretto/v2/z.") {
				sum += r.InUseBytes()
				break
			}
			if !more {
				break
			}
		}
	}
	return sum
}
