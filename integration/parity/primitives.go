package parity

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

// primitives are what Java's producers and built-in serializers make of keys and values.
type primitives struct {
	Partition []struct {
		Key         []byte           `json:"keyBytes"`
		PartitionOf map[string]int32 `json:"partitionOf"`
	} `json:"partition"`
	Serde []struct {
		Type  string `json:"type"`
		Value string `json:"value"`
		Bytes []byte `json:"bytes"`
	} `json:"serde"`
}

// runPrimitives checks each key with all partition counts, and each value with its serde: a case each.
func runPrimitives(vectors fs.FS) (total int, failures []Failure, err error) {
	var p primitives
	if err := read(vectors, "primitives", &p); err != nil {
		return 0, nil, err
	}
	byCount := make(map[string][]int32) // count to the partition of each key
	for i, v := range p.Partition {
		for count := range v.PartitionOf {
			if byCount[count] != nil {
				continue
			}
			n, err := strconv.Atoi(count)
			if err != nil {
				return 0, nil, fmt.Errorf("primitives: partition count %q: %w", count, err)
			}
			if byCount[count], err = partitions(n, len(p.Partition), func(k int) []byte { return p.Partition[k].Key }); err != nil {
				return 0, nil, err
			}
		}
		total++
		for count, want := range v.PartitionOf {
			if got := byCount[count][i]; got != want {
				failures = append(failures, Failure{fmt.Sprintf("key %x", v.Key), fmt.Sprintf("of %s partitions: %d, not %d", count, got, want)})
				break
			}
		}
	}
	for _, v := range p.Serde {
		total++
		if problem := checkSerde(v.Type, v.Value, v.Bytes); problem != "" {
			failures = append(failures, Failure{v.Type + " " + v.Value, problem})
		}
	}
	return total, failures, nil
}

// partitions are where a sink writes records with the given keys, in a topic of n partitions.
func partitions(n, keys int, key func(int) []byte) (out []int32, err error) {
	in, to := topology.NewTopic("in", serde.String(), serde.None()), topology.NewTopic("out", serde.String(), serde.None())
	b := topology.New()
	b.Stream(in).To(to)
	top, err := b.Build()
	if err != nil {
		return nil, err
	}
	err = drive(top, []topologytest.Option{topologytest.Topic("out", n)}, func(d *topologytest.Driver) {
		from := d.Input(in)
		for k := range keys {
			from.SendRecord(processor.Record[string, struct{}]{Key: string(key(k))})
		}
		for _, r := range d.Records("out") {
			out = append(out, r.Partition)
		}
	})
	if err == nil && len(out) != keys {
		err = fmt.Errorf("primitives: %d records of %d arrived", len(out), keys)
	}
	return out, err
}

func checkSerde(kind, value string, want []byte) string {
	switch kind {
	case "int64":
		v, err := strconv.ParseInt(value, 10, 64)
		return roundTrip(serde.Int64(), v, err, want)
	case "int32":
		v, err := strconv.ParseInt(value, 10, 32)
		return roundTrip(serde.Int32(), int32(v), err, want)
	case "int16":
		v, err := strconv.ParseInt(value, 10, 16)
		return roundTrip(serde.Int16(), int16(v), err, want)
	case "float64":
		v, err := strconv.ParseFloat(value, 64)
		return roundTrip(serde.Float64(), v, err, want)
	case "float32":
		v, err := strconv.ParseFloat(value, 32)
		return roundTrip(serde.Float32(), float32(v), err, want)
	case "bool":
		v, err := strconv.ParseBool(value)
		return roundTrip(serde.Bool(), v, err, want)
	case "string":
		return roundTrip(serde.String(), value, nil, want)
	case "uuid":
		var v [16]byte
		_, err := hex.Decode(v[:], []byte(strings.ReplaceAll(value, "-", "")))
		return roundTrip(serde.UUID(), v, err, want)
	}
	return "a type that the runner does not know"
}

func roundTrip[T comparable](s serde.Serde[T], v T, bad error, want []byte) string {
	if bad != nil {
		return fmt.Sprintf("the vector's value: %v", bad)
	}
	got, err := s.Encode(nil, v)
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Sprintf("%x (%v), not %x", got, err, want)
	}
	back, err := s.Decode(want)
	if err != nil || back != v {
		return fmt.Sprintf("%x is read as %v (%v)", want, back, err)
	}
	return ""
}
