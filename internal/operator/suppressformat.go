package operator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/internal/state"
)

// A row of a suppression is what Kafka Streams writes to the changelog of one, in the third version of that format:
//
//	time of the record (8) | its offset (8) | its topic (4+n) | its partition (4) | its headers
//	prior value | old value | new value | time at which the row began to wait (8)
//
// All sizes are of four bytes, -1 for what is null. An old value that equals the prior one has the size -2. The prior value is what the table had
// before the first update that waits, the old one what it had before the last.
const suppressVersion = 3

const (
	sizeNull  = -1
	sizeEqual = -2
	// sizeUnknown is not part of the format: the prior value is that of the row which waits already, and the old value if there is none.
	sizeUnknown = -3
)

// waiting is a row that waits.
type waiting struct {
	time      int64 // of the record
	offset    int64
	topic     string
	partition int32
	headers   []engine.Header
	// The values are nil for null.
	prior, old, new []byte
	priorUnknown    bool
	since           int64 // when it began to wait
}

func (w *waiting) encode(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint64(dst, uint64(w.time))
	dst = be.AppendUint64(dst, uint64(w.offset))
	dst = be.AppendUint32(dst, uint32(len(w.topic)))
	dst = append(dst, w.topic...)
	dst = be.AppendUint32(dst, uint32(w.partition))
	dst = be.AppendUint32(dst, uint32(len(w.headers)))
	for _, h := range w.headers {
		dst = be.AppendUint32(dst, uint32(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendSized(dst, h.Value)
	}
	if w.priorUnknown {
		dst = appendSize(dst, sizeUnknown)
	} else {
		dst = appendSized(dst, w.prior)
	}
	if w.old != nil && w.prior != nil && !w.priorUnknown && bytes.Equal(w.prior, w.old) {
		dst = appendSize(dst, sizeEqual)
	} else {
		dst = appendSized(dst, w.old)
	}
	dst = appendSized(dst, w.new)
	return be.AppendUint64(dst, uint64(w.since))
}

func appendSize(dst []byte, n int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(n)) }

func appendSized(dst, v []byte) []byte {
	if v == nil {
		return appendSize(dst, sizeNull)
	}
	return append(appendSize(dst, int32(len(v))), v...)
}

// parser takes bytes apart; after the first that do not fit it is bad and gives zeros. What it gives shares memory with them.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) take(n int) []byte {
	if p.bad || n < 0 || n > len(p.b) {
		p.bad = true
		return nil
	}
	out := p.b[:n:n]
	p.b = p.b[n:]
	return out
}

func (p *parser) int64() int64 {
	if b := p.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (p *parser) int32() int32 {
	if b := p.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// sized is bytes with their size before them; nil for null.
func (p *parser) sized() []byte {
	n := p.int32()
	if n == sizeNull {
		return nil
	}
	return p.take(int(n))
}

// context reads what a row says of its record.
func (p *parser) context(w *waiting) {
	w.time, w.offset = p.int64(), p.int64()
	w.topic = string(p.take(int(p.int32())))
	w.partition = p.int32()
	n := int(p.int32())
	if n < -1 || n > len(p.b)/8 { // each has two sizes
		p.bad = true
		return
	}
	for range n {
		w.headers = append(w.headers, engine.Header{Key: string(p.take(int(p.int32()))), Value: p.sized()})
	}
}

// change reads the old form of a pair of values.
func (p *parser) change(w *waiting) { w.old, w.new = p.sized(), p.sized() }

func (p *parser) end(version string) error {
	if p.bad || len(p.b) > 0 {
		return errors.New("a row of a suppression is damaged, or its changelog is that of something else: it cannot be read as " + version)
	}
	return nil
}

// parseWaiting reads a row in the present format.
func parseWaiting(b []byte) (w waiting, err error) {
	p := parser{b: b}
	p.context(&w)
	if n := p.int32(); n == sizeUnknown {
		w.priorUnknown = true
	} else if n != sizeNull {
		w.prior = p.take(int(n))
	}
	if n := p.int32(); n == sizeEqual {
		w.old = w.prior
	} else if n != sizeNull {
		w.old = p.take(int(n))
	}
	w.new, w.since = p.sized(), p.int64()
	return w, p.end("version 3")
}

// upgradeWaiting makes a row of the present format of one that an older Kafka Streams wrote. The first two versions do not say what the prior value
// is. The second one's header was also given to rows of the third, by three releases.
func upgradeWaiting(r state.Logged) ([]byte, error) {
	switch r.Version {
	case suppressVersion:
		if _, err := parseWaiting(r.Value); err != nil {
			return nil, err
		}
		return r.Value, nil
	case 2:
		w := waiting{}
		p := parser{b: r.Value}
		p.context(&w)
		q := parser{b: p.sized()}
		q.change(&w)
		w.prior, w.since = p.sized(), p.int64()
		if q.end("") == nil && p.end("") == nil {
			return w.encode(nil), nil
		}
		if _, err := parseWaiting(r.Value); err != nil {
			return nil, p.end("version 2 or 3")
		}
		return r.Value, nil
	case 1:
		w := waiting{priorUnknown: true}
		p := parser{b: r.Value}
		w.since = p.int64()
		p.context(&w)
		q := parser{b: p.sized()}
		q.change(&w)
		if err := errors.Join(p.end("version 1"), q.end("version 1")); err != nil {
			return nil, err
		}
		return w.encode(nil), nil
	case 0:
		w := waiting{priorUnknown: true, time: r.At, offset: r.Offset, topic: r.Topic, partition: r.Partition}
		p := parser{b: r.Value}
		w.since = p.int64()
		p.change(&w)
		if err := p.end("version 0"); err != nil {
			return nil, err
		}
		return w.encode(nil), nil
	}
	return nil, fmt.Errorf("its changelog has rows in version %d of their format, and versions 0 to %d are known: a newer release must have written them", r.Version, suppressVersion)
}
