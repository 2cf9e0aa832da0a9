package main

import (
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/topology/topologytest"
)

func TestDeadLetter(t *testing.T) {
	top, err := deadLetter()
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.New(t, top)
	in, out := d.Input(payments), d.Output(inEuros)

	in.Send("1", payment{"EUR", 10})
	in.SendBytes([]byte("2"), []byte("ten euros"))
	in.Send("3", payment{"XAU", 1})
	in.Send("4", payment{"EUR", -1})
	in.Send("5", payment{"USD", 100})

	out.Next("1", 10)
	out.Next("5", 92)
	out.None()

	letters := d.DeadLetters(rejected)
	if len(letters) != 2 {
		t.Fatalf("%d dead letters, want 2", len(letters))
	}
	if string(letters[0].Key) != "2" || string(letters[0].Value) != "ten euros" {
		t.Errorf("the first dead letter is %q: %q, not the record as it came", letters[0].Key, letters[0].Value)
	}
	if node, _ := letters[1].Headers.Get("kolk.node"); string(node) != "convert" {
		t.Errorf("the second dead letter came from %q", node)
	}
	if why, _ := letters[1].Headers.Get("__streams.errors.message"); !strings.Contains(string(why), `no rate for currency "XAU"`) {
		t.Errorf("the second dead letter says %q", why)
	}
	if n := len(d.Drops(processor.Skipped)); n != 3 {
		t.Errorf("%d records were left out, want 3: two dead letters and one skipped", n)
	}
}
