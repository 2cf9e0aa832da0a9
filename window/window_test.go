package window_test

import (
	"context"
	"encoding/hex"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/window"
)

func ms(n int64) time.Time { return time.UnixMilli(n) }

func TestKeys(t *testing.T) {
	k := window.Of("k", ms(1), ms(2))
	if k != window.Of("k", ms(1).UTC().Add(time.Microsecond), ms(2)) {
		t.Error("keys of the same window differ")
	}
	if k.Start() != ms(1).UTC() || k.End() != ms(2).UTC() {
		t.Errorf("from %v to %v", k.Start(), k.End())
	}
	if k.String() != "k [1970-01-01T00:00:00.001Z, 1970-01-01T00:00:00.002Z]" {
		t.Error(k)
	}
	if end := window.Of("k", ms(1), ms(math.MaxInt64)).End().UnixMilli(); end != math.MaxInt64 {
		t.Errorf("an end at the end of time is %d", end)
	}
}

// F15, F16: the bytes are those of Kafka Streams.
func TestSerdes(t *testing.T) {
	spec := window.Tumbling(10 * time.Millisecond)
	for _, c := range []struct {
		s    serde.Serde[window.Key[string]]
		key  window.Key[string]
		want string
		name string
	}{
		{window.KeySerde(serde.String(), spec), window.Of("k", ms(1), ms(11)), "6b0000000000000001", "windowed(string,tumbling(10ms))"},
		{window.KeySerde(serde.String(), spec), window.Of("", ms(256), ms(266)), "0000000000000100", "windowed(string,tumbling(10ms))"},
		{window.KeySerde(serde.String(), window.Sliding(10*time.Millisecond)), window.Of("k", ms(1), ms(11)), "6b0000000000000001", "windowed(string,sliding(10ms))"},
		{window.KeySerde(serde.String(), spec), window.Of("k", ms(math.MaxInt64-1), ms(math.MaxInt64)), "6b7ffffffffffffffe", "windowed(string,tumbling(10ms))"},
		{window.KeySerde(serde.String(), window.Daily(time.UTC)), window.Of("k", ms(0), ms(86400000)), "6b0000000000000000", "windowed(string,daily(UTC))"},
		{window.SessionKeySerde(serde.String()), window.Of("k", ms(1), ms(2)), "6b00000000000000020000000000000001", "session(string)"},
	} {
		got, err := c.s.Encode([]byte{0xff}, c.key)
		if err != nil || hex.EncodeToString(got) != "ff"+c.want {
			t.Errorf("%s of %v: %x, %v, want ff%s", c.name, c.key, got, err, c.want)
			continue
		}
		back, err := c.s.Decode(got[1:])
		if err != nil || back != c.key {
			t.Errorf("%s of %x: %v, %v, want %v", c.name, got[1:], back, err, c.key)
		}
		if serde.Name(c.s) != c.name {
			t.Errorf("%s, want %s", serde.Name(c.s), c.name)
		}
	}
}

func TestSerdeErrors(t *testing.T) {
	spec := window.Tumbling(time.Second)
	for _, s := range []serde.Serde[window.Key[int64]]{window.KeySerde(serde.Int64(), spec), window.SessionKeySerde(serde.Int64())} {
		for _, src := range []string{"", "1234567", "12345678901234567"} {
			if _, err := s.Decode([]byte(src)); err == nil {
				t.Errorf("%s reads %d bytes", serde.Name(s), len(src))
			}
		}
	}
	for _, spec := range []window.Spec{spec, window.Daily(time.UTC)} { // no calendar goes back so far
		if k, err := window.KeySerde(serde.String(), spec).Decode([]byte("key\xff\xff\xff\xff\xff\xff\xff\xff")); err == nil {
			t.Errorf("%s reads %s", spec, k)
		}
	}
	broken := errors.New("broken")
	bad := serde.Func(func(dst []byte, _ string) ([]byte, error) { return dst, broken }, func([]byte) (string, error) { return "", broken })
	for _, s := range []serde.Serde[window.Key[string]]{window.KeySerde(bad, spec), window.SessionKeySerde(bad)} {
		if _, err := s.Encode(nil, window.Of("k", ms(0), ms(1))); !errors.Is(err, broken) {
			t.Error(err)
		}
		if _, err := s.Decode(make([]byte, 16)); !errors.Is(err, broken) {
			t.Error(err)
		}
	}
	for _, s := range []serde.Serde[window.Key[struct{}]]{window.KeySerde(serde.None(), spec), window.SessionKeySerde(serde.None())} {
		if b, err := s.Encode(nil, window.Of(struct{}{}, ms(0), ms(1))); b != nil || err != nil {
			t.Errorf("a null key becomes %x, %v", b, err)
		}
	}
	if window.KeySerde[string](nil, spec) != nil || window.SessionKeySerde[string](nil) != nil {
		t.Error("there is a serde of windowed keys without one of keys")
	}
}

func TestSameSerdes(t *testing.T) {
	load := func() *time.Location {
		loc, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		return loc
	}
	a := window.KeySerde(serde.String(), window.Daily(load()).Grace(time.Hour))
	if !serde.Same(a, window.KeySerde(serde.String(), window.Daily(load()).Retain(time.Hour*100))) {
		t.Error("serdes of the same windows differ")
	}
	if serde.Same(a, window.KeySerde(serde.String(), window.Daily(time.UTC))) {
		t.Error("days of two zones are the same")
	}
	if !serde.Same(window.SessionKeySerde(serde.String()), window.SessionKeySerde(serde.String())) {
		t.Error("serdes of sessions differ")
	}
}

// bindable is a serde that must know its topic.
type bindable struct {
	serde.Serde[string]
	err error
}

func (b bindable) Bind(_ context.Context, at serde.Target) (serde.Serde[string], error) {
	return serde.Func(func(dst []byte, v string) ([]byte, error) { return append(dst, at.Topic...), nil }, nil), b.err
}

func TestBind(t *testing.T) {
	refused := errors.New("refused")
	for _, make := range []func(serde.Serde[string]) serde.Serde[window.Key[string]]{
		func(s serde.Serde[string]) serde.Serde[window.Key[string]] {
			return window.KeySerde(s, window.Tumbling(time.Second))
		},
		window.SessionKeySerde[string],
	} {
		bind := func(s serde.Serde[string]) (serde.Serde[window.Key[string]], error) {
			return make(s).(serde.Binder[window.Key[string]]).Bind(t.Context(), serde.Target{Topic: "t", Key: true})
		}
		if s, err := bind(bindable{Serde: serde.String()}); err != nil {
			t.Error(err)
		} else if b, err := s.Encode(nil, window.Of("k", ms(0), ms(1))); err != nil || b[0] != 't' {
			t.Errorf("%q, %v", b, err)
		}
		if _, err := bind(bindable{err: refused}); !errors.Is(err, refused) {
			t.Error(err)
		}
		if s, err := bind(serde.String()); err != nil || !serde.Same(s, make(serde.String())) {
			t.Errorf("%v, %v", s, err)
		}
	}
}

// What the engine reads is what was declared.
func TestHooks(t *testing.T) {
	if w := span.Of(window.Hopping(time.Hour, time.Minute).Grace(time.Second).Retain(2 * time.Hour)); w.Size() != 3_600_000 || w.Grace() != 1000 || w.Retention() != 7_200_000 || w.Kind() != span.Aligned {
		t.Error(w)
	}
	if s := span.OfSessions(window.Sessions(time.Minute).Grace(time.Second).MaxLength(time.Hour).Retain(time.Hour)); s.Gap() != 60_000 || s.Grace() != 1000 || s.Retention() != 3_600_000 {
		t.Error(s)
	} else if limit, ok := s.Limit(); limit != 3_600_000 || !ok {
		t.Errorf("at most %d, %v", limit, ok)
	}
	if j := span.OfJoin(window.Following(time.Minute).Before(time.Second).Grace(time.Hour)); j.Before() != 1000 || j.After() != 60_000 || j.Grace() != 3_600_000 {
		t.Error(j)
	}
	if j := span.OfJoin(window.Within(time.Minute).After(-time.Second)); j.Before() != 60_000 || j.After() != -1000 {
		t.Error(j)
	}
	berlin := time.FixedZone("CET", 3600)
	for want, s := range map[string]window.Spec{
		"weekly(CET+01:00,Monday)": window.Weekly(berlin, time.Monday), "monthly(CET+01:00)": window.Monthly(berlin), "quarterly(CET+01:00)": window.Quarterly(berlin), "yearly(CET+01:00)": window.Yearly(berlin),
	} {
		if s.String() != want || len(span.Of(s).Faults()) > 0 {
			t.Errorf("%v, want %s; %v", s, want, span.Of(s).Faults())
		}
	}
	for want, n := range map[int]int{
		8:  span.TailOf(window.KeySerde(serde.String(), window.Tumbling(time.Second))),
		16: span.TailOf(window.SessionKeySerde(serde.String())),
		0:  span.TailOf(serde.String()),
	} {
		if n != want {
			t.Errorf("a window of %d bytes, want %d", n, want)
		}
	}
	if f := span.KeyFaults(window.KeySerde(serde.String(), window.Daily(nil))); len(f) != 1 {
		t.Error(f)
	}
	if span.KeyFaults(window.SessionKeySerde(serde.String())) != nil || span.KeyFaults(serde.String()) != nil {
		t.Error("faults of serdes that have none")
	}
}
