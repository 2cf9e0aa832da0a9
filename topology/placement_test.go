package topology_test

import (
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/window"
)

// placed runs records of topic "in" of 4 partitions through the task of partition 1, and returns what was seen of their keys.
func placed[K comparable](t *testing.T, topic topology.Topic[K, string], keys ...K) engine.Placement {
	t.Helper()
	w := run(t, func(b *topology.Builder) { b.Table("rows", topic, few).Store() }, func(w *world) {
		w.counts["in"], w.partition = 4, 1
	})
	ends := engine.EndsOf(topic)
	for i, k := range keys {
		key, err := ends.Key.Encode(nil, k)
		if err != nil {
			t.Fatal(err)
		}
		value := []byte("v")
		if i == 0 {
			value = nil
		}
		if err := w.give(emitted{topic: "in", key: key, value: value, at: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.give(emitted{topic: "in", value: []byte("no key"), at: 9}); err != nil {
		t.Fatal(err)
	}
	all := w.tasks[0].Placements()
	if len(all) != 1 {
		t.Fatalf("%d inputs are checked", len(all))
	}
	return all[0]
}

// Keys are compared with what their topic's partitioner says; null keys, and nulls that a partitioner cannot be asked about, are not.
func TestPlacement(t *testing.T) {
	plain := topology.NewTopic("in", serde.Int64(), serde.String())
	if p := placed(t, plain, 0, 1, 2, 3, 4, 5, 6, 7); p.Sampled != 8 || p.Elsewhere == 0 || p.Elsewhere == 8 || p.Own {
		t.Errorf("by hash: %+v", p)
	}
	modulo := plain.PartitionedBy(func(k int64, v string, n int) int {
		if v != "v" || n != 4 {
			t.Errorf("asked about %q of %d", v, n)
		}
		return int(k) % n
	})
	if p := placed(t, modulo, 1, 5, 9, 14); p.Sampled != 3 || p.Elsewhere != 1 || p.Example != (engine.Misplaced{Partition: 1, Wanted: 2, Offset: 3, Key: "14"}) || !p.Own {
		t.Errorf("by a partitioner of its own: %+v", p)
	}
	if p := placed(t, plain.PartitionedByKey(func(k int64, n int) int { return int(k) % n }), 1, 5, 9, 14); p.Sampled != 3 || p.Elsewhere != 1 {
		t.Errorf("by the key: %+v", p)
	}
	if p := placed(t, plain.PartitionedBy(nil), 0, 1); p.Sampled != 2 || p.Own {
		t.Errorf("by none: %+v", p)
	}
	// A partitioner that panics must not fail the records that are only read.
	if p := placed(t, plain.PartitionedBy(func(int64, string, int) int { panic("no") }), 1, 2, 3); p.Sampled != 0 {
		t.Errorf("by one that panics: %+v", p)
	}
	// The window of a key has no part in its partition.
	ten := window.Tumbling(10 * time.Second)
	windowed := topology.NewTopic("in", window.KeySerde(serde.String(), ten), serde.String())
	var keys []window.Key[string]
	for at := range int64(6) {
		keys = append(keys, window.Of("k", time.UnixMilli(10_000*at), time.UnixMilli(10_000*(at+1))))
	}
	if p := placed(t, windowed, keys...); p.Sampled != 6 || p.Elsewhere != 0 && p.Elsewhere != 6 {
		t.Errorf("windows of one key are in several partitions: %+v", p)
	}
}
