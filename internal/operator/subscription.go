package operator

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/kolkstreams/kolk/serde"
)

// A row of the left table of a foreign-key join subscribes to the row of the right table that it names. The bytes here are those of Kafka
// Streams.

// instruction is what the right side is to do with a subscription.
type instruction byte

const (
	forget         instruction = iota // it ends, and nothing is answered
	forgetAndTell                     // it ends, and a null is answered
	answer                            // it is kept, and the row or null is answered
	answerIfExists                    // it is kept, and the row is answered if there is one
)

const (
	subscriptionVersion = 1
	noHash              = 0x80 // bit of a version: no hash follows
	hashSize            = len(hash128{})
)

// Subscription is the value of a record on the registration topic, and of a row of the subscription store.
type Subscription struct {
	do        instruction
	hasHash   bool
	hash      hash128 // of the left row's value
	key       []byte  // of the left row
	partition int32   // of the left row; -1 if an old version of Kafka Streams did not write it
}

// Subscriptions is the serde of subscriptions. What it decodes keeps no bytes of its source.
func Subscriptions() serde.Serde[Subscription] { return subscriptions{} }

type subscriptions struct{}

func (subscriptions) String() string { return "subscription" }

func (subscriptions) Encode(dst []byte, s Subscription) ([]byte, error) { return s.append(dst), nil }

func (s Subscription) append(dst []byte) []byte {
	version := byte(subscriptionVersion)
	if !s.hasHash {
		version |= noHash
	}
	dst = append(dst, version, byte(s.do))
	if s.hasHash {
		dst = append(dst, s.hash[:]...)
	}
	dst = append(dst, s.key...)
	return binary.BigEndian.AppendUint32(dst, uint32(s.partition))
}

func (subscriptions) Decode(src []byte) (Subscription, error) {
	s, err := splitSubscription(src)
	s.key = bytes.Clone(s.key)
	return s, err
}

// splitSubscription is Decode without the copy.
func splitSubscription(src []byte) (s Subscription, err error) {
	wrong := func(what string) (Subscription, error) {
		return Subscription{}, fmt.Errorf("a subscription of %d bytes: %s", len(src), what)
	}
	if len(src) < 2 {
		return wrong("it ends too early")
	}
	version := src[0] &^ noHash
	if version > subscriptionVersion {
		return wrong(fmt.Sprintf("version %d is not known", version))
	}
	if s.do = instruction(src[1]); s.do > answerIfExists {
		return wrong(fmt.Sprintf("instruction %d is not known", s.do))
	}
	rest := src[2:]
	if s.hasHash = src[0]&noHash == 0; s.hasHash {
		if len(rest) < hashSize {
			return wrong("its hash ends too early")
		}
		rest = rest[copy(s.hash[:], rest):]
	}
	s.partition = -1
	if version > 0 {
		n := len(rest) - 4
		if n < 0 {
			return wrong("its partition ends too early")
		}
		s.partition = int32(binary.BigEndian.Uint32(rest[n:]))
		rest = rest[:n]
	}
	s.key = rest
	return s, nil
}

// SubscriptionKeys is the serde of the keys of a subscription store, which are bytes already: those of the foreign key with their length
// before them, then those of the left row's key.
func SubscriptionKeys() serde.Serde[string] { return subscriptionKeys{} }

type subscriptionKeys struct{}

func (subscriptionKeys) String() string { return "foreign key, key" }

func (subscriptionKeys) Encode(dst []byte, key string) ([]byte, error) {
	return append(dst, key...), nil
}
func (subscriptionKeys) Decode(src []byte) (string, error) { return string(src), nil }

// appendPrefix begins the key of a subscription: all of one foreign key begin so, and no others.
func appendPrefix(dst, foreign []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(foreign))), foreign...)
}

const (
	responseVersion = 0
	// emptyValue is a bit of a response's version that is ours: the row is there, and its bytes are none. Kafka Streams, which has no such
	// bit, cannot tell it from a row that is missing.
	emptyValue = 0x40
)

// Response is the value of a record on the response topic: the row of the right table, or that there is none.
type Response[V any] struct {
	hasHash bool
	hash    hash128 // of the left row that subscribed
	row     Side[V]
}

// appendResponse writes a response. A nil row is none.
func appendResponse(dst []byte, s Subscription, row []byte) []byte {
	version := byte(responseVersion)
	if !s.hasHash {
		version |= noHash
	}
	if row != nil && len(row) == 0 {
		version |= emptyValue
	}
	dst = append(dst, version)
	if s.hasHash {
		dst = append(dst, s.hash[:]...)
	}
	return append(dst, row...)
}

// Responses is the serde of responses. They are written as bytes, so only Decode is of use.
func Responses[V any](value serde.Serde[V]) serde.Serde[Response[V]] { return &responses[V]{value} }

type responses[V any] struct{ value serde.Serde[V] }

func (s *responses[V]) String() string { return "response(" + serde.Name(s.value) + ")" }

func (s *responses[V]) Encode(dst []byte, r Response[V]) (_ []byte, err error) {
	var row []byte
	if r.row.Has {
		if row, err = s.value.Encode(nil, r.row.Value); err != nil {
			return dst, err
		}
	}
	return appendResponse(dst, Subscription{hasHash: r.hasHash, hash: r.hash}, row), nil
}

func (s *responses[V]) Decode(src []byte) (r Response[V], err error) {
	if len(src) == 0 {
		return r, fmt.Errorf("a response of no bytes")
	}
	if version := src[0] &^ (noHash | emptyValue); version != responseVersion {
		return r, fmt.Errorf("a response of the unknown version %d", version)
	}
	rest := src[1:]
	if r.hasHash = src[0]&noHash == 0; r.hasHash {
		if len(rest) < hashSize {
			return r, fmt.Errorf("a response of %d bytes: its hash ends too early", len(src))
		}
		rest = rest[copy(r.hash[:], rest):]
	}
	if len(rest) == 0 && src[0]&emptyValue == 0 {
		return r, nil
	}
	r.row.Has = true
	r.row.Value, err = s.value.Decode(rest)
	return r, err
}
