package parity

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/kolkstreams/kolk/topology/topologytest"
)

// Kafka Streams loses results of closed windows where time jumps: a record that opens a new window makes its store forget what is older than
// the retention, and only then looks for what has closed. kolk sends these results. So where a case asks for results on close, what is to come out
// follows from the changelog: all that closes, of which Kafka Streams may have left out what its store had forgotten, and nothing else.

// closing follows one aggregation whose results are sent on close.
type closing struct {
	c                 *Case
	n                 Node
	key               function // of a regrouped stream; nil for the record's own
	session, sliding  bool
	size, grace, kept int64

	rows       map[string]Got // by key in the changelog
	streamTime int64          // of the aggregation
	stored     int64          // largest start, or end of a session, in the store
	last       int64          // what was closed at this time has been sent; -1 if nothing has
}

// closes is the node of a case that sends results on close; ok is false if there is none.
func (c *Case) closes() (x *closing, err error) {
	for _, n := range c.Topology {
		if n.Emit != "close" {
			continue
		}
		x = &closing{c: c, n: n, grace: n.Grace, rows: make(map[string]Got), streamTime: -1, stored: -1, last: -1}
		switch n.Op {
		case "session":
			x.session, x.size, x.kept = true, n.Gap, n.Gap+n.Grace
		case "sliding":
			x.sliding, x.size, x.kept = true, n.Difference, 2*n.Difference+n.Grace
		default:
			x.size, x.kept = n.Size, n.Size+n.Grace
		}
		for _, g := range c.Topology {
			if g.ID == n.From && g.Op == "groupBy" {
				if x.key, err = functionOf(g.Fn); err != nil {
					return nil, err
				}
			}
		}
	}
	return x, nil
}

// results are all records that closing windows make.
func (x *closing) results() (all []Got, err error) {
	log := x.c.Changelog[topologytest.Application+"-"+x.storeName()+"-changelog"]
	for in, r := range x.c.Input {
		key := r.Key
		if x.key != nil {
			key = x.key(r.Key, r.Value)
		}
		for len(log) > 0 && log[0].In == in {
			w := log[0]
			log = log[1:]
			x.stored = max(x.stored, x.at(*w.Key))
			if w.Value == nil {
				delete(x.rows, string(*w.Key))
			} else {
				x.rows[string(*w.Key)] = w
			}
		}
		if key == nil || x.sliding && r.Value == nil {
			continue
		}
		x.streamTime = max(x.streamTime, r.Time)
		here, err := x.close(in, r)
		if err != nil {
			return nil, err
		}
		all = append(all, here...)
	}
	return all, nil
}

func (x *closing) storeName() string {
	for _, n := range x.c.Topology {
		if n.From == x.n.ID {
			return n.Store
		}
	}
	return ""
}

// at is the time by which the store forgets a row: the start of a window, the end of a session.
func (x *closing) at(key []byte) int64 {
	if x.session {
		return int64(binary.BigEndian.Uint64(key[len(key)-16:]))
	}
	return int64(binary.BigEndian.Uint64(key[len(key)-12:]))
}

// close is what one record closes.
func (x *closing) close(in int, r Sent) (out []Got, err error) {
	at := x.streamTime - x.grace
	if x.session {
		at -= x.size
	}
	if at <= x.last {
		return nil, nil
	}
	sent := slices.DeleteFunc(slices.Clone(x.c.Output), func(w Got) bool { return w.In != in })
	for _, w := range x.sorted() {
		end := x.at(*w.Key)
		if !x.session {
			end += x.size
		}
		if x.sliding || x.session {
			end++
		}
		if end > at || end <= x.last {
			continue
		}
		g := x.result(in, r, w)
		if len(sent) > 0 && bytes.Equal(*sent[0].Key, *g.Key) {
			sent = sent[1:]
		} else if !x.forgotten(*w.Key) {
			return nil, fmt.Errorf("the vector lacks the result of %q at record %d, and its store had it", *g.Key, in)
		}
		out = append(out, g)
	}
	if len(sent) > 0 {
		return nil, fmt.Errorf("the vector has a result at record %d that nothing closed: %q", in, *sent[0].Key)
	}
	x.last = at
	return out, nil
}

// sorted is the rows in the order in which they are sent.
func (x *closing) sorted() (rows []Got) {
	for _, w := range x.rows {
		rows = append(rows, w)
	}
	tail := 12
	if x.session {
		tail = 16
	}
	slices.SortFunc(rows, func(a, b Got) int {
		i, j := len(*a.Key)-tail, len(*b.Key)-tail
		return cmp.Or(bytes.Compare((*a.Key)[i:], (*b.Key)[j:]), strings.Compare(string((*a.Key)[:i]), string((*b.Key)[:j])))
	})
	return rows
}

// result is the record that a row makes when it closes.
func (x *closing) result(in int, r Sent, w Got) Got {
	key := *w.Key
	g := Got{In: in, Topic: "out", Value: w.Value, Time: w.Time}
	if x.session {
		g.Time = x.at(key)
	} else {
		key = key[:len(key)-4] // the sequence number
	}
	g.Key = &key
	for _, h := range r.Headers {
		g.Headers = append(g.Headers, []string{h[0], base64.StdEncoding.EncodeToString([]byte(h[1]))})
	}
	return g
}

// forgotten says whether Kafka Streams' store has let go of a row: windows by their start, sessions with the segment that their end is in.
func (x *closing) forgotten(key []byte) bool {
	if !x.session {
		return x.at(key) < x.stored-x.kept
	}
	segment := max(x.kept/2, 60_000)
	return x.at(key)/segment < (x.stored-x.kept)/segment
}
