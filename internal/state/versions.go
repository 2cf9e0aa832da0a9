package state

// Written says what became of a write to a versioned store.
type Written uint8

// The outcomes.
const (
	// Refused: its time is older than the store's history, and nothing changed.
	Refused Written = iota
	// Past: it was put below a newer version of its key.
	Past
	// Latest: it is the newest version of its key.
	Latest
)

// Versions is how typed operators use a versioned store; its Live implements it beside the store's public interface. Times are in ms. Like all
// methods of a Live they panic with a Broken when the backend fails.
type Versions[K comparable, V any] interface {
	// Latest is the newest value and the time since which it is valid.
	Latest(key K) (value V, from int64, ok bool)
	// At is the value that was valid at a time; none for times older than the history, unless the newest value is that old.
	At(key K, at int64) (value V, from int64, ok bool)
	// Oldest is the oldest time that At can tell anything about, but for the newest value.
	Oldest() int64
	// Write puts a value that is valid from a time on, or with has unset a delete. old is what was valid at that time before. The caller
	// counts what is refused.
	Write(key K, value V, has bool, at int64) (old V, had bool, done Written)
}
