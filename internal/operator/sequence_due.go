package operator

import (
	"bytes"
	"math"
	"slices"
	"sort"

	"github.com/kolkstreams/kolk/store"
)

// agenda is the dueRows of a Sequence's store in order of time, then of encoded key. It holds the first ones in memory, twice atOnce at most, so that
// the store is asked once for many.
type agenda[K comparable] struct {
	rows    store.KeyValue[sequenceRow[K], sequenceState]
	keys    sequenceRows[K]
	ahead   []sequenceRow[K]
	pos     int // what is before was taken out
	atOnce  int
	horizon int64 // all rows that are due up to here are in ahead, but for those taken out
	a, b    []byte
}

func newAgenda[K comparable](rows store.KeyValue[sequenceRow[K], sequenceState], keys sequenceRows[K], atOnce int) *agenda[K] {
	return &agenda[K]{rows: rows, keys: keys, atOnce: atOnce, horizon: -1}
}

// next takes the first row out, if it is due before a time. Some rows may have been deleted since. Whoever takes a row out deletes it.
func (a *agenda[K]) next(before int64) (row sequenceRow[K], ok bool) {
	for {
		if a.pos < len(a.ahead) {
			if row = a.ahead[a.pos]; row.due >= before {
				return row, false
			}
			if a.pos++; a.pos >= a.atOnce || a.pos == len(a.ahead) {
				a.ahead, a.pos = slices.Delete(a.ahead, 0, a.pos), 0
			}
			return row, true
		}
		if a.horizon >= before-1 {
			return row, false
		}
		a.fill(before)
	}
}

// first is when the first row is due; the largest time if there is none.
func (a *agenda[K]) first() int64 {
	if a.pos == len(a.ahead) && a.horizon < math.MaxInt64 {
		a.fill(math.MaxInt64)
	}
	switch {
	case a.pos < len(a.ahead):
		return a.ahead[a.pos].due
	case a.horizon < math.MaxInt64:
		return a.horizon + 1
	}
	return math.MaxInt64
}

// fill reads on from the horizon, when there is nothing ahead.
func (a *agenda[K]) fill(before int64) {
	clear(a.ahead)
	a.ahead, a.pos = a.ahead[:0], 0
	from := sequenceRow[K]{kind: bound, due: a.horizon + 1}
	a.horizon = math.MaxInt64
	for row := range a.rows.Range(from, sequenceRow[K]{kind: bound, due: math.MaxInt64}) {
		n := len(a.ahead)
		if n < a.atOnce {
			a.ahead = append(a.ahead, row)
			continue
		}
		last := a.ahead[n-1].due
		if a.horizon = last; row.due == last {
			// There are more of this time. If it is the first and has come, no row of it is added any more, and the others are found when these are deleted.
			a.horizon--
			if last >= before || a.ahead[0].due != last {
				a.cut(last)
			}
		}
		return
	}
}

// insert is called for each row that is written.
func (a *agenda[K]) insert(row sequenceRow[K]) error {
	if row.due > a.horizon {
		return nil
	}
	i := a.from(row.due + 1)
	var err error
	if i > a.pos && a.ahead[i-1].due == row.due {
		if a.a, err = a.keys.Encode(a.a[:0], row); err != nil {
			return err
		}
	}
	for ; i > a.pos && a.ahead[i-1].due == row.due; i-- {
		if a.b, err = a.keys.Encode(a.b[:0], a.ahead[i-1]); err != nil {
			return err
		}
		if bytes.Compare(a.b, a.a) <= 0 {
			break
		}
	}
	a.ahead = slices.Insert(a.ahead, i, row)
	if len(a.ahead)-a.pos > 2*a.atOnce {
		due := a.ahead[a.pos+a.atOnce].due
		a.cut(due)
		a.horizon = due - 1
	}
	return nil
}

// from is the place of the first row that is due at a time or later.
func (a *agenda[K]) from(due int64) int {
	return a.pos + sort.Search(len(a.ahead)-a.pos, func(i int) bool { return a.ahead[a.pos+i].due >= due })
}

// cut forgets the rows that are due at a time or later.
func (a *agenda[K]) cut(due int64) {
	i := a.from(due)
	clear(a.ahead[i:])
	a.ahead = a.ahead[:i]
}
