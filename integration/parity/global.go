package parity

import (
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/topology"
)

// keyed is a value with what a function makes of its record, for look-ups that must see whether the record's key is null.
type keyed struct{ value, key *string }

func (g *graph) joinGlobal(n Node, from stream, right topology.GlobalTable[string, *string]) error {
	f, err := functionOf(n.Fn)
	if err != nil {
		return err
	}
	type fixed = processor.FixedKeyRecord[string, *string]
	with := from.MapRecordValues(func(r fixed) processor.FixedKeyRecord[string, *keyed] {
		switch key := r.Key(); {
		case r.Value == nil:
			return r.WithValue[*keyed](nil)
		case r.NullKey():
			return r.WithValue(&keyed{r.Value, f(nil, r.Value)})
		default:
			return r.WithValue(&keyed{r.Value, f(&key, r.Value)})
		}
	})
	key := func(_ string, v *keyed) (string, bool) {
		if v.key == nil {
			return "", false
		}
		return *v.key, true
	}
	switch n.Op {
	case "join":
		g.streams[n.ID] = stream{with.JoinGlobal(right, key, func(l *keyed, r *string) *string { return joined(l.value, r) }), from.rekeyed}
	case "leftJoin":
		g.streams[n.ID] = stream{with.LeftJoinGlobal(right, key, func(l *keyed, r **string) *string { return joined(l.value, side(r)) }), from.rekeyed}
	default:
		return errUnsupported
	}
	return nil
}
