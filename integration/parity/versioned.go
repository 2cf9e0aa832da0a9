package parity

import (
	"fmt"
	"math"
	"time"

	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

// versioned is a table with history.
type versioned = topology.VersionedTable[string, *string]

func (g *graph) versionedTable(n Node) {
	g.versioned[n.ID] = g.b.VersionedTable(n.Store, topicOf(n.Topic), bound, time.Duration(n.History)*time.Millisecond)
	g.histories[n.Store] = n.History
}

func (g *graph) joinAsOf(n Node, from stream, right versioned) error {
	s := from.texts
	if from.rekeyed {
		s = s.Repartition(n.Name)
	}
	g.asOf[n.Name] = true
	opts := []topology.AsOfOption{topology.Named(n.Name)}
	if n.Grace > 0 {
		g.buffers[n.Name+"-Buffer"] = true
		opts = append(opts, topology.WaitFor(n.Name+"-Buffer", time.Duration(n.Grace)*time.Millisecond))
	}
	switch n.Op {
	case "join":
		g.streams[n.ID] = stream{texts: s.JoinAsOf(right, joined, opts...)}
	case "leftJoin":
		g.streams[n.ID] = stream{texts: s.LeftJoinAsOf(right, func(l *string, r **string) *string { return joined(l, side(r)) }, opts...)}
	default:
		return errUnsupported
	}
	return nil
}

// sameVersions compares the changelog of a store with history. kolk differs in two points, so that compaction loses nothing: it does not log what is
// too old for the history, and logs the newest version of a key again behind one that is not.
func sameVersions(got []topologytest.Raw, want []Got, history int64) error {
	newest := make(map[string]Got)
	observed := int64(math.MinInt64)
	i := 0
	next := func(w Got) error {
		if i >= len(got) {
			return fmt.Errorf("a record is missing: in %d, key %s, value %s", w.In, quoted(bytesOf(w.Key)), quoted(bytesOf(w.Value)))
		}
		g := got[i]
		i++
		if g.Input != w.In || !sameBytes(g.Key, w.Key) || !sameBytes(g.Value, w.Value) || g.Time.UnixMilli() != w.Time {
			return fmt.Errorf("record %d: %s, not in %d, key %s, value %s, time %d", i-1, show(g), w.In, quoted(bytesOf(w.Key)), quoted(bytesOf(w.Value)), w.Time)
		}
		return nil
	}
	for _, w := range want {
		observed = max(observed, w.Time)
		if w.Time+history < observed {
			continue
		}
		if err := next(w); err != nil {
			return err
		}
		key := string(bytesOf(w.Key))
		last, ok := newest[key]
		if !ok || w.Time >= last.Time {
			newest[key] = w
			continue
		}
		last.In = w.In
		if err := next(last); err != nil {
			return fmt.Errorf("the newest version again: %w", err)
		}
	}
	if i < len(got) {
		return fmt.Errorf("a record too many: %s", show(got[i]))
	}
	return nil
}

// sameBuffer compares the changelog of records that wait. Those of Kafka Streams have no time.
func sameBuffer(got []topologytest.Raw, want []Got) error {
	for i := range got {
		got[i].Time = time.UnixMilli(0)
	}
	return sameChangelog(got, want)
}
