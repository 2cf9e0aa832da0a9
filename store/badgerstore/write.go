package badgerstore

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
)

// stepRows is after how many rows of a write a test may let it fail.
const stepRows = 500

var deleted = []byte{1} // Badger's own mark of a deleted row

// load writes what fill gives it to the database, under the given version, and returns when all of it is written.
//
// lingers, which may be nil, says of which keys a delete must stay: see Store.lingers.
//
// The rows are written in order by Badger's one writer, so those that a killed process leaves are the first ones. There is no mark of
// where they end.
func load(db *badger.DB, version uint64, fault func(string) error, lingers func(key []byte) bool, fill func(sink) error) error {
	loader := db.NewKVLoader(16)
	var kv pb.KV
	n := 0
	err := fill(func(key, value []byte) error {
		if n++; n%stepRows == 0 {
			if err := fault("some rows"); err != nil {
				return err
			}
		}
		kv = pb.KV{Key: key, Value: value, Version: version}
		if value == nil && lingers != nil && lingers(key) {
			if err := loader.Set(&pb.KV{Key: goneKey(key), Version: version}); err != nil {
				return err
			}
			kv.UserMeta = gone
		} else if value == nil {
			kv.Meta = deleted
		}
		return loader.Set(&kv)
	})
	// Also after an error: what was sent must not be used any more when this returns.
	return errors.Join(err, loader.Finish())
}
