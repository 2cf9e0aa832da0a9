package engine_test

import (
	"encoding/base64"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/internal/engine"
)

func TestMetaOfKafkaStreams(t *testing.T) {
	encode := func(b string) string { return base64.StdEncoding.EncodeToString([]byte(b)) }
	for _, c := range []struct {
		name, text string
		want       engine.Meta
	}{
		{"no map", "AgAAAAAAAAAA", engine.Meta{Foreign: true}},
		{"version 1", encode("\x01\x00\x00\x00\x00\x00\x00\x00\x2a"), engine.Meta{PartitionTime: 42, Foreign: true}},
		{"no time yet", encode("\x02\xff\xff\xff\xff\xff\xff\xff\xff"), engine.Meta{PartitionTime: -1, Foreign: true}},
		{"map", encode("\x02\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x02" + "\x00\x00\x00\x01s\x00\x00\x00\x00\x00\x00\x00\x05" + "\x00\x00\x00\x02tt\x00\x00\x00\x00\x00\x00\x00\x06"),
			engine.Meta{PartitionTime: 7, Clocks: map[string]int64{"s": 5, "tt": 6}, Foreign: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := engine.DecodeMeta(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestMetaThatIsNone(t *testing.T) {
	good, err := base64.StdEncoding.DecodeString(engine.Meta{PartitionTime: 3, Clocks: map[string]int64{"a": 1}, Hashes: map[string]uint64{"b": 2}, TransactionalID: "id"}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"empty": "", "not base64": "kolk!", "short": "AgAA", "other version": "AwAAAAAAAAAA",
		"longer":                       base64.StdEncoding.EncodeToString(append(good[:len(good):len(good)], 0)),
		"map of Kafka Streams cut off": base64.StdEncoding.EncodeToString([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x07\xff\xff\xff\xff\x00\x00\x00\x01s")),
		"endless count":                base64.StdEncoding.EncodeToString(append(good[:9:9], 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f))}
	for n := range len(good) {
		texts["cut off"+strings.Repeat(".", n)] = base64.StdEncoding.EncodeToString(good[:n])
	}
	for name, text := range texts {
		if m, err := engine.DecodeMeta(text); !errors.Is(err, engine.ErrMeta) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

func TestMetaRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := engine.Meta{
			PartitionTime:   rapid.Int64().Draw(t, "time"),
			Clocks:          rapid.MapOf(rapid.String(), rapid.Int64()).Draw(t, "clocks"),
			Hashes:          rapid.MapOf(rapid.String(), rapid.Uint64()).Draw(t, "hashes"),
			TransactionalID: rapid.String().Draw(t, "id"),
			Inputs:          rapid.SliceOf(rapid.Uint32()).Draw(t, "inputs"),
		}
		got, err := engine.DecodeMeta(m.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, got, cmpopts.EquateEmpty()); d != "" {
			t.Error(d)
		}
		if m.Encode() != got.Encode() {
			t.Error("the text is not the same")
		}
	})
}

// What a task of usual size has to say fits the brokers' limit.
func TestMetaFits(t *testing.T) {
	m := engine.Meta{PartitionTime: math.MaxInt64, Clocks: map[string]int64{}, Hashes: map[string]uint64{}, TransactionalID: strings.Repeat("x", 100)}
	for i := range 40 {
		name := strings.Repeat(string(rune('a'+i%26)), 20) + string(rune('0'+i/26))
		m.Clocks[name], m.Hashes[name] = math.MaxInt64, math.MaxUint64
	}
	if n := len(m.Encode()); n > engine.MaxMeta {
		t.Errorf("%d bytes for 40 stores", n)
	}
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add("AgAAAAAAAAAA")
	f.Add(engine.Meta{PartitionTime: 3, Clocks: map[string]int64{"a": 1}, Hashes: map[string]uint64{"b": 2}, TransactionalID: "id"}.Encode())
	f.Fuzz(func(t *testing.T, text string) {
		m, err := engine.DecodeMeta(text)
		if err != nil || m.Foreign {
			return
		}
		again, err := engine.DecodeMeta(m.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, again); d != "" {
			t.Error(d)
		}
	})
}
