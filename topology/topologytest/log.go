package topologytest

import (
	"bytes"
	"slices"

	"github.com/kolkstreams/kolk/internal/engine"
)

// entry is a record in a topic or changelog.
type entry struct {
	engine.Record
	partition int32
	input     int  // which record of the test led to it; -1 for none
	sent      bool // by the test
	aborted   bool
}

// log is a topic: its partitions, and all its records in the order of their writing.
type log struct {
	parts [][]*entry
	all   []*entry
}

func newLog(partitions int32) *log { return &log{parts: make([][]*entry, partitions)} }

// append adds a copy of a record to a partition, one of the log's choice if it is negative.
func (l *log) append(partition int32, key, value []byte, at int64, headers []engine.Header, input int) *entry {
	if partition < 0 {
		partition = int32(len(l.all) % len(l.parts))
	}
	e := &entry{partition: partition, input: input}
	e.Key, e.Value, e.Time, e.Offset = bytes.Clone(key), bytes.Clone(value), at, int64(len(l.parts[partition]))
	for _, h := range headers {
		e.Headers = append(e.Headers, engine.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	l.parts[partition] = append(l.parts[partition], e)
	l.all = append(l.all, e)
	return e
}

// from are the records of a partition from an offset up to, not including, another one, without aborted ones.
func (l *log) from(partition int32, next, end int64) (out []engine.Record) {
	for _, e := range l.parts[partition][next:end] {
		if !e.aborted {
			out = append(out, e.Record)
		}
	}
	return out
}

// end is the offset behind the last record of a partition.
func (l *log) end(partition int32) int64 { return int64(len(l.parts[partition])) }

// compacted are the records that a broker has when it has compacted as much as it may: the last one of each key, and no deletes.
func compacted(recs []engine.Record) []engine.Record {
	last := make(map[string]int)
	for i, r := range recs {
		last[string(r.Key)] = i
	}
	kept := slices.Clone(recs)
	n := 0
	for i, r := range recs {
		if last[string(r.Key)] == i && r.Value != nil {
			kept[n] = r
			n++
		}
	}
	return kept[:n]
}
