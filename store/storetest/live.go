package storetest

import (
	"encoding/json/v2"
	"fmt"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// KeyValue checks key-value stores over a backend against a model: random reads, writes, ranges whose loops write, commits, aborts,
// checkpoints, evictions, expiry, and crashes after which the changelog brings everything back, byte for byte. It does so for keys and values
// of each kind that memory treats in its own way.
func KeyValue(t *testing.T, open OpenBackend) {
	keyValuesOf(t, open, "string", stringKeys)
	keyValuesOf(t, open, "int64", kindOf[int64]{serde.Int64(), []int64{0, 1, 2, 3, 255, 256, 1 << 40, -1, -256}, func(i int) int64 { return int64(i) << 3 }})
	keyValuesOf(t, open, "struct", kindOf[shelf]{serde.JSON[shelf](), []shelf{{}, {"a", 0, [2]bool{true}}, {"a", 1, [2]bool{}}}, func(i int) shelf { return shelf{fmt.Sprint("s", i%7), int32(i / 7), [2]bool{}} }})
	keyValuesOf(t, open, "encoded", kindOf[moment]{serde.JSON[moment](), []moment{{}, {At: time.Unix(5, 0).UTC()}}, func(i int) moment { return moment{At: time.Unix(int64(i), 0).UTC()} }})
}

var stringKeys = kindOf[string]{serde.String(), []string{"", "\x00", "\x00\x00", "a", "a\x00", "ab", "abc", "b", "\xff", "\xff\xff", "key", "key2"}, func(i int) string { return fmt.Sprint("k", i) }}

// shelf is a key that compares by value, moment one that does not.
type shelf struct {
	Name string
	N    int32
	On   [2]bool
}

type moment struct{ At time.Time }

// basket is a value that could be changed behind the store's back.
type basket struct {
	Items []string
	N     int
}

// kindOf is the keys that a test draws from: some chosen ones, and as many more as it takes to fill memory.
type kindOf[K comparable] struct {
	serde  serde.Serde[K]
	chosen []K
	more   func(int) K
}

func (k kindOf[K]) keys() []K {
	keys := k.chosen
	for i := range 30 {
		keys = append(keys, k.more(i))
	}
	return keys
}

// valueOf is what a test does with values.
type valueOf[V any] struct {
	serde serde.Serde[V]
	draw  func(*rapid.T) V
	// next is an aggregate that uses, and changes, what it is given.
	next func(old V, n int) V
}

func keyValuesOf[K comparable](t *testing.T, open OpenBackend, name string, keys kindOf[K]) {
	keyValues(t, open, name+"/int64", keys, valueOf[int64]{serde.Int64(), func(t *rapid.T) int64 { return rapid.Int64().Draw(t, "value") }, func(old int64, n int) int64 { return old + int64(n) }})
	keyValues(t, open, name+"/string", keys, valueOf[string]{serde.String(), func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "v", "a longer value", "\x00"}).Draw(t, "value")
	}, func(old string, n int) string {
		return fmt.Sprintf("%.20s%d", old, n)
	}})
	keyValues(t, open, name+"/bytes", keys, valueOf[[]byte]{serde.Bytes(), func(t *rapid.T) []byte {
		return rapid.SampledFrom([][]byte{nil, {}, {0}, []byte("value")}).Draw(t, "value")
	}, func(old []byte, n int) []byte {
		for i := range old {
			old[i]++
		}
		if len(old) > 12 {
			return old[:4]
		}
		return append(old, byte(n))
	}})
	keyValues(t, open, name+"/slices", keys, valueOf[basket]{jsonBasket, func(t *rapid.T) basket {
		return basket{Items: rapid.SliceOfN(rapid.SampledFrom([]string{"", "pear", "plum"}), 0, 3).Draw(t, "items")}
	}, func(old basket, n int) basket {
		for i := range old.Items {
			old.Items[i] = "changed"
		}
		if len(old.Items) > 4 {
			old.Items = old.Items[:1]
		}
		return basket{append(old.Items, fmt.Sprint(n)), n}
	}})
}

// jsonBasket writes no and an empty list alike, as values are compared by their bytes.
var jsonBasket = serde.Func(func(dst []byte, b basket) ([]byte, error) {
	j, err := json.Marshal(b)
	return append(dst, j...), err
}, func(src []byte) (b basket, err error) { return b, json.Unmarshal(src, &b) })

func keyValues[K comparable, V any](t *testing.T, open OpenBackend, name string, keys kindOf[K], values valueOf[V]) {
	t.Run(name, func(t *testing.T) {
		root := t.TempDir()
		rapid.Check(t, func(rt *rapid.T) {
			dir, err := os.MkdirTemp(root, "live")
			if err != nil {
				rt.Fatal(err)
			}
			defer os.RemoveAll(dir)
			w := &liveWorld[K, V]{t: rt, root: dir, openBackend: open, keyKind: keys, values: values, keys: keys.keys(), now: rows{}, committed: rows{}, stream: 1000, committedStream: 1000}
			bound := store.FiniteKeys(100)
			if rapid.Bool().Draw(rt, "ttl") {
				w.ttl = 100
				bound = store.TTL(time.Duration(w.ttl) * time.Millisecond)
			}
			w.handle = store.NewKeyValue("rows", keys.serde, values.serde, bound)
			if rapid.Bool().Draw(rt, "tight memory") {
				w.limit = 1
			}
			w.open()
			defer func() { w.backend.Close(false) }()
			for range rapid.IntRange(1, 80).Draw(rt, "operations") {
				w.step()
			}
			w.settle()
		})
	})
}
