package operator

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/kolkstreams/kolk/serde"
)

// The bytes are those that Kafka Streams writes.
func TestChangeBytes(t *testing.T) {
	text, number := Changes(serde.String()), Changes(serde.Int64())
	for _, c := range []struct {
		want string
		got  func() ([]byte, error)
	}{
		{"02626102", func() ([]byte, error) {
			return text.Encode(nil, Change[string]{Old: "a", New: "b", HasOld: true, HasNew: true})
		}},
		{"0002", func() ([]byte, error) { return text.Encode(nil, Change[string]{HasOld: true, HasNew: true}) }},
		{"10000000000000000600000000000000" + "0202", func() ([]byte, error) {
			return number.Encode(nil, Change[int64]{Old: 2, New: 6, HasOld: true, HasNew: true})
		}},
		{"000000000000000501", func() ([]byte, error) { return number.Encode(nil, Change[int64]{New: 5, HasNew: true}) }},
		{"000000000000000400", func() ([]byte, error) { return number.Encode(nil, Change[int64]{Old: 4, HasOld: true}) }},
		{"01", func() ([]byte, error) { return text.Encode(nil, Change[string]{HasNew: true}) }},
	} {
		b, err := c.got()
		if err != nil || hex.EncodeToString(b) != c.want {
			t.Errorf("got %x, %v, want %s", b, err, c.want)
		}
	}
}

func TestChangeRoundTrip(t *testing.T) {
	s := Changes(serde.String())
	long := string(bytes.Repeat([]byte("long"), 100))
	for _, c := range []Change[string]{
		{New: "x", HasNew: true}, {Old: "x", HasOld: true}, {Old: long, New: long + "!", HasOld: true, HasNew: true}, {HasNew: true}, {HasOld: true},
	} {
		b, err := s.Encode([]byte("before"), c)
		if err != nil || !bytes.HasPrefix(b, []byte("before")) {
			t.Fatalf("%q, %v", b, err)
		}
		if got, err := s.Decode(b[len("before"):]); err != nil || got != c {
			t.Errorf("got %+v, %v, want %+v", got, err, c)
		}
	}
}

// What older and newer versions of Kafka Streams write must be read too.
func TestChangeWithLatest(t *testing.T) {
	s := Changes(serde.String())
	for text, want := range map[string]Change[string]{
		"610103":     {Old: "a", HasOld: true},
		"610104":     {New: "a", HasNew: true},
		"0262610105": {Old: "a", New: "b", HasOld: true, HasNew: true},
	} {
		b, _ := hex.DecodeString(text)
		if got, err := s.Decode(b); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "03", "6106", "02", "7f02", "0102", "ffffffffffffffffffffff02"} {
		b, _ := hex.DecodeString(text)
		if got, err := s.Decode(b); err == nil {
			t.Errorf("%s: got %+v", text, got)
		}
	}
	if _, err := s.Encode(nil, Change[string]{}); !errors.Is(err, errEmptyChange) {
		t.Errorf("got %v", err)
	}
}

// A value that is written as null is none.
func TestChangeNull(t *testing.T) {
	s := Changes(serde.Optional(serde.String()))
	x := "x"
	b, err := s.Encode(nil, Change[*string]{New: nil, Old: &x, HasOld: true, HasNew: true})
	if err != nil || string(b) != "x\x00" {
		t.Errorf("%q, %v", b, err)
	}
}

func FuzzChange(f *testing.F) {
	f.Add([]byte("\x02ba\x02"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s := Changes(serde.Bytes())
		c, err := s.Decode(src)
		if err != nil {
			return
		}
		b, err := s.Encode(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Decode(b)
		if err != nil || !bytes.Equal(again.New, c.New) || !bytes.Equal(again.Old, c.Old) || again.HasNew != c.HasNew || again.HasOld != c.HasOld {
			t.Errorf("%q became %q: %v", src, b, err)
		}
	})
}
