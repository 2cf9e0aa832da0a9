package engine

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/kolkstreams/kolk/internal/state"
)

// Print is the text of what must not change under a store's existing state. Its fields are what Hash packs and Differ names. Bounds are left
// out: another TTL or expected size reads the same bytes. The declared version is left out too: it is in the store's name.
func Print(d *state.Decl) string {
	return fmt.Sprintf("kind=%s key=%s value=%s", d.Kind, d.Key, d.Value)
}

// fields are the names in a Print, in the order in which Hash packs them: 16 bits each, from the top.
var fields = []string{"kind", "key", "value"}

// Hash is a Print in the upper 48 of 64 bits: 16 for each field, so that a difference can be named without the text. The rest is for LogHash.
func Hash(print string) uint64 {
	var out uint64
	for i, name := range fields {
		h := fnv.New32a()
		h.Write([]byte(field(print, name)))
		sum := h.Sum32()
		out |= uint64(uint16(sum^sum>>16)) << (48 - 16*i)
	}
	return out
}

func field(print, name string) string {
	for part := range strings.SplitSeq(print, " ") {
		if value, ok := strings.CutPrefix(part, name+"="); ok {
			return value
		}
	}
	return ""
}

// LogHash is the lower 16 bits beside a Hash: they tell a changelog from one of the same name that was made anew. It is never 0.
func LogHash(topicID [16]byte) uint64 {
	h := fnv.New32a()
	h.Write(topicID[:])
	sum := h.Sum32()
	return uint64(uint16(sum^sum>>16)) | 1
}

// SameLog says whether a hash was made beside the changelog of this id. A hash without LogHash fits every one.
func SameLog(hash uint64, topicID [16]byte) bool {
	return uint16(hash) == 0 || uint16(hash) == uint16(LogHash(topicID))
}

// Differ names the fields in which two hashes differ, with their values where the texts are known; empty if they are equal. was may be the
// empty text.
func Differ(was string, wasHash uint64, is string) string {
	isHash := Hash(is)
	var out []string
	for i, name := range fields {
		shift := 48 - 16*i
		if uint16(wasHash>>shift) == uint16(isHash>>shift) {
			continue
		}
		old := "something else"
		if v := field(was, name); v != "" {
			old = v
		}
		out = append(out, fmt.Sprintf("%s was %s and is %s", name, old, field(is, name)))
	}
	return strings.Join(out, ", ")
}
