package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/integration/contract"
	"github.com/kolkstreams/kolk/integration/kafka"
)

func TestMain(m *testing.M) { kafka.Main(m) }

func options(contenders, scenarios []string) Options {
	in := testInput
	in.Records, in.Keys = 3_000, 200
	return Options{
		Contenders: contenders, Scenarios: scenarios, Guarantees: []string{contract.ExactlyOnce, contract.AtLeastOnce}, Runs: 1, Threads: 1, Input: in,
	}
}

// The whole procedure on the shared broker, small: what the raw loop gives passes, and is measured.
func TestSession(t *testing.T) {
	o := options([]string{Raw, RawChangelog}, []string{Count, Restore, Start})
	o.Progress = t.Output()
	s, err := newSession(kafka.Shared(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	contenders, err := build(t.Context(), t.TempDir(), o.Contenders, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range o.Scenarios {
		if err := s.scenario(t.Context(), name, contenders); err != nil {
			t.Fatal(err)
		}
	}
	if wrong := s.report.Wrong(); len(wrong) > 0 {
		t.Errorf("wrong: %v", wrong)
	}
	// count: two contenders; restore: one, filled, restored and restarted; start: two. All under both guarantees.
	if n := len(s.report.Results); n != 4+6+4 {
		t.Errorf("%d results", n)
	}
	for _, r := range s.report.Results {
		if r.WallS <= 0 || r.PeakRSS <= 0 || (r.Scenario == Count && r.OutRecords != int64(o.Input.Records)) {
			t.Errorf("%+v", r)
		}
		if r.Scenario == Restore && r.Records < int64(o.Input.Keys) {
			t.Errorf("%d of %d keys restored", r.Records, o.Input.Keys)
		}
	}
}

// kolk gives the right results in every scenario that it has, small: a record every 100 ms, so that windows close and late records come.
func TestKolk(t *testing.T) {
	o := options([]string{Kolk}, []string{Count, CountCached, Window, Join, StreamJoin, Dedup})
	o.Guarantees, o.Input.Step, o.Progress = []string{contract.ExactlyOnce}, 100*time.Millisecond, t.Output()
	s, err := newSession(kafka.Shared(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	contenders, err := build(t.Context(), t.TempDir(), o.Contenders, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range o.Scenarios {
		if err := s.scenario(t.Context(), name, contenders); err != nil {
			t.Fatal(err)
		}
	}
	if wrong := s.report.Wrong(); len(wrong) > 0 {
		t.Errorf("wrong: %v", wrong)
	}
	if n := len(s.report.Results); n != len(o.Scenarios) {
		t.Errorf("%d results, want one for each scenario", n)
	}
	for _, r := range s.report.Results {
		if r.Scenario == Window && (r.OutRecords == 0 || r.OutRecords >= int64(o.Input.Records)) {
			t.Errorf("%d of %d records counted, want less, as some are late", r.OutRecords, o.Input.Records)
		}
	}
}

// A contender that writes nonsense, or ends, is reported as wrong and does not end the session.
func TestWrongContender(t *testing.T) {
	o := options(nil, nil)
	o.Progress = t.Output()
	s, err := newSession(kafka.Shared(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.scenario(t.Context(), Count, []contender{script(t, "echo out of order >&2; exit 1")}); err != nil {
		t.Fatal(err)
	}
	wrong := s.report.Wrong()
	if len(wrong) != 2 || !strings.Contains(wrong[0], "out of order") {
		t.Errorf("wrong: %v, want both guarantees with what the contender said", wrong)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	if err := options([]string{Raw}, slices.Clone(scenarios)).validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Options){
		"scenario":  func(o *Options) { o.Scenarios = []string{"sum"} },
		"guarantee": func(o *Options) { o.Guarantees = []string{"perhaps"} },
		"runs":      func(o *Options) { o.Runs = 0 },
		"input":     func(o *Options) { o.Input.Partitions = 0 },
	} {
		o := options([]string{Raw}, []string{Count})
		spoil(&o)
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("wrong %s passed", name)
		}
	}
}
