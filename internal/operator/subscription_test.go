package operator

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/serde"
)

var someHash = murmur3([]byte("A"))

const someHex = "fa79dbb0eb96db7831044d767f696750"

// The bytes are those that Kafka Streams writes.
func TestSubscriptionBytes(t *testing.T) {
	for _, c := range []struct {
		want string
		s    Subscription
	}{
		{"81016b00000003", Subscription{do: forgetAndTell, key: []byte("k"), partition: 3}},
		{"8100706b00000000", Subscription{do: forget, key: []byte("pk")}},
		{"0102" + someHex + "706b00000000", Subscription{do: answer, hasHash: true, hash: someHash, key: []byte("pk")}},
		{"0103" + someHex + "00000007", Subscription{do: answerIfExists, hasHash: true, hash: someHash, key: []byte{}, partition: 7}},
	} {
		b, err := Subscriptions().Encode(nil, c.s)
		if got := hex.EncodeToString(b); err != nil || got != c.want {
			t.Errorf("%+v: %s, not %s (%v)", c.s, got, c.want, err)
		}
		s, err := Subscriptions().Decode(b)
		if err != nil || s.do != c.s.do || s.hasHash != c.s.hasHash || s.hash != c.s.hash || s.partition != c.s.partition || !bytes.Equal(s.key, c.s.key) {
			t.Errorf("%s: %+v, not %+v (%v)", c.want, s, c.s, err)
		}
	}
	// An old version has no partition.
	s, err := Subscriptions().Decode([]byte("\x80\x02k"))
	if err != nil || s.partition != -1 || string(s.key) != "k" || s.do != answer {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSubscriptionKeys(t *testing.T) {
	key := func(fk, pk string) string { return hex.EncodeToString(append(appendPrefix(nil, []byte(fk)), pk...)) }
	if key("A", "k1") != "00000001416b31" || key("A", "") != "0000000141" || key("", "") != "00000000" {
		t.Errorf("%s %s %s", key("A", "k1"), key("A", ""), key("", ""))
	}
	b, err := SubscriptionKeys().Encode([]byte("x"), "\x00\xff")
	if got, _ := SubscriptionKeys().Decode(b[1:]); err != nil || got != "\x00\xff" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestResponseBytes(t *testing.T) {
	text := Responses(serde.String())
	row := func(s string) Side[string] { return Side[string]{s, true} }
	for _, c := range []struct {
		want string
		r    Response[string]
	}{
		{"00" + someHex + "76666b", Response[string]{true, someHash, row("vfk")}},
		{"00" + someHex, Response[string]{true, someHash, Side[string]{}}},
		{"8076666b", Response[string]{row: row("vfk")}},
		{"80", Response[string]{}},
		{"40" + someHex, Response[string]{true, someHash, row("")}}, // ours: Kafka Streams takes it for no row
	} {
		b, err := text.Encode(nil, c.r)
		if got := hex.EncodeToString(b); err != nil || got != c.want {
			t.Errorf("%+v: %s, not %s (%v)", c.r, got, c.want, err)
		}
		if r, err := text.Decode(b); err != nil || r != c.r {
			t.Errorf("%s: %+v, not %+v (%v)", c.want, r, c.r, err)
		}
	}
}

func TestDamagedSubscriptions(t *testing.T) {
	hashed := "\x01\x02" + strings.Repeat("h", 16)
	for in, want := range map[string]string{
		"":                  "too early",
		"\x81":              "too early",
		"\x82\x00k0000":     "version 2",
		"\x81\x04k0000":     "instruction 4",
		"\x01\x02short":     "hash ends too early",
		hashed + "\x00\x00": "partition ends too early",
	} {
		if _, err := Subscriptions().Decode([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", in, err, want)
		}
	}
	for in, want := range map[string]string{"": "no bytes", "\x01": "version 1", "\x00short": "hash ends", "\x80notjson": "serde"} {
		if _, err := Responses(serde.JSON[int]()).Decode([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", in, err, want)
		}
	}
	if _, err := Responses(serde.JSON[chan int]()).Encode(nil, Response[chan int]{row: Side[chan int]{Has: true}}); err == nil {
		t.Error("a row that cannot be encoded is no error")
	}
}

func TestSubscriptionSerdesHaveNames(t *testing.T) {
	if got := serde.Name(Subscriptions()) + ", " + serde.Name(SubscriptionKeys()) + ", " + serde.Name(Responses(serde.Int64())); got != "subscription, foreign key, key, response(int64)" {
		t.Error(got)
	}
}

// Whatever is decoded is encoded to the same bytes again.
func FuzzSubscription(f *testing.F) {
	f.Add([]byte("\x81\x01k\x00\x00\x00\x03"))
	f.Add([]byte("\x01\x02hhhhhhhhhhhhhhhhpk\x00\x00\x00\x00"))
	f.Add([]byte("\x80\x00k"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := Subscriptions().Decode(in)
		if err != nil {
			return
		}
		b, err := Subscriptions().Encode(nil, s)
		if err != nil || in[0]&^noHash == subscriptionVersion && !bytes.Equal(b, in) {
			t.Errorf("%x became %x, %v", in, b, err)
		}
	})
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte("\x80vfk"))
	f.Add([]byte("\x40hhhhhhhhhhhhhhhh"))
	text := Responses(serde.String())
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := text.Decode(in)
		if err != nil {
			return
		}
		b, err := text.Encode(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := text.Decode(b); err != nil || again != r {
			t.Errorf("%x became %+v, then %+v, %v", in, r, again, err)
		}
	})
}
