package store_test

import (
	"sync"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/store/memstore"
	"github.com/kolkstreams/kolk/store/storetest"
)

func TestKeyValue(t *testing.T) { storetest.KeyValue(t, inMemory()) }

func inMemory() storetest.OpenBackend {
	var mu sync.Mutex
	disks := map[string]*memstore.Disk{}
	return func(dir string, fault func(string) error) (state.Backend, error) {
		mu.Lock()
		defer mu.Unlock()
		d := disks[dir]
		if d == nil {
			d = memstore.NewDisk()
			disks[dir] = d
		}
		d.Fault(fault)
		return d.Open(), nil
	}
}

func TestWindow(t *testing.T) { storetest.Window(t, inMemory()) }

func TestSession(t *testing.T) { storetest.Session(t, inMemory()) }
