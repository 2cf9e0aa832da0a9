package rebalance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// User data starts with two bytes: the version it was written in, and the
// oldest version whose reader still understands it. A later version that only
// appends fields leaves the second byte alone; readers ignore what follows the
// fields they know.
const wireVersion = 1

var (
	errNewer = errors.New("written in a version too new for this build")
	errShort = errors.New("cut short or corrupt")
)

// joinData is what a member tells the leader.
type joinData struct {
	process string
	host    string
	rack    string
	workers int
	// ask is raised to make the bytes differ when nothing else does, so
	// that the broker takes a rejoin for a change.
	ask    uint64
	subs   []SubTopology
	local  map[Task]int64
	digest uint64
}

// appendStable writes all that changes only with the configuration.
func (d *joinData) appendStable(b []byte) []byte {
	b = appendString(b, d.process)
	b = appendString(b, d.host)
	b = appendString(b, d.rack)
	b = binary.AppendUvarint(b, uint64(d.workers))
	b = binary.AppendUvarint(b, uint64(len(d.subs)))
	for _, s := range d.subs {
		b = binary.AppendUvarint(b, uint64(s.ID))
		b = binary.BigEndian.AppendUint64(b, s.Fingerprint)
		var flags byte
		if s.Stateful {
			flags = 1
		}
		b = append(b, flags)
		b = appendStrings(b, s.Topics)
	}
	return b
}

func (d *joinData) append(b []byte) []byte {
	b = append(b, wireVersion, wireVersion)
	b = d.appendStable(b)
	b = binary.AppendUvarint(b, d.ask)
	b = binary.AppendUvarint(b, uint64(len(d.local)))
	for _, t := range sortedTasks(d.local) {
		b = binary.AppendUvarint(b, uint64(t.Sub))
		b = binary.AppendUvarint(b, uint64(t.Partition))
		b = binary.AppendUvarint(b, uint64(d.local[t]))
	}
	return b
}

func readJoinData(b []byte) (joinData, error) {
	var d joinData
	r := reader{b: b}
	if err := r.version(); err != nil {
		return d, err
	}
	start := r.b
	d.process = r.string()
	d.host = r.string()
	d.rack = r.string()
	d.workers = r.int31()
	for range r.count(11) {
		s := SubTopology{ID: r.int31(), Fingerprint: r.uint64()}
		s.Stateful = r.byte()&1 != 0
		s.Topics = r.strings()
		d.subs = append(d.subs, s)
	}
	d.digest = digest(start[:len(start)-len(r.b)])
	if r.err == nil {
		// What the configuration refuses, a sound member does not send.
		cfg := Config{Process: d.process, Workers: d.workers, SubTopologies: d.subs}
		if err := cfg.validate(); err != nil {
			return d, err
		}
	}
	d.ask = r.uvarint()
	n := r.count(3)
	d.local = make(map[Task]int64, n)
	for range n {
		t := Task{Sub: r.int31(), Partition: int32(r.int31())}
		d.local[t] = int64(min(r.uvarint(), math.MaxInt64))
	}
	return d, r.err
}

// syncData is what the leader tells a member beside its partitions.
type syncData struct {
	// digest is of what the leader knew of the member, 0 if nothing.
	digest uint64
	// owes says that the leader waits for this member to give up partitions
	// and to rejoin.
	owes     bool
	topics   []string
	peers    []peerData
	missing  []string
	withheld int
}

type peerData struct {
	process, host, rack string
	active, standby     []partitionSet
}

// partitionSet is a set of partitions, in order, of one topic of
// syncData.topics.
type partitionSet struct {
	topic      int
	partitions []int32
}

func (d *syncData) append(b []byte) []byte {
	b = append(b, wireVersion, wireVersion)
	b = binary.BigEndian.AppendUint64(b, d.digest)
	var flags byte
	if d.owes {
		flags = 1
	}
	b = append(b, flags)
	b = appendStrings(b, d.topics)
	b = binary.AppendUvarint(b, uint64(len(d.peers)))
	for _, p := range d.peers {
		b = appendString(b, p.process)
		b = appendString(b, p.host)
		b = appendString(b, p.rack)
		b = appendSets(b, p.active)
		b = appendSets(b, p.standby)
	}
	b = appendStrings(b, d.missing)
	return binary.AppendUvarint(b, uint64(d.withheld))
}

func readSyncData(b []byte) (syncData, error) {
	var d syncData
	r := reader{b: b}
	if err := r.version(); err != nil {
		return d, err
	}
	d.digest = r.uint64()
	d.owes = r.byte()&1 != 0
	d.topics = r.strings()
	for range r.count(5) {
		d.peers = append(d.peers, peerData{
			process: r.string(),
			host:    r.string(),
			rack:    r.string(),
			active:  r.sets(len(d.topics)),
			standby: r.sets(len(d.topics)),
		})
	}
	d.missing = r.strings()
	d.withheld = r.int31()
	return d, r.err
}

// digest is FNV-1a; it tells configurations apart, nobody attacks it.
func digest(b []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

func sortedTasks[V any](m map[Task]V) []Task {
	tasks := make([]Task, 0, len(m))
	for t := range m {
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, Task.Compare)
	return tasks
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

// appendSets writes partitions as distances, so that most take one byte.
func appendSets(b []byte, sets []partitionSet) []byte {
	b = binary.AppendUvarint(b, uint64(len(sets)))
	for _, s := range sets {
		b = binary.AppendUvarint(b, uint64(s.topic))
		b = binary.AppendUvarint(b, uint64(len(s.partitions)))
		last := int32(0)
		for _, p := range s.partitions {
			b = binary.AppendUvarint(b, uint64(p-last))
			last = p
		}
	}
	return b
}

// reader reads fields until the first that is not there; from then on it
// returns zeros, and err says so.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	r.err, r.b = errShort, nil
}

func (r *reader) version() error {
	if len(r.b) < 2 {
		return errShort
	}
	if r.b[1] > wireVersion {
		return fmt.Errorf("%w: version %d, needs a reader of version %d, this is %d", errNewer, r.b[0], r.b[1], wireVersion)
	}
	r.b = r.b[2:]
	return nil
}

func (r *reader) byte() byte {
	if len(r.b) < 1 {
		r.fail()
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uint64() uint64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	n := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return n
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[size:]
	return n
}

// int31 reads a number that must fit a partition or an id.
func (r *reader) int31() int {
	n := r.uvarint()
	if n > math.MaxInt32 {
		r.fail()
		return 0
	}
	return int(n)
}

// count reads the length of a list whose elements take at least size bytes
// each: a length that the rest cannot hold is corrupt, and must not make the
// reader allocate.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) string() string {
	n := r.count(1)
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) strings() []string {
	var list []string
	for range r.count(1) {
		list = append(list, r.string())
	}
	return list
}

func (r *reader) sets(topics int) []partitionSet {
	var sets []partitionSet
	for range r.count(2) {
		s := partitionSet{topic: r.int31()}
		if s.topic >= topics {
			r.fail()
		}
		last := 0
		for i := range r.count(1) {
			d := r.int31()
			if i > 0 && d == 0 || last > math.MaxInt32-d {
				r.fail()
				break
			}
			last += d
			s.partitions = append(s.partitions, int32(last))
		}
		sets = append(sets, s)
	}
	if r.err != nil {
		return nil
	}
	return sets
}
