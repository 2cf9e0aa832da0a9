package contract

import (
	"errors"
	"flag"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestArgsAreParsedBack(t *testing.T) {
	want := Flags{
		Brokers: []string{"a:1", "b:2"}, Scenario: "join", Guarantee: AtLeastOnce, Threads: 3, AppID: "app", StateDir: "dir",
		In: []string{"left", "right"}, Out: "out", Partitions: 4,
	}
	set := flag.NewFlagSet("x", flag.ContinueOnError)
	own := set.Bool("own", false, "a flag of the contender")
	got, err := Parse(set, append([]string{"--own"}, want.Args()...))
	if err != nil || !reflect.DeepEqual(got, want) || !*own {
		t.Errorf("%+v, own %v, %v; want %+v", got, *own, err, want)
	}
}

func TestParseNamesAllFaults(t *testing.T) {
	_, err := Parse(flag.NewFlagSet("x", flag.ContinueOnError), []string{"--guarantee", "perhaps"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"--brokers", "--in", "--out", "--app-id", "perhaps", "--partitions"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %s: %v", part, err)
		}
	}
}

func TestReporter(t *testing.T) {
	var b strings.Builder
	r := NewReporter(&b)
	if err := errors.Join(r.Restored(7, 0, 12*time.Millisecond), r.Running()); err != nil {
		t.Fatal(err)
	}
	if want := "{\"event\":\"restored\",\"records\":7,\"ms\":12}\n{\"event\":\"running\"}\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestReporterWithoutDriver(t *testing.T) {
	r, w := io.Pipe()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := NewReporter(w).Running(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want that the pipe is closed", err)
	}
}
