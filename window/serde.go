package window

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/kolkstreams/kolk/internal/span"
	"github.com/kolkstreams/kolk/serde"
)

type (
	timeTail    = span.TimeTail
	sessionTail = span.SessionTail
)

// KeySerde writes keys of time windows as Kafka Streams does: the key's bytes, then the start. The end is not written; it is
// worked out from spec, so readers must name the same windows; grace and retention do not matter. Records are partitioned by the key alone. A
// key that its serde writes as null is null.
func KeySerde[K comparable](key serde.Serde[K], s Spec) serde.Serde[Key[K]] {
	if key == nil {
		return nil // told by Build, as for any topic without a serde
	}
	return timeKeys[K]{span.TimeTail{Windows: span.Of(s).Bare()}, key}
}

type timeKeys[K comparable] struct {
	timeTail
	key serde.Serde[K]
}

func (s timeKeys[K]) String() string {
	return fmt.Sprintf("windowed(%s,%s)", serde.Name(s.key), s.Windows.Shape())
}

func (s timeKeys[K]) Encode(dst []byte, k Key[K]) ([]byte, error) {
	longer, err := encodeKey(s.key, dst, k.Key)
	if longer == nil || err != nil {
		return longer, err
	}
	return binary.BigEndian.AppendUint64(longer, uint64(k.start)), nil
}

func (s timeKeys[K]) Decode(src []byte) (k Key[K], err error) {
	n := len(src) - 8
	if n < 0 {
		return k, fmt.Errorf("window: a windowed key of %d bytes, at least 8 are needed for the start", len(src))
	}
	if k.Key, err = decodeKey(s.key, src[:n]); err != nil {
		return k, err
	}
	if k.start = int64(binary.BigEndian.Uint64(src[n:])); k.start < 0 {
		return k, fmt.Errorf("window: a windowed key that starts at %d ms, before 1970: it was written with another serde", k.start)
	}
	k.end = s.Windows.End(k.start)
	return k, nil
}

// Bind binds the key's serde, if it wants that.
func (s timeKeys[K]) Bind(ctx context.Context, at serde.Target) (serde.Serde[Key[K]], error) {
	key, err := serde.Bind(ctx, s.key, at)
	if err != nil {
		return nil, err
	}
	s.key = key
	return s, nil
}

// SessionKeySerde writes keys of sessions as Kafka Streams does: the key's bytes, the end, the start. Records are partitioned by the key
// alone. A key that its serde writes as null is null.
func SessionKeySerde[K comparable](key serde.Serde[K]) serde.Serde[Key[K]] {
	if key == nil {
		return nil
	}
	return sessionKeys[K]{span.SessionTail{}, key}
}

type sessionKeys[K comparable] struct {
	sessionTail
	key serde.Serde[K]
}

func (s sessionKeys[K]) String() string { return fmt.Sprintf("session(%s)", serde.Name(s.key)) }

func (s sessionKeys[K]) Encode(dst []byte, k Key[K]) ([]byte, error) {
	longer, err := encodeKey(s.key, dst, k.Key)
	if longer == nil || err != nil {
		return longer, err
	}
	longer = binary.BigEndian.AppendUint64(longer, uint64(k.end))
	return binary.BigEndian.AppendUint64(longer, uint64(k.start)), nil
}

func (s sessionKeys[K]) Decode(src []byte) (k Key[K], err error) {
	n := len(src) - 16
	if n < 0 {
		return k, fmt.Errorf("window: a session's key of %d bytes, at least 16 are needed for end and start", len(src))
	}
	if k.Key, err = decodeKey(s.key, src[:n]); err != nil {
		return k, err
	}
	k.end = int64(binary.BigEndian.Uint64(src[n:]))
	k.start = int64(binary.BigEndian.Uint64(src[n+8:]))
	return k, nil
}

// Bind binds the key's serde, if it wants that.
func (s sessionKeys[K]) Bind(ctx context.Context, at serde.Target) (serde.Serde[Key[K]], error) {
	key, err := serde.Bind(ctx, s.key, at)
	if err != nil {
		return nil, err
	}
	s.key = key
	return s, nil
}

func encodeKey[K comparable](s serde.Serde[K], dst []byte, key K) ([]byte, error) {
	longer, err := s.Encode(dst, key)
	if err != nil {
		return dst, fmt.Errorf("window: the key in a window: %w", err)
	}
	return longer, nil
}

func decodeKey[K comparable](s serde.Serde[K], src []byte) (K, error) {
	key, err := s.Decode(src)
	if err != nil {
		return key, fmt.Errorf("window: the key in a window: %w", err)
	}
	return key, nil
}
