package topologytest

import (
	"slices"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
)

// Raw is an undecoded record.
type Raw struct {
	Key, Value []byte // nil is null
	Time       time.Time
	Headers    processor.Headers
	Partition  int32
	Input      int // the record that led to it: 0 for the first one sent to the driver, and so on; -1 if it was a timer. In a changelog, the last one before the commit
}

// Dropped is one record that was dropped, as its source had it. A record that is late for several windows is there several times, as it is
// counted. Key and Value are nil for a record that a timer sent.
type Dropped struct {
	Raw
	Task, Node string
	Reason     processor.Reason
}

func reason(text string) processor.Reason { return processor.Reason(text) }

func headersOf(list []engine.Header) (h processor.Headers) {
	engine.SetHeaders(&h, list)
	return h
}

func (e *entry) raw() Raw {
	return Raw{Key: e.Key, Value: e.Value, Time: time.UnixMilli(e.Time).UTC(), Headers: headersOf(e.Headers), Partition: e.partition, Input: e.input}
}

// written is what the topology wrote to a log and did not take back.
func (l *log) written() (out []Raw) {
	for _, e := range l.all {
		if !e.sent && !e.aborted {
			out = append(out, e.raw())
		}
	}
	return out
}

// Changelog is what was written to a store's changelog, byte for byte and in order, as Kafka would keep it before compaction.
func (d *Driver) Changelog(storeName string) []Raw {
	d.t.Helper()
	if d.failed {
		return nil
	}
	for _, s := range d.graph.Subs {
		for _, decl := range s.Stores {
			if decl.Name != storeName {
				continue
			}
			if decl.Source != "" {
				d.fail("topologytest: store %q has no changelog of its own: topic %s is it", storeName, decl.Source)
				return nil
			}
			l, _ := d.changelog(decl, 0)
			return l.written()
		}
	}
	d.fail("topologytest: the topology has no store %q", storeName)
	return nil
}

// Records is what the topology has written to a topic, by its full name: one of yours, or an internal one such as `app-words-repartition`.
func (d *Driver) Records(topic string) []Raw {
	if l := d.logs[topic]; l != nil {
		return l.written()
	}
	return nil
}

// DeadLetters is what was sent to a dead letter topic, by OnError or OnDrop.
func (d *Driver) DeadLetters(topic string) []Raw { return d.Records(topic) }

// Drops are the records dropped so far for these reasons, in order; for any reason if none is given. What an aborted transaction had dropped is not
// among them.
func (d *Driver) Drops(reasons ...processor.Reason) (out []Dropped) {
	for _, x := range d.drops {
		if len(reasons) == 0 || slices.Contains(reasons, x.Reason) {
			out = append(out, x)
		}
	}
	return out
}
