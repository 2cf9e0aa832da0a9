package topology_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

var (
	scans = topology.NewTopic("scans", serde.String(), serde.String()) // by gate
	// minutely are windows of a minute, in which a scan may be ten seconds late.
	minutely = window.Tumbling(time.Minute).Grace(10 * time.Second)
	loads    = topology.NewTopic("loads", window.KeySerde(serde.String(), minutely), serde.Int64())
	parts    = topology.NewTopic("parts", window.SessionKeySerde(serde.String()), serde.Int64())
	plain    = topology.NewTopic("plain", serde.String(), serde.String())
)

// driver tests a topology that must be right.
func driver(b *topology.Builder) *topologytest.Driver {
	top, err := b.Build()
	if err != nil {
		panic(err)
	}
	return topologytest.New(new(testing.T), top)
}

// One result per gate and minute. It is sent when a later record closes the minute: the last one stays open, and what comes for a closed one is late.
func ExampleWindowTable_Final() {
	b := topology.New()
	b.Stream(scans).GroupByKey().Windowed(minutely).Count("scans").Final().To(loads)
	d := driver(b)
	in, out := d.Input(scans), d.Output(loads)
	show := func() {
		for _, r := range out.Take() {
			fmt.Println(r.Key.Key, r.Key.Start().Format(time.TimeOnly), r.Value)
		}
	}
	in.SendAt(d.At(10*time.Second), "gate 1", "anna")
	in.SendAt(d.At(65*time.Second), "gate 1", "bert") // a minute later, but the grace is not over
	in.SendAt(d.At(50*time.Second), "gate 1", "carl") // late, and in time
	show()
	in.SendAt(d.At(70*time.Second), "gate 2", "dora") // any key moves stream time
	show()
	in.SendAt(d.At(59*time.Second), "gate 1", "emil")
	fmt.Println(len(d.Drops(processor.Late)), "late")
	// Output:
	// gate 1 00:00:00 2
	// 1 late
}

// The same with every update, as a dashboard wants it.
func ExampleWindowTable_To() {
	b := topology.New()
	b.Stream(scans).GroupByKey().Windowed(minutely).Count("scans").To(loads)
	d := driver(b)
	in := d.Input(scans)
	in.SendAt(d.At(10*time.Second), "gate 1", "anna")
	in.SendAt(d.At(65*time.Second), "gate 1", "bert")
	in.SendAt(d.At(50*time.Second), "gate 1", "carl")
	for _, r := range d.Output(loads).Take() {
		fmt.Println(r.Key.Key, r.Key.Start().Format(time.TimeOnly), r.Value)
	}
	// Output:
	// gate 1 00:00:00 1
	// gate 1 00:01:00 1
	// gate 1 00:00:00 2
}

// Scans of a gate with no pause of more than a minute belong together. A late one may join what was two: both are deleted under their old starts and ends.
func ExampleGrouped_Sessions() {
	b := topology.New()
	b.Stream(scans).GroupByKey().Sessions(window.Sessions(time.Minute).Grace(time.Minute)).Count("rushes").To(parts)
	d := driver(b)
	in := d.Input(scans)
	in.SendAt(d.At(0), "gate 1", "anna")
	in.SendAt(d.At(90*time.Second), "gate 1", "bert")
	in.SendAt(d.At(45*time.Second), "gate 1", "carl")
	for _, r := range d.Output(parts).Take() {
		value := fmt.Sprint(r.Value)
		if r.Deleted {
			value = "deleted"
		}
		fmt.Printf("%s to %s: %s\n", r.Key.Start().Format(time.TimeOnly), r.Key.End().Format(time.TimeOnly), value)
	}
	// Output:
	// 00:00:00 to 00:00:00: 1
	// 00:01:30 to 00:01:30: 1
	// 00:00:00 to 00:00:00: deleted
	// 00:01:30 to 00:01:30: deleted
	// 00:00:00 to 00:01:30: 3
}

// A scanner that reads a badge twice within ten seconds has one reader.
func ExampleStream_Deduplicate() {
	b := topology.New()
	b.Stream(scans).Deduplicate("seen", 10*time.Second, func(gate, badge string) string { return gate + "/" + badge }).To(plain)
	d := driver(b)
	in := d.Input(scans)
	in.SendAt(d.At(0), "gate 1", "anna")
	in.SendAt(d.At(2*time.Second), "gate 1", "anna")
	in.SendAt(d.At(2*time.Second), "gate 1", "bert")
	in.SendAt(d.At(11*time.Second), "gate 1", "anna")
	for _, r := range d.Output(plain).Take() {
		fmt.Println(r.Time.Sub(d.At(0)), r.Value)
	}
	// Output:
	// 0s anna
	// 2s bert
	// 11s anna
}

// A door that is opened and not closed within a minute. That nothing came is known once stream time has passed the minute.
func ExampleStream_Sequence() {
	open := func(v string) bool { return v == "open" }
	shut := func(v string) bool { return v == "shut" }
	b := topology.New()
	b.Stream(scans).Sequence("left-open", topology.First("opened", open).ThenNot("closed", shut).Within(time.Minute),
		func(gate string, _ topology.Match[string]) string { return gate + " was left open" }).To(plain)
	d := driver(b)
	in := d.Input(scans)
	in.SendAt(d.At(0), "gate 1", "open")
	in.SendAt(d.At(10*time.Second), "gate 2", "open")
	in.SendAt(d.At(30*time.Second), "gate 2", "shut")
	in.SendAt(d.At(2*time.Minute), "gate 3", "open")
	for _, r := range d.Output(plain).Take() {
		fmt.Println(r.Time.Sub(d.At(0)), r.Value)
	}
	// Output:
	// 1m0s gate 1 was left open
}
