package state

// Windows is how typed operators use a window store; its Live implements it beside the store's public interface. Times are in ms, bounds are
// inclusive. A window that starts at or before the store's observed time minus its retention is gone: reads do not see it and writes are
// refused. The observed time is the largest start that was written; a restore rebuilds it.
type Windows[K comparable, V any] interface {
	// Lookup is the value of one window and its entry's time.
	Lookup(key K, start int64) (value V, at int64, ok bool)
	// Modify replaces the window's entry by what f makes of it, with one look-up. keep false deletes it. If f panics the entry stays as it was. f
	// may not use the store. It returns false, without calling f, if the window is expired; the caller counts that.
	Modify(key K, start int64, f func(old V, at int64, ok bool) (value V, newAt int64, keep bool)) bool
	// Fetch visits one key's windows that start in [from, to], ascending or descending by start, until visit returns false. It sees the
	// store as of the call; visit may write.
	Fetch(key K, from, to int64, backward bool, visit func(start int64, value V, at int64) bool)
	// Starting visits the windows of all keys that start in [from, to], in order of start, then of encoded key.
	Starting(from, to int64, visit func(key K, start int64, value V, at int64) bool)
	// First is the start of the first window of any key that starts at from or later.
	First(from int64) (start int64, ok bool)
}

// Sessions is how typed operators use a session store; its Live implements it beside the store's public interface. Start and end are inclusive,
// in ms. A session that ends at or before the observed time minus the retention is gone.
type Sessions[K comparable, V any] interface {
	// Lookup is the value of exactly this session.
	Lookup(key K, start, end int64) (value V, ok bool)
	// Find visits one key's sessions with end >= from and start <= to, in order of end, then start, until visit returns false. It sees the store
	// as of the call; visit may write.
	Find(key K, from, to int64, visit func(start, end int64, value V) bool)
	// Put stores a session. It returns false if the session is expired; the caller counts that.
	Put(key K, start, end int64, value V) bool
	// Remove deletes exactly this session.
	Remove(key K, start, end int64)
	// Ending visits the sessions of all keys that end in [from, to], in order of end, then start, then of encoded key.
	Ending(from, to int64, visit func(key K, start, end int64, value V) bool)
	// First is the end of the first session of any key that ends at from or later.
	First(from int64) (end int64, ok bool)
}
