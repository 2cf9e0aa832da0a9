package store_test

import (
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/store/memstore"
)

// Devices come and go without end, so the store forgets those it has not heard of for an hour of event time.
var lastReading = store.NewKeyValue("last-reading", serde.String(), serde.Int64(), store.TTL(time.Hour).Expect(10_000))

// A chain has so many shops and no more.
var perShop = store.NewKeyValue("per-shop", serde.String(), serde.Int64(), store.FiniteKeys(500), store.InMemory())

func Example() {
	// A processor gets its stores from its context: readings := ctx.Store(lastReading). Here the two are opened by hand.
	var streamTime int64
	env := state.Env{Backend: memstore.New(), Now: func() int64 { return streamTime }, StreamTime: func() int64 { return streamTime }}
	readings := state.Of(lastReading).Open(env).(store.KeyValue[string, int64])
	env.Slot = 2
	shops := state.Of(perShop).Open(env).(store.KeyValue[string, int64])

	readings.Put("thermometer-1", 21)
	readings.Put("thermometer-2", 19)
	for key, value := range readings.All() {
		fmt.Println(key, value)
	}

	streamTime += (30 * time.Minute).Milliseconds()
	readings.Put("thermometer-2", 20)
	streamTime += (30 * time.Minute).Milliseconds()
	_, ok := readings.Get("thermometer-1")
	fmt.Println("after an hour:", ok)
	value, _ := readings.Get("thermometer-2")
	fmt.Println("refreshed meanwhile:", value)

	for range 3 {
		shops.Update("Lisbon", func(old int64, _ bool) (int64, bool) { return old + 1, true })
	}
	fmt.Println(shops.Get("Lisbon"))
	// Output:
	// thermometer-1 21
	// thermometer-2 19
	// after an hour: false
	// refreshed meanwhile: 20
	// 3 true
}
