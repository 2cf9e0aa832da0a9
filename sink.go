package kolk

import (
	"context"
	"fmt"
	"time"

	"github.com/kolkstreams/kolk/exactlyonce"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sink takes the records of a worker's tasks to its producer. The client keeps a record until it is acknowledged, so keys and values are
// copied into chunks that are let go of as a whole, and records come from slabs.
type sink struct {
	ctx    context.Context
	driver *exactlyonce.Driver
	topics *topics
	chunk  []byte
	slab   []kgo.Record
	turn   int32 // spreads records without a key
	// tooLarge holds, by topic, the size from which on the broker has refused records.
	tooLarge map[string]int
}

const (
	chunkSize = 64 << 10
	slabSize  = 256
)

// Emit implements engine.Sink.
func (s *sink) Emit(topic string, partition int32, key, value []byte, at int64, headers []engine.Header) error {
	if limit, ok := s.tooLarge[topic]; ok && size(key, value, headers) >= limit {
		return fmt.Errorf("the broker refuses records of %d bytes to topic %s: raise its max.message.bytes, or make the record smaller", limit, topic)
	}
	if partition < 0 {
		n, err := s.topics.lookUp(topic)
		if err != nil {
			return fmt.Errorf("topic %s: %w", topic, err)
		}
		if n <= 0 {
			return fmt.Errorf("topic %s does not exist; create it", topic)
		}
		partition = s.turn % n
	}
	s.driver.Produce(s.ctx, s.record(topic, partition, key, value, at, headers))
	return nil
}

func size(key, value []byte, headers []engine.Header) int {
	n := len(key) + len(value)
	for _, h := range headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

func (s *sink) record(topic string, partition int32, key, value []byte, at int64, headers []engine.Header) *kgo.Record {
	if len(s.slab) == 0 {
		s.slab = make([]kgo.Record, slabSize)
		s.turn = (s.turn + 1) & 0x7fffffff
	}
	r := &s.slab[0]
	s.slab = s.slab[1:]
	r.Topic, r.Partition, r.Key, r.Value = topic, partition, s.keep(key), s.keep(value)
	if at != state.NoTime { // else it gets that of its sending
		r.Timestamp = time.UnixMilli(at)
	}
	if len(headers) > 0 {
		r.Headers = make([]kgo.RecordHeader, len(headers))
		for i, h := range headers {
			r.Headers[i] = kgo.RecordHeader{Key: h.Key, Value: s.keep(h.Value)}
		}
	}
	return r
}

// keep copies b; nil stays nil, which is null.
func (s *sink) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	if cap(s.chunk)-len(s.chunk) < len(b) {
		s.chunk = make([]byte, 0, max(chunkSize, len(b)))
	}
	at := len(s.chunk)
	s.chunk = append(s.chunk, b...)
	return s.chunk[at:len(s.chunk):len(s.chunk)]
}
