// Package storetest holds the tests that every store of kolk must pass, whoever wrote it.
//
// Backend checks what holds the applied rows of a task (package store/badgerstore, package store/memstore) against a model: random
// checkpoints with deletes and rows made anew, scans in both directions, counts, segments, loads, and a failure at every step of a write,
// after which the backend must hold the whole checkpoint or nothing of it. A backend calls it from a test of its own:
//
//	func TestBackend(t *testing.T) {
//		storetest.Backend(t, func(dir string, fault func(step string) error) (state.Backend, error) {
//			return open(dir, fault)
//		})
//	}
package storetest
