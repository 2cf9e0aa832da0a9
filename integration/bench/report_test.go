package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/integration/contract"
)

// sample has two runs of kolk and of Kafka Streams that are right, and one that is not.
func sample() *Report {
	result := func(contender string, cpu, wall, rss float64, wrong string) Result {
		return Result{Contender: contender, Scenario: Count, Guarantee: contract.ExactlyOnce, Records: 1_000_000, CPU: cpu, WallS: wall, PeakRSS: rss, Wrong: wrong}
	}
	return &Report{CPUs: 2, Brokers: 1, Results: []Result{
		result(Kolk, 2, 1, 100, ""), result(Streams, 12, 5, 400, ""),
		result(Kolk, 2, 1, 100, ""), result(Streams, 12, 5, 400, ""),
		result(Raw, 0.1, 0.1, 1, "5 keys in the output, 6 expected"),
	}}
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	if err := sample().Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2.00/2.00/2.00", "1000/1000/1000", "400/400/400",
		"count exactly_once kolk:streams  records/s 5.00  CPU s/M 0.167  peak RSS 0.25",
		"WRONG count exactly_once raw #1: 5 keys in the output, 6 expected",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "kolk:raw") {
		t.Errorf("a wrong run is compared:\n%s", b.String())
	}
}

// A deduplication is compared with the count of the same contender.
func TestPrintDedup(t *testing.T) {
	r := sample()
	r.Results = append(r.Results, Result{Contender: Kolk, Scenario: Dedup, Guarantee: contract.ExactlyOnce, Records: 1_000_000, OutRecords: 1 << 20, StateMB: 32, WallS: 2})
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	if want := "dedup exactly_once kolk  bytes on disk an id 32.0  records/s of count's 0.50"; !strings.Contains(b.String(), want) {
		t.Errorf("%q is not in\n%s", want, b.String())
	}
}

func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	if err := sample().Save(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || len(back.Results) != 5 || back.Results[1].CPU != 12 {
		t.Errorf("read back %+v, %v", back, err)
	}
}

func TestDifference(t *testing.T) {
	counts := func(records int64, a, b uint64) expectation {
		return expectation{last: map[string]uint64{"a": a, "b": b}, records: records}
	}
	for _, c := range []struct {
		name, scenario, guarantee string
		want, got                 expectation
		wrong                     string
	}{
		{"equal", Count, contract.ExactlyOnce, counts(3, 1, 2), counts(3, 1, 2), ""},
		{"value", Count, contract.ExactlyOnce, counts(3, 1, 2), counts(3, 2, 2), "1 of 2 keys"},
		{"key", Count, contract.ExactlyOnce, counts(3, 1, 2), expectation{last: map[string]uint64{"a": 1}, records: 3}, "1 keys"},
		{"twice", Count, contract.ExactlyOnce, counts(3, 1, 2), counts(4, 1, 2), "4 output records"},
		{"twice, at least once", Count, contract.AtLeastOnce, counts(3, 1, 2), counts(4, 1, 2), ""},
		{"cached", CountCached, contract.ExactlyOnce, counts(3, 1, 2), counts(2, 1, 2), ""},
		{"join", Join, contract.ExactlyOnce, expectation{records: 1, sum: 7}, expectation{records: 1, sum: 8}, "batch computation"},
	} {
		got := difference(c.scenario, c.guarantee, c.want, c.got)
		if (got == "") != (c.wrong == "") || !strings.Contains(got, c.wrong) {
			t.Errorf("%s: %q, want %q", c.name, got, c.wrong)
		}
	}
}
