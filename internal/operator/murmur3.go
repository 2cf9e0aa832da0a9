package operator

import (
	"encoding/binary"
	"math/bits"
)

// hash128 is a hash of a row of the left table of a foreign-key join.
type hash128 [16]byte

// murmur3 is the 128-bit hash of that name for 64-bit machines, by Austin Appleby, with the seed and the order of bytes that Kafka Streams uses.
func murmur3(data []byte) (out hash128) {
	const (
		seed = 104729
		c1   = 0x87c37b91114253d5
		c2   = 0x4cf5ad432745937f
	)
	h1, h2, size := uint64(seed), uint64(seed), uint64(len(data))
	for ; len(data) >= 16; data = data[16:] {
		k1, k2 := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:])
		h1 ^= bits.RotateLeft64(k1*c1, 31) * c2
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= bits.RotateLeft64(k2*c2, 33) * c1
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	if len(data) > 0 {
		var tail [16]byte // zeros change nothing
		copy(tail[:], data)
		k1, k2 := binary.LittleEndian.Uint64(tail[:]), binary.LittleEndian.Uint64(tail[8:])
		h2 ^= bits.RotateLeft64(k2*c2, 33) * c1
		h1 ^= bits.RotateLeft64(k1*c1, 31) * c2
	}
	h1 ^= size
	h2 ^= size
	h1 += h2
	h2 += h1
	h1, h2 = scramble(h1), scramble(h2)
	h1 += h2
	h2 += h1
	binary.BigEndian.PutUint64(out[:], h1)
	binary.BigEndian.PutUint64(out[8:], h2)
	return out
}

func scramble(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
