package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk"
	"github.com/kolkstreams/kolk/integration/contract"
)

func TestUnknownScenario(t *testing.T) {
	_, err := scenario(contract.Flags{Scenario: "sums", In: []string{"in"}, Out: "out"})
	if err == nil || !strings.Contains(err.Error(), "sums") {
		t.Errorf("error %v, want one that names the scenario", err)
	}
}

func TestTell(t *testing.T) {
	var b strings.Builder
	h := kolk.Health{Tasks: []kolk.TaskHealth{{Restores: []kolk.RestoreProgress{{Records: 2, Bytes: 20}, {Records: 3, Bytes: 30}}}}}
	if err := tell(contract.NewReporter(&b), h, time.Second); err != nil {
		t.Fatal(err)
	}
	if want := "{\"event\":\"restored\",\"records\":5,\"bytes\":50,\"ms\":1000}\n{\"event\":\"running\"}\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
