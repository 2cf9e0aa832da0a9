package operator

import (
	"math"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/serde"
)

func TestMarks(t *testing.T) {
	for _, m := range []mark{{}, {1, 0, 0}, {1, 0, 1}, {3, 127, 0}, {3, 128, 7}, {math.MaxUint64, math.MaxUint64, math.MaxUint64}} {
		b, err := marks{}.Encode(nil, m)
		if err != nil || len(b) == 0 {
			t.Fatalf("%v is %x, %v", m, b, err)
		}
		if got, err := (marks{}).Decode(b); err != nil || got != m {
			t.Errorf("%v comes back as %v, %v", m, got, err)
		}
		if got, err := (marks{}).Decode(append(b, 9, 9)); err == nil {
			t.Errorf("%v with two bytes more is %v", m, got)
		}
	}
	for _, b := range []string{"", "\x01", "\x80", "\x01\x80", "\x01\x01\x80", strings.Repeat("\xff", 11)} {
		if got, err := (marks{}).Decode([]byte(b)); err == nil {
			t.Errorf("%x is %v", b, got)
		}
	}
}

// The store is a window store by cells, so that the changelog is deleted by time.
func TestDedupStore(t *testing.T) {
	d := DedupStore("seen", 10, serde.String())
	if d.Kind != "window" || d.Retention != 23 || len(d.Faults) > 0 || d.Ends(22) != 33 {
		t.Errorf("%+v", d)
	}
	if other := DedupStore("seen", 11, serde.String()); other.Key == d.Key {
		t.Errorf("two horizons have the key %s", d.Key)
	}
}
