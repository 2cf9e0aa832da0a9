package operator

import (
	"testing"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/serde"
)

// A row of a buffer is what Kafka Streams writes.
func TestDelayedRow(t *testing.T) {
	number := int64(-1)
	task := &engine.Task{Partition: 3}
	w := &delayed[string, string]{Delay: Delay[string, string]{Store: "b", Key: serde.String(), Value: serde.String()}, task: task, number: &number}
	r := &engine.Rec{Time: 5131, Offset: 1, Input: -1, Headers: []engine.Header{{Key: "h", Value: []byte("x")}}}
	key, value, err := w.encode(r, "c", "1")
	if err != nil {
		t.Fatal(err)
	}
	if want := "\x00\x00\x00\x00\x00\x00\x00\x14\x0bc\x00\x00\x00\x01"; string(key) != want {
		t.Errorf("key %q, want %q", key, want)
	}
	if want := "\x00\x00\x00\x00\x00\x00\x14\x0b\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x01h\x00\x00\x00\x01x" +
		"\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x011\x00\x00\x00\x00\x00\x00\x00\x00"; string(value) != want {
		t.Errorf("value %q, want %q", value, want)
	}
	k, row, err := w.parse(string(key), value)
	if err != nil || k != "c" || string(row.new) != "1" || row.time != 5131 || len(row.headers) != 1 {
		t.Errorf("read back as %q, %+v, %v", k, row, err)
	}
	if key, _, _ = w.encode(r, "c", "1"); key[len(key)-1] != 2 || number != 2 {
		t.Errorf("the second row of one key and time has the key %q", key)
	}
	for what, x := range map[string][2]string{"short key": {"\x00", string(value)}, "damaged value": {string(key), string(value[:9])}, "other key": {"\x01" + string(key[1:]), string(value)}} {
		if _, _, err := w.parse(x[0], []byte(x[1])); err == nil {
			t.Errorf("%s: it is read", what)
		}
	}
}
