package operator

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Sought is what Sequence looks for. Package topology has checked it: there are steps, the first and the last are not optional, Times and
// MaxPartial are at least 1, and names are unique.
type Sought[V any] struct {
	Steps      []Step[V]
	Not        Test[V] // what must not come once the last step was taken; without Is there is nothing
	Within     int64   // ms
	Overlap    bool
	MaxPartial int
}

// Step is one step of a Sought.
type Step[V any] struct {
	Test[V]
	Not      Test[V] // what must not come between the step before and this one; without Is there is nothing
	Strict   bool    // others must not lie before it, nor between its repetitions
	Optional bool
	Repeats  bool // it takes more than Times if they come
	Times    int
}

// Test says which records fit.
type Test[V any] struct {
	Name  string
	Is    func(V) bool
	Where []func(Match[V], V) bool
}

// text is the shape of the pattern in one word, for the fingerprint: what is stored refers to steps by number.
func (p *Sought[V]) text() string {
	var b strings.Builder
	for i, s := range p.Steps {
		if i > 0 {
			b.WriteByte(',')
		}
		if s.Not.Is != nil {
			b.WriteString("!" + s.Not.Name + ",")
		}
		if s.Strict {
			b.WriteByte('.')
		}
		b.WriteString(s.Name)
		if s.Repeats {
			b.WriteString("*" + strconv.Itoa(s.Times))
		}
		if s.Optional {
			b.WriteByte('?')
		}
	}
	if p.Not.Is != nil {
		b.WriteString(",!" + p.Not.Name)
	}
	fmt.Fprintf(&b, ",within=%dms", p.Within)
	return b.String()
}

// Match is the records that a partial or complete match has taken. Its own values are nil while it shows a partial match: it is then valid only as long
// as the function runs that it was given to.
type Match[V any] struct {
	steps       []Step[V]
	values      []V
	taken       []bool
	live        *partials[V]
	part        int
	first, last int64
}

// At is the last record of a step.
func (m Match[V]) At(name string) (v V) {
	i := m.index(name)
	switch {
	case i < 0:
	case m.live == nil:
		v = m.values[i]
	default:
		v = m.live.at(m.part, i)
	}
	return v
}

// Has says whether a step was taken.
func (m Match[V]) Has(name string) bool { return m.index(name) >= 0 }

// index is the number of a step that was taken; -1 if there is none.
func (m Match[V]) index(name string) int {
	for i := range m.steps {
		if m.steps[i].Name != name {
			continue
		}
		if m.live == nil && m.taken[i] || m.live != nil && m.live.ref(m.part, i) >= 0 {
			return i
		}
		break
	}
	return -1
}

// Times are those of the first and the last record; zero if there are none.
func (m Match[V]) Times() (first, last time.Time) {
	if m.steps == nil {
		return first, last
	}
	return time.UnixMilli(m.first).UTC(), time.UnixMilli(m.last).UTC()
}
