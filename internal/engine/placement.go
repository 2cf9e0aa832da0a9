package engine

import (
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"strconv"
)

// How many of an input's keys are checked: the first ones, then one in so many. The number is a prime, so that it does not go along with a
// period in the data.
const (
	placedFirst = 500
	placedEvery = 97
	placedSure  = 8 // keys that lie elsewhere, before anything is concluded from where
)

// Placement is what a sample of an input's keys says of where they lie. A key that lies in another partition than its topic's partitioner gives
// it meets neither the rows nor the records of its own kind that lie right.
type Placement struct {
	Topic string // its full name
	// Own says that the topic is declared to be partitioned in a way of its own.
	Own bool
	// Sampled keys were looked at, and of these Elsewhere lay where they should not. Records that are processed again count again.
	Sampled, Elsewhere int64
	// Example is the first key that lay elsewhere.
	Example Misplaced

	left       int // records to go by before the next look
	crc32, fnv int64
}

// Misplaced is a record whose key belongs to another partition.
type Misplaced struct {
	Partition, Wanted int32
	Offset            int64
	Key               string // to be read by people
}

// Due says whether the next key is to be looked at. It is called for every record that has a key.
func (p *Placement) Due() bool {
	if p.left > 0 {
		p.left--
		return false
	}
	return true
}

// Saw takes a look at a record: hashed is the part of its key that hashes go by, lies where it was found and wanted where its key belongs. key
// makes the key readable; it is called for the first one that lies elsewhere.
func (p *Placement) Saw(hashed []byte, partitions, lies, wanted int32, offset int64, key func() string) {
	if p.Sampled++; p.Sampled >= placedFirst {
		p.left = placedEvery - 1
	}
	if lies == wanted {
		return
	}
	if p.Elsewhere++; p.Elsewhere == 1 {
		p.Example = Misplaced{Partition: lies, Wanted: wanted, Offset: offset, Key: key()}
	}
	if int32(crc32.ChecksumIEEE(hashed)%uint32(partitions)) == lies {
		p.crc32++
	}
	h := fnv.New32a()
	h.Write(hashed)
	if at := int32(h.Sum32()) % partitions; at == lies || -at == lies {
		p.fnv++
	}
}

// Stop ends the looking, for a partitioner that cannot be asked.
func (p *Placement) Stop() { p.left = int(^uint(0) >> 1) }

// Problem says what was found, in words.
func (p *Placement) Problem() string {
	e := p.Example
	return fmt.Sprintf("of %d sampled keys %d lie in another partition than they belong to; for example key %s lies at %s/%d@%d and belongs to partition %d",
		p.Sampled, p.Elsewhere, e.Key, p.Topic, e.Partition, e.Offset, e.Wanted)
}

// Remedy is what to do about it.
func (p *Placement) Remedy() string {
	const cure = `, or put Repartition("name") behind the stream; a table becomes one by Stream, Repartition and ToTable`
	sure := p.Elsewhere >= placedSure
	switch {
	case p.Own:
		return "its producers do not partition as the topic's PartitionedBy says: correct one of them" + cure
	case sure && p.crc32 == p.Elsewhere:
		return "they lie where clients on librdkafka put them unless told otherwise: set partitioner=murmur2_random in the producer" + cure
	case sure && p.fnv == p.Elsewhere:
		return "they lie where sarama and goka put them unless told otherwise: set a murmur2 partitioner in the producer" + cure
	}
	return "let its producers hash keys as Java's do (murmur2; partitioner=murmur2_random in clients on librdkafka), declare how it is partitioned with PartitionedBy" + cure
}

// Add joins what two tasks saw of one topic.
func (p Placement) Add(o Placement) Placement {
	if p.Elsewhere == 0 {
		p.Example = o.Example
	}
	p.Sampled, p.Elsewhere, p.crc32, p.fnv = p.Sampled+o.Sampled, p.Elsewhere+o.Elsewhere, p.crc32+o.crc32, p.fnv+o.fnv
	return p
}

// Placement is what is known of where an input's keys lie; nil if it is not checked.
func (t *Task) Placement(input int) *Placement { return t.placements[input] }

// Placements are those of all inputs that are checked.
func (t *Task) Placements() (out []Placement) {
	for _, p := range t.placements {
		if p != nil {
			out = append(out, *p)
		}
	}
	return out
}

// Readable is a key as text, not too long: strings are quoted.
func Readable[K comparable](k K) string {
	const longest = 100
	var text string
	if s, ok := any(k).(string); ok {
		text = strconv.Quote(s[:min(len(s), longest)])
	} else {
		text = fmt.Sprintf("%v", k)
	}
	if len(text) > longest+2 {
		text = text[:longest] + "…"
	}
	return text
}
