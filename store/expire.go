package store

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// notListed marks an entry that is in no list of expiries. Buckets never reach it.
const notListed = math.MinInt64

// ages is what a store with a TTL knows of when its entries expire. Expiries are grouped in buckets of an eighth of the TTL, aligned to the
// epoch. Of entries in the backend an index there tells the bucket; those in memory are in lists. When stream time has passed a bucket, its
// entries go into a queue in the order in which they are to be removed.
type ages struct {
	width  int64
	lists  map[int64][]uint32 // numbers of entries by bucket; some may have moved since
	listed int                // numbers in all lists
	passed int64              // up to this bucket, everything was put into the queue
	queue  *btree.BTreeG[aging]
	stale  []aged // rows of the index that belong to no entry, to be removed at the next checkpoint
}

type aging struct {
	expiry int64
	name   string
}

type aged struct {
	bucket int64
	name   string
}

func (a *ages) init(ttl int64) {
	a.passed = math.MinInt64
	if ttl == 0 {
		return
	}
	a.width = max(1, ttl/8)
	a.lists = make(map[int64][]uint32)
	a.queue = btree.NewBTreeGOptions(func(x, y aging) bool {
		if x.expiry != y.expiry {
			return x.expiry < y.expiry
		}
		return x.name < y.name
	}, btree.Options{NoLocks: true})
}

// expiry is the stream time from which on an entry of the given time is gone.
func (m *memory) expiry(at int64) int64 {
	if at > math.MaxInt64-m.ttl {
		return math.MaxInt64
	}
	return at + m.ttl
}

func (m *memory) hasExpired(at, streamTime int64) bool {
	return m.ttl > 0 && streamTime >= m.expiry(at)
}

// gone says whether an entry that is present is past the bound.
func (m *memory) gone(e *entry) bool { return m.ttl > 0 && m.env.StreamTime() >= m.expiry(e.at) }

func (m *memory) bucket(at int64) int64 { return floor(m.expiry(at), m.ages.width) }

func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// indexKey is the key of a row in the index: the bucket, so that smaller ones sort first, and the entry's key.
func indexKey(dst []byte, bucket int64, name []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(bucket)^1<<63), name...)
}

// track keeps the time of a pending entry in mind.
func (m *memory) track(id uint32, e *entry) {
	if m.ttl == 0 || !e.has(present) {
		return
	}
	b := m.bucket(e.at)
	if b <= m.ages.passed {
		m.ages.queue.Set(aging{m.expiry(e.at), e.name})
		return
	}
	if e.listed != b {
		e.listed = b
		m.ages.lists[b] = append(m.ages.lists[b], id)
		m.ages.listed++
	}
}

// prune makes the lists anew when most of what they hold is in the backend by now.
func (m *memory) prune() {
	if m.ages.listed > 2*m.pendings+1024 {
		m.relist()
	}
}

// retrack starts over after an abort: what was removed is back.
func (m *memory) retrack() {
	if m.ttl == 0 {
		return
	}
	m.ages.passed = math.MinInt64
	m.ages.queue.Clear()
	m.relist()
}

func (m *memory) relist() {
	clear(m.ages.lists)
	m.ages.listed = 0
	again := func(id uint32) {
		e := m.slab.at(id)
		e.listed = notListed
		m.track(id, e)
	}
	for _, id := range m.fresh {
		again(id)
	}
	for _, list := range [][]layered{m.staged, m.layer.list, m.frozen.list} {
		for _, l := range list {
			again(l.id)
		}
	}
}

// Expire removes entries whose bucket has passed.
func (m *memory) Expire(streamTime int64, limit int) (more bool) {
	m.check()
	if m.ttl == 0 {
		return false
	}
	passed := floor(streamTime, m.ages.width) - 1
	if passed > m.ages.passed {
		m.collect(passed)
	}
	for {
		next, ok := m.ages.queue.Min()
		if !ok || floor(next.expiry, m.ages.width) > passed {
			return false
		}
		if limit <= 0 {
			return true
		}
		if m.expireOne(next) {
			limit--
		}
		m.ages.queue.Delete(next)
	}
}

// expireOne removes an entry, if it still is what was put into the queue.
func (m *memory) expireOne(next aging) bool {
	name := []byte(next.name)
	id := m.find(name)
	e := m.slab.at(id)
	if !e.has(present) || m.expiry(e.at) != next.expiry {
		return false
	}
	m.expel(id, e, name)
	return true
}

// expel removes an entry that has expired.
func (m *memory) expel(id uint32, e *entry, name []byte) {
	if m.env.Deleted != nil {
		gen := e.gen
		m.tell(name)
		if e.gen != gen { // it was evicted
			id = m.find(name)
			e = m.slab.at(id)
		}
	}
	m.remove(id, e, m.env.Now())
	m.expiring++
}

// tell says that an entry has expired, and shows it for the last time.
func (m *memory) tell(name []byte) {
	m.shown, m.shows = string(name), true
	defer func() { m.shows = false }()
	m.env.Deleted(name)
}

// collect puts the entries of all buckets up to passed into the queue.
func (m *memory) collect(passed int64) {
	for b, ids := range m.ages.lists {
		if b > passed {
			continue
		}
		for _, id := range ids {
			if e := m.slab.at(id); e.has(used) && e.listed == b && e.has(present) && m.bucket(e.at) == b {
				m.ages.queue.Set(aging{m.expiry(e.at), e.name})
			}
		}
		m.ages.listed -= len(ids)
		delete(m.ages.lists, b)
	}
	var rows []aged
	var from []byte
	if m.ages.passed != math.MinInt64 {
		from = indexKey(nil, m.ages.passed+1, nil)
	}
	err := m.env.Backend.Scan(m.env.Slot+1, from, indexKey(nil, passed+1, nil), false, func(key, _ []byte) bool {
		if len(key) >= 8 {
			rows = append(rows, aged{int64(binary.BigEndian.Uint64(key) ^ 1<<63), string(key[8:])})
		}
		return true
	})
	if err != nil {
		m.fail("look for expired entries: %w", err)
	}
	// In the order of keys the backend's look-ups cost least.
	slices.SortFunc(rows, func(a, b aged) int { return strings.Compare(a.name, b.name) })
	for _, r := range rows {
		m.candidate(r, passed)
	}
	m.ages.passed = passed
}

// candidate puts the entry of an index row into the queue, if it still is in that bucket.
func (m *memory) candidate(r aged, passed int64) {
	m.kb = append(m.kb[:0], r.name...)
	id, ok, err := m.index.locate(m.kb)
	if err != nil {
		m.fail("read key %x: %w", r.name, err)
	}
	if ok {
		e := m.slab.at(id)
		if e.has(present) && m.bucket(e.at) <= passed {
			m.ages.queue.Set(aging{m.expiry(e.at), e.name})
		}
		if e.has(known) && (e.was < 0 || m.bucket(e.wasAt) != r.bucket) {
			m.ages.stale = append(m.ages.stale, r)
		}
		return
	}
	row, ok := m.row(m.kb)
	if !ok || m.bucket(timeOf(row)) != r.bucket {
		m.ages.stale = append(m.ages.stale, r)
		return
	}
	m.ages.queue.Set(aging{m.expiry(timeOf(row)), r.name})
}
