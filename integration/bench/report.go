package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/kolkstreams/kolk/integration/contract"
)

// Result is one run of one contender. Times are seconds, CPU is user plus system time, sizes are MiB.
type Result struct {
	Contender string `json:"contender"`
	Scenario  string `json:"scenario"`
	Guarantee string `json:"guarantee"`
	Threads   int    `json:"threads"`
	Run       int    `json:"run"`             // negative for a warm-up that failed
	Wrong     string `json:"wrong,omitempty"` // why it does not count

	Records   int64   `json:"records"`    // processed; in restore: read back
	StartS    float64 `json:"start_s"`    // process start to running
	WallS     float64 `json:"wall_s"`     // running to done; in restore, restart and start: process start to running
	CloseS    float64 `json:"close_s"`    // SIGTERM to end
	StartCPU  float64 `json:"start_cpu"`  // until running
	CPU       float64 `json:"cpu"`        // of wall_s
	TotalCPU  float64 `json:"total_cpu"`  // of the whole life of the process
	BrokerCPU float64 `json:"broker_cpu"` // of all brokers during wall_s; 0 if they run elsewhere
	OtherCPU  float64 `json:"other_cpu"`  // of everything else on the machine during wall_s

	PeakRSS  float64         `json:"peak_rss_mb"`
	AnonRSS  float64         `json:"anon_rss_mb"` // at done, without mapped files
	StateMB  float64         `json:"state_mb"`    // after the close; in restore: at running
	Restored *contract.Event `json:"restored,omitempty"`
	Expelled int             `json:"expelled,omitempty"` // members the process before had left in its group

	OutRecords       int64              `json:"out_records"`
	OutMB            float64            `json:"out_mb"` // on the broker's disk, one replica
	ChangelogRecords int64              `json:"changelog_records"`
	ChangelogMB      float64            `json:"changelog_mb"`
	InternalTopics   map[string]float64 `json:"internal_topics_mb"`
	ThreadCPU        map[string]float64 `json:"thread_cpu"` // at done, by thread name
}

// perMillion is CPU seconds per million records.
func (r Result) perMillion(cpu float64) float64 { return cpu / max(float64(r.Records), 1) * 1e6 }

// rate is records per second.
func (r Result) rate() float64 { return float64(r.Records) / max(r.WallS, 1e-9) }

// Report is what a session measured.
type Report struct {
	Input   Input    `json:"input"`
	CPUs    int      `json:"cpus"`
	Brokers int      `json:"brokers"` // 0 if they run elsewhere
	Results []Result `json:"results"`
}

// Wrong are the runs that do not count, with the reason; none if all results were right.
func (r *Report) Wrong() (all []string) {
	for _, res := range r.Results {
		if res.Wrong != "" {
			all = append(all, fmt.Sprintf("%s %s %s #%d: %s", res.Scenario, res.Guarantee, res.Contender, res.Run+1, res.Wrong))
		}
	}
	return all
}

// Save writes everything to a file, as JSON.
func (r *Report) Save(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// group is what is compared: the runs of one contender under equal conditions.
type group struct{ scenario, guarantee, contender string }

// groups sorts the results that count, in order of their first run.
func (r *Report) groups() (order []group, runs map[group][]Result) {
	runs = map[group][]Result{}
	for _, res := range r.Results {
		if res.Wrong != "" {
			continue
		}
		g := group{res.Scenario, res.Guarantee, res.Contender}
		if runs[g] == nil {
			order = append(order, g)
		}
		runs[g] = append(runs[g], res)
	}
	return order, runs
}

// Print writes one row per contender, scenario and guarantee, where a cell with three numbers is min/median/max, and then kolk's share of the others' cost.
func (r *Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join([]string{"scenario", "guarantee", "contender", "runs", "wall s", "k records/s", "CPU s/M", "broker CPU s/M", "CPU s start",
		"CPU s total", "peak RSS MB", "anon MB", "state MB", "changelog k", "changelog MB", "out k", "out MB", "other CPU %"}, "\t"))
	order, runs := r.groups()
	for _, g := range order {
		fmt.Fprintln(t, strings.Join(r.row(g, runs[g]), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, line := range ratios(order, runs) {
		fmt.Fprintln(w, line)
	}
	for _, line := range r.Wrong() {
		fmt.Fprintln(w, "WRONG", line)
	}
	return nil
}

func (r *Report) row(g group, all []Result) []string {
	three := func(format string, f func(Result) float64) string {
		low, mid, high := spread(all, f)
		return fmt.Sprintf(format+"/"+format+"/"+format, low, mid, high)
	}
	middle := func(format string, f func(Result) float64) string { return fmt.Sprintf(format, median(all, f)) }
	cpu, broker, rate := "-", "-", "-"
	if all[0].Records > 0 {
		cpu = three("%.2f", func(r Result) float64 { return r.perMillion(r.CPU) })
		rate = three("%.0f", func(r Result) float64 { return r.rate() / 1000 })
		if r.Brokers > 0 {
			broker = middle("%.2f", func(r Result) float64 { return r.perMillion(r.BrokerCPU) })
		}
	}
	return []string{g.scenario, g.guarantee, g.contender, fmt.Sprint(len(all)),
		three("%.2f", func(r Result) float64 { return r.WallS }), rate, cpu, broker,
		middle("%.2f", func(r Result) float64 { return r.StartCPU }),
		middle("%.1f", func(r Result) float64 { return r.TotalCPU }),
		three("%.0f", func(r Result) float64 { return r.PeakRSS }),
		middle("%.0f", func(r Result) float64 { return r.AnonRSS }),
		middle("%.1f", func(r Result) float64 { return r.StateMB }),
		middle("%.0f", func(r Result) float64 { return float64(r.ChangelogRecords) / 1000 }),
		middle("%.0f", func(r Result) float64 { return r.ChangelogMB }),
		middle("%.0f", func(r Result) float64 { return float64(r.OutRecords) / 1000 }),
		middle("%.0f", func(r Result) float64 { return r.OutMB }),
		middle("%.0f", func(res Result) float64 { return res.OtherCPU / max(res.WallS, 1e-9) / float64(r.CPUs) * 100 }),
	}
}

// ratios has one line for each contender beside kolk, of medians, and one for its deduplication, which has none beside it.
func ratios(order []group, runs map[group][]Result) (lines []string) {
	for _, g := range order {
		if g.scenario == Dedup {
			line := fmt.Sprintf("%s %s %s  bytes on disk an id %.1f", g.scenario, g.guarantee, g.contender,
				median(runs[g], func(r Result) float64 { return r.StateMB * (1 << 20) / max(float64(r.OutRecords), 1) }))
			if counts := runs[group{Count, g.guarantee, g.contender}]; len(counts) > 0 {
				line += fmt.Sprintf("  records/s of count's %.2f", median(runs[g], Result.rate)/max(median(counts, Result.rate), 1e-9))
			}
			lines = append(lines, line)
			continue
		}
		ours := runs[group{g.scenario, g.guarantee, Kolk}]
		if g.contender == Kolk || len(ours) == 0 || ours[0].Records == 0 || runs[g][0].Records == 0 {
			continue
		}
		ratio := func(f func(Result) float64) float64 { return median(ours, f) / max(median(runs[g], f), 1e-9) }
		lines = append(lines, fmt.Sprintf("%s %s kolk:%s  records/s %.2f  CPU s/M %.3f  peak RSS %.2f", g.scenario, g.guarantee, g.contender,
			ratio(Result.rate), ratio(func(r Result) float64 { return r.perMillion(r.CPU) }), ratio(func(r Result) float64 { return r.PeakRSS })))
	}
	return lines
}

func median(all []Result, f func(Result) float64) float64 {
	_, mid, _ := spread(all, f)
	return mid
}

func spread(all []Result, f func(Result) float64) (low, mid, high float64) {
	var v []float64
	for _, r := range all {
		v = append(v, f(r))
	}
	slices.Sort(v)
	return v[0], v[len(v)/2], v[len(v)-1]
}
