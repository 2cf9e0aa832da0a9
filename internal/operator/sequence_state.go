package operator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/kolkstreams/kolk/internal/state"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
)

// sequenceRow is a key in the store of a Sequence. There are two rows for each key with partial matches: the matches themselves, and one that
// sorts by the time at which the key must be looked at though none of its records comes. Encoded they are 0 | key and 1 | time (8) | key.
type sequenceRow[K comparable] struct {
	kind rowKind
	due  int64 // of a dueRow or bound
	key  K
}

type rowKind uint8

const (
	partialRow rowKind = iota
	dueRow
	bound // where dueRows of a time begin; never stored
)

type sequenceRows[K comparable] struct{ key serde.Serde[K] }

func (s sequenceRows[K]) String() string { return "sequence(" + serde.Name(s.key) + ")" }

func (s sequenceRows[K]) Encode(dst []byte, r sequenceRow[K]) ([]byte, error) {
	if r.kind == partialRow {
		dst = append(dst, 0)
	} else {
		dst = binary.BigEndian.AppendUint64(append(dst, 1), uint64(r.due))
	}
	if r.kind == bound {
		return dst, nil
	}
	return s.key.Encode(dst, r.key)
}

func (s sequenceRows[K]) Decode(src []byte) (r sequenceRow[K], err error) {
	switch {
	case len(src) >= 1 && src[0] == 0:
		src = src[1:]
	case len(src) >= 9 && src[0] == 1:
		r.kind, r.due = dueRow, int64(binary.BigEndian.Uint64(src[1:]))
		src = src[9:]
	default:
		return r, fmt.Errorf("%d bytes are no key of a sequence's store", len(src))
	}
	r.key, err = s.key.Decode(src)
	return r, err
}

// sequenceState is a value in the store of a Sequence, encoded. That of a dueRow is empty.
type sequenceState []byte

// sequenceStates hands the bytes through: they are the store's, valid until it is used again. name says what they hold.
type sequenceStates struct{ name string }

func (s sequenceStates) String() string { return s.name }

func (sequenceStates) Encode(dst []byte, v sequenceState) ([]byte, error) {
	if dst == nil {
		dst = []byte{} // no bytes are not null
	}
	return append(dst, v...), nil
}

func (sequenceStates) Decode(src []byte) (sequenceState, error) { return src, nil }

// SequenceStore declares the store of a Sequence. Its bound is the pattern's: entries go when the time of their matches is over.
func SequenceStore[K comparable, V any](name string, key serde.Serde[K], value serde.Serde[V], p *Sought[V], opts ...store.Option) *state.Decl {
	states := sequenceStates{fmt.Sprintf("sequence%d(%s;%s)", sequenceVersion, serde.Name(value), p.text())}
	h := store.NewKeyValue(name, serde.Serde[sequenceRow[K]](sequenceRows[K]{key}), serde.Serde[sequenceState](states), store.FiniteKeys(1), opts...)
	d := state.Of(h)
	d.Expected = 0 // how many keys are on their way is not known
	return d
}

// partials are the partial matches of one key, decoded into memory that is used again for the next.
type partials[V any] struct {
	serde  serde.Serde[V]
	null   serde.Nullable[V] // nil if the serde has no value for null
	broken func(error)       // ends the task
	width  int               // the number of steps

	listed int64  // the time of the key's dueRow
	next   uint64 // number of the next record that is taken
	recs   []takenRecord[V]
	parts  []partial
	refs   []int32 // for each partial match and step the place in recs of the last record taken, or -1
	places []int32 // scratch: new places of recs
	vb     []byte  // scratch: an encoded value
}

// takenRecord is a record that at least one partial match has taken.
type takenRecord[V any] struct {
	raw     []byte // nil if null or not encoded yet
	value   V
	decoded bool
}

// partial is a partial match.
type partial struct {
	step, count int // the last step, and how many records it has, at most its Times
	limit       int // steps from this number on are closed by a ThenNot, until a record is taken
	gap         bool
	dead        bool
	begin, end  uint64 // numbers of its first and last records
	first, last int64  // their times
}

// sequenceVersion is the first byte of an encoded partials, and part of the fingerprint.
const sequenceVersion = 1

const (
	gapFlag = 1 << iota
	limitFlag
)

func (p *partials[V]) ref(part, step int) int32 { return p.refs[part*p.width+step] }

// at is the value of a step that was taken.
func (p *partials[V]) at(part, step int) V {
	r := &p.recs[p.ref(part, step)]
	if !r.decoded {
		switch {
		case r.raw != nil:
			v, err := p.serde.Decode(r.raw)
			if err != nil {
				p.broken(fmt.Errorf("decode a record that a partial match took: %w", err))
			}
			r.value = v
		case p.null != nil:
			r.value = p.null.Null()
		}
		r.decoded = true
	}
	return r.value
}

// reset forgets everything.
func (p *partials[V]) reset() {
	clear(p.recs)
	p.recs, p.parts, p.refs, p.next, p.listed = p.recs[:0], p.parts[:0], p.refs[:0], 0, 0
}

// add keeps a record and returns its place.
func (p *partials[V]) add(v V) int32 {
	p.recs = append(p.recs, takenRecord[V]{value: v, decoded: true})
	return int32(len(p.recs) - 1)
}

// encode appends the partial matches that are not dead and the records that they have taken.
//
//	version | due row's time | next number | records: count, then length+1 and bytes, 0 for null | matches: count, then for each
//	flags | step | count | limit if flagged | next number - begin | next number - end | first | last - first | place+1 of each step's record
func (p *partials[V]) encode(dst []byte) ([]byte, error) {
	p.places = p.places[:0]
	for range p.recs {
		p.places = append(p.places, -1)
	}
	alive, used := 0, int32(0)
	for i := range p.parts {
		if p.parts[i].dead {
			continue
		}
		alive++
		for s := range p.parts[i].step + 1 {
			if r := p.ref(i, s); r >= 0 {
				p.places[r] = 0
			}
		}
	}
	for i := range p.places {
		if p.places[i] == 0 {
			p.places[i] = used
			used++
		}
	}
	dst = append(dst, sequenceVersion)
	dst = binary.AppendVarint(dst, p.listed)
	dst = binary.AppendUvarint(dst, p.next)
	dst = binary.AppendUvarint(dst, uint64(used))
	for i, place := range p.places {
		if place < 0 {
			continue
		}
		r := &p.recs[i]
		raw := r.raw
		if r.decoded && raw == nil {
			b, err := p.serde.Encode(p.vb[:0], r.value)
			if err != nil {
				return dst, fmt.Errorf("encode value: %w", err)
			}
			if raw = b; b != nil {
				p.vb = b[:0]
			}
		}
		if raw == nil {
			dst = append(dst, 0)
			continue
		}
		dst = append(binary.AppendUvarint(dst, uint64(len(raw))+1), raw...)
	}
	dst = binary.AppendUvarint(dst, uint64(alive))
	for i := range p.parts {
		x := &p.parts[i]
		if x.dead {
			continue
		}
		flags := byte(0)
		if x.gap {
			flags |= gapFlag
		}
		if x.limit <= p.width {
			flags |= limitFlag
		}
		dst = append(dst, flags)
		dst = binary.AppendUvarint(dst, uint64(x.step))
		dst = binary.AppendUvarint(dst, uint64(x.count))
		if flags&limitFlag != 0 {
			dst = binary.AppendUvarint(dst, uint64(x.limit))
		}
		dst = binary.AppendUvarint(dst, p.next-x.begin)
		dst = binary.AppendUvarint(dst, p.next-x.end)
		dst = binary.AppendVarint(dst, x.first)
		dst = binary.AppendVarint(dst, x.last-x.first)
		for s := range x.step + 1 {
			place := int32(-1)
			if r := p.ref(i, s); r >= 0 {
				place = p.places[r]
			}
			dst = binary.AppendUvarint(dst, uint64(place+1))
		}
	}
	return dst, nil
}

var errShortPartials = errors.New("the partial matches end too early")

// decode reads what encode wrote. The records' bytes stay in src.
func (p *partials[V]) decode(src []byte) error {
	p.reset()
	if len(src) == 0 || src[0] != sequenceVersion {
		return fmt.Errorf("partial matches of an unknown version in %d bytes", len(src))
	}
	in := reading{src: src[1:]}
	p.listed = in.signed()
	p.next = in.unsigned()
	for n := in.count(); n > 0 && !in.short; n-- {
		var r takenRecord[V]
		if size := in.count(); size > 0 {
			r.raw = in.bytes(size - 1)
		}
		p.recs = append(p.recs, r)
	}
	for n := in.count(); n > 0 && !in.short; n-- {
		flags := in.bytes(1)
		if in.short {
			break
		}
		x := partial{step: in.count(), count: in.count(), limit: p.width + 1, gap: flags[0]&gapFlag != 0}
		if flags[0]&limitFlag != 0 {
			x.limit = in.count()
		}
		x.begin, x.end = p.next-in.unsigned(), p.next-in.unsigned()
		x.first = in.signed()
		x.last = x.first + in.signed()
		if x.step >= p.width {
			return fmt.Errorf("a partial match is at step %d of %d", x.step, p.width)
		}
		for s := range p.width {
			ref := int32(-1)
			if s <= x.step {
				ref = int32(in.count()) - 1
			}
			if int(ref) >= len(p.recs) {
				return fmt.Errorf("a partial match has record %d of %d", ref, len(p.recs))
			}
			p.refs = append(p.refs, ref)
		}
		if p.refs[len(p.refs)-p.width+x.step] < 0 {
			return fmt.Errorf("a partial match has no record of its step %d", x.step)
		}
		p.parts = append(p.parts, x)
	}
	switch {
	case in.short:
		return errShortPartials
	case len(in.src) > 0:
		return fmt.Errorf("%d bytes follow the partial matches", len(in.src))
	}
	return nil
}

// reading takes numbers from bytes. short says that they were too few; everything is 0 from then on.
type reading struct {
	src   []byte
	short bool
}

func (r *reading) unsigned() uint64 {
	v, n := binary.Uvarint(r.src)
	r.skip(n)
	if n <= 0 {
		return 0
	}
	return v
}

func (r *reading) signed() int64 {
	v, n := binary.Varint(r.src)
	r.skip(n)
	if n <= 0 {
		return 0
	}
	return v
}

// count is a number of things that take at least a byte each, or that count steps or records.
func (r *reading) count() int {
	v := r.unsigned()
	if v > math.MaxInt32 {
		r.skip(0)
		return 0
	}
	return int(v)
}

func (r *reading) bytes(n int) []byte {
	if n > len(r.src) {
		r.skip(0)
		return nil
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b
}

func (r *reading) skip(n int) {
	if n <= 0 {
		r.src, r.short = nil, true
		return
	}
	r.src = r.src[n:]
}
