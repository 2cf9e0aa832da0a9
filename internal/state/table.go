package state

// Table is how typed operators use a key-value store; its Live implements it beside the store's public interface. Times are in ms. Like all
// methods of a Live they panic with a Broken when the backend fails.
type Table[K comparable, V any] interface {
	// Lookup is the value and its entry's time. An entry that has expired is not there, but for the one that Env.Deleted is being told of.
	Lookup(key K) (value V, at int64, ok bool)
	// Last is Lookup that also shows an entry that has expired, until Env.Deleted has been told of it.
	Last(key K) (value V, at int64, ok bool)
	// Modify replaces the entry by what f makes of it, with one look-up. keep false deletes it; as in Kafka Streams, the delete goes to the
	// changelog also if there was no entry. If f panics the entry stays as it was. f may not use the store. An entry that has expired is
	// removed first, and Env.Deleted told.
	Modify(key K, f func(old V, at int64, ok bool) (value V, newAt int64, keep bool))
	// DecodeKey reads an encoded key, such as Env.Deleted gets.
	DecodeKey(key []byte) (K, error)
}

// Encoder reads a value as it is stored, without decoding it. The Live of a key-value store implements it.
type Encoder[K comparable] interface {
	// Encoded is the value's bytes, as the changelog gets them. They are valid until the next call of the store.
	Encoded(key K) (value []byte, ok bool)
}
