package processor_test

import (
	"testing"
	"time"

	"github.com/kolkstreams/kolk/processor"
)

func TestHeaders(t *testing.T) {
	var none processor.Headers
	if v, ok := none.Get("a"); ok || v != nil {
		t.Errorf("got %q", v)
	}
	one := none.With("a", []byte("1"))
	two, other := one.With("a", []byte("2")), one.With("b", nil)
	if v, ok := two.Get("a"); !ok || string(v) != "2" {
		t.Errorf("got %q", v)
	}
	if v, ok := one.Get("a"); !ok || string(v) != "1" {
		t.Errorf("With changed what it was called on: %q", v)
	}
	if v, ok := other.Get("b"); !ok || v != nil {
		t.Errorf("a header without value: %q, %v", v, ok)
	}
	if v, _ := other.Get("a"); string(v) != "1" {
		t.Errorf("got %q", v)
	}
	if _, ok := two.Get("b"); ok {
		t.Error("two headers share memory")
	}
}

func TestRecord(t *testing.T) {
	at := time.UnixMilli(7)
	r := processor.Record[string, int]{Value: 1, Time: at, NullKey: true, Headers: processor.Headers{}.With("a", nil)}
	if x := r.WithValue("v"); x.Value != "v" || !x.NullKey || x.Time != at {
		t.Errorf("got %+v", x)
	}
	x := r.WithKey(2)
	if x.Key != 2 || x.NullKey || x.Value != 1 || x.Time != at {
		t.Errorf("got %+v", x)
	}
	if _, ok := x.Headers.Get("a"); !ok {
		t.Error("the headers are gone")
	}
	var literal processor.FixedKeyRecord[string, int]
	if literal.Key() != "" || literal.NullKey() {
		t.Errorf("got %+v", literal)
	}
	if o := processor.NewOutput[string, int]("o"); o.Name() != "o" {
		t.Errorf("got %q", o.Name())
	}
}
