package store

import (
	"encoding/binary"
	"math"

	"github.com/kolkstreams/kolk/internal/state"
)

// history is the versions of all keys as bytes. The newest value of each key is a row of latest, at its own time. Everything older is in past, under
// names that begin with what they are:
//
//	h | key | from   a version that ended: its time is the end, its value begins with whether there was one
//	g | key          the newest version is a delete, at the row's time
//	t | to | key | from   finds the row above that ends at to; for a newest delete to is from
//	o                the largest time that was put
//
// A version that ended is out of reach when its end is not above observed - keep, as that is the oldest time that can be asked for. It is removed
// some time after, when something is put. A delete that ended must stay as long as a value may be put below it, which it ends.
type history struct {
	latest, past rows
	keep         int64 // ms

	observed  int64 // the largest time that was put; none before the first
	looked    bool  // observed is as the rows have it
	due       int64 // nothing in past ends before this
	restoring bool  // writes are committed at once

	a, b []byte // scratch for names
}

const none = math.MinInt64

// What the first byte of a name in past says.
const (
	ended  = 'h'
	grave  = 'g'
	ending = 't'
	clock  = 'o'
)

// What the first byte of an ended version's value says.
const (
	noValue  = 0
	hasValue = 1
)

func (h *history) init(name string, env state.Env, keep int64) {
	h.latest.init(name, env, env.Slot)
	h.past.init(name, env, env.Slot+1)
	h.keep = keep
	h.forget()
}

// forget makes h look at the rows again.
func (h *history) forget() { h.looked, h.due = false, none }

func (h *history) check() {
	h.latest.check()
	h.past.check()
}

// oldest is the time before which nothing can be asked for or put.
func (h *history) oldest() int64 {
	if !h.looked {
		_, at, ok := h.past.get([]byte{clock})
		if !ok {
			at = none
		}
		h.observed, h.looked = at, true
	}
	return before(h.observed, h.keep)
}

func before(observed, keep int64) int64 {
	if observed < none+keep {
		return none
	}
	return observed - keep
}

func (h *history) set(r *rows, name, value []byte, at int64) {
	if !h.restoring {
		r.set(name, value, at)
	} else if err := r.Restore(name, value, at); err != nil {
		r.fail("restore: %w", err)
	}
}

func (h *history) del(r *rows, name []byte) {
	if !h.restoring {
		r.del(name, 0)
	} else if err := r.Restore(name, nil, 0); err != nil {
		r.fail("restore: %w", err)
	}
}

func appendKey(dst, key []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(key))), key...)
}

func appendTime(dst []byte, t int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(t)) }

func endedName(dst, key []byte, from int64) []byte {
	return appendTime(appendKey(append(dst[:0], ended), key), from)
}

func graveName(dst, key []byte) []byte { return append(append(dst[:0], grave), key...) }

func endingName(dst, key []byte, from, to int64) []byte {
	return appendTime(appendKey(appendTime(append(dst[:0], ending), to), key), from)
}

// newest is the last version of a key. there is false if it has none, ok if that is a delete.
func (h *history) newest(key []byte) (value []byte, from int64, ok, there bool) {
	if value, from, ok = h.latest.get(key); ok {
		return value, from, true, true
	}
	h.a = graveName(h.a, key)
	_, from, there = h.past.get(h.a)
	return nil, from, false, there
}

// old is a version that ended.
type old struct {
	from, to int64
	value    []byte // a copy
	has      bool   // it is not a delete
}

// under is the youngest ended version of a key that began at t or before.
func (h *history) under(key []byte, t int64, committed bool) (v old, ok bool) {
	from := endedName(nil, key, 0)
	to := append(endedName(nil, key, t), 0)
	h.past.scan(from, to, true, committed, func(f found) bool {
		v, ok = h.read(f), true
		return false
	})
	return v, ok
}

// over is the oldest ended version of a key that began after t.
func (h *history) over(key []byte, t int64) (v old, ok bool) {
	from := append(endedName(nil, key, t), 0)
	to := append(endedName(nil, key, math.MaxInt64), 0)
	h.past.scan(from, to, false, false, func(f found) bool {
		v, ok = h.read(f), true
		return false
	})
	return v, ok
}

func (h *history) read(f found) old {
	value := h.past.value(f)
	if len(f.name) < 8 || len(value) == 0 {
		h.past.fail("read version %x: a row of %d bytes", f.name, len(value))
	}
	return old{from: timeOf(f.name[len(f.name)-8:]), to: f.at, has: value[0] == hasValue, value: append([]byte(nil), value[1:]...)}
}

// at is the value that was valid at t, and the time of its version: to is none for the newest.
func (h *history) at(key []byte, t int64) (value []byte, from, to int64, ok bool) {
	value, from, ok, there := h.newest(key)
	if there && from <= t {
		return value, from, none, ok
	}
	if t < h.oldest() {
		return nil, 0, 0, false
	}
	v, ok := h.under(key, t, false)
	if !ok || v.to <= t || !v.has {
		return nil, 0, 0, false
	}
	return v.value, v.from, v.to, true
}

// put sets what is valid from t on, nil for a delete, and says whether that is the newest version of the key. value may not be what newest
// returned.
func (h *history) put(key, value []byte, t int64) state.Written {
	if t < h.oldest() {
		return state.Refused
	}
	was, from, had, there := h.newest(key)
	if t > h.observed {
		h.observed = t
		h.set(&h.past, []byte{clock}, []byte{}, t)
	}
	if there && t < from {
		h.insert(key, value, t, from)
		return state.Past
	}
	if there && t > from {
		h.end(key, was, from, t, had)
	}
	switch {
	case value != nil:
		if there && !had {
			h.unbury(key, from)
		}
		h.set(&h.latest, key, value, t)
	default:
		if had {
			h.del(&h.latest, key)
		} else if there && t != from {
			h.unbury(key, from)
		}
		h.bury(key, t)
	}
	return state.Latest
}

// bury makes a delete the newest version of a key.
func (h *history) bury(key []byte, t int64) {
	if t <= h.oldest() {
		return // nothing can be put below it
	}
	h.a = graveName(h.a, key)
	h.set(&h.past, h.a, []byte{}, t)
	h.ends(key, t, t)
}

// unbury takes away that a delete is the newest version.
func (h *history) unbury(key []byte, from int64) {
	h.a = graveName(h.a, key)
	h.del(&h.past, h.a)
	h.b = endingName(h.b, key, from, from)
	h.del(&h.past, h.b)
}

func (h *history) ends(key []byte, from, to int64) {
	h.b = endingName(h.b, key, from, to)
	h.set(&h.past, h.b, []byte{}, 0)
	h.due = min(h.due, to)
}

// end keeps a version that ended, as long as it is of use.
func (h *history) end(key, value []byte, from, to int64, has bool) {
	if oldest := h.oldest(); to <= oldest || !has && from <= oldest {
		return
	}
	h.a = endedName(h.a, key, from)
	row := make([]byte, 1, 1+len(value))
	if has {
		row[0] = hasValue
		row = append(row, value...)
	}
	h.set(&h.past, h.a, row, to)
	h.ends(key, from, to)
}

// dismiss removes a version that ended.
func (h *history) dismiss(key []byte, from, to int64) {
	h.a = endedName(h.a, key, from)
	h.del(&h.past, h.a)
	h.b = endingName(h.b, key, from, to)
	h.del(&h.past, h.b)
}

// insert puts a version below others. newest is when the newest begins.
func (h *history) insert(key, value []byte, t, newest int64) {
	to := newest
	below, ok := h.under(key, t, false)
	switch {
	case ok && below.from == t:
		to = below.to
		h.dismiss(key, below.from, below.to)
	case ok && below.to > t:
		to = below.to
		h.dismiss(key, below.from, below.to)
		h.end(key, below.value, below.from, t, below.has)
	default:
		if above, ok := h.over(key, t); ok {
			to = above.from
		}
	}
	h.end(key, value, t, to, value != nil)
}

// prune removes some of what is out of reach.
func (h *history) prune() (n int64) {
	oldest := h.oldest()
	if h.due > oldest {
		return 0
	}
	const most = 32
	var out [][]byte
	next := int64(math.MaxInt64)
	from := []byte{ending}
	if h.due != none {
		from = appendTime(from, h.due)
	}
	h.past.scan(from, []byte{ending + 1}, false, false, func(f found) bool {
		if len(f.name) < 17 {
			h.past.fail("read the end of a version: a name of %d bytes", len(f.name))
		}
		if to := timeOf(f.name[1:]); to > oldest || len(out) == most {
			next = to
			return false
		}
		out = append(out, append([]byte(nil), f.name...))
		return true
	})
	for _, name := range out {
		h.reap(name)
	}
	h.due = next
	return int64(len(out))
}

// reap removes what a name in the order of ends stands for.
func (h *history) reap(name []byte) {
	from, to := timeOf(name[len(name)-8:]), timeOf(name[1:])
	size, n := binary.Uvarint(name[9:])
	key := name[9+max(n, 0) : len(name)-8]
	if n <= 0 || uint64(len(key)) != size {
		h.past.fail("read the end of a version: %x is no name", name)
	}
	if from == to {
		h.unbury(key, from)
		return
	}
	h.dismiss(key, from, to)
}
