// Package contract is what the benchmark and its contenders agree on, and what contenders written in Go have in common.
//
// A contender is a process that is started with
//
//	--brokers HOST:PORT,...  --scenario NAME  --guarantee at_least_once|exactly_once  --threads N  --app-id ID
//	--state-dir DIR  --in TOPIC[,TOPIC]  --out TOPIC  --partitions N
//
// and does this:
//
//   - The app-id is its consumer group. Every internal topic's name begins with ID-, a changelog's ends with -changelog.
//   - It starts at the earliest offset, reads committed records only, does not compress what it produces (Kafka's default, alike for all) and logs nothing.
//   - It commits every 100 ms under exactly-once, every 30 s under at-least-once, and at its end.
//   - It prints lines of JSON: {"event":"restored","records":n,"bytes":n,"ms":n} when state has been read back (0 where it does not know), then
//     {"event":"running"} when all partitions are assigned and their state is complete. Nothing else goes to standard output.
//   - On SIGTERM it commits, closes and exits with 0 (or 143). Any other end is an error, and its standard error is shown.
//
// Input and output topics exist and have as many partitions as it is told. It creates its internal topics.
//
// Keys are text of 12 bytes, partitioned as Kafka's default partitioner does. Values are 100 bytes, the first 8 of which are the record's number. Event time moves
// 1 ms a record and is out of order by up to 5 s. The scenarios, with counts as 8 bytes, big endian:
//
//	count         count per key                              key -> count, one record per input record
//	count-cached  the same with the contender's usual cache  key -> count, the last per commit or eviction
//	window        tumbling windows of 1 minute, grace 10 s   key + window start (8 bytes, ms) -> count, every update; one record in 1,000 comes 2 minutes late and is dropped
//	join          inner join with a table of all keys, the   key -> the numbers of both records
//	              second topic, earlier in event time
//	ssjoin        inner join of two streams within 10 s,     key -> left number, right number
//	              grace 30 s
//	dedup         the first record of each key within an     the record
//	              hour, in one partition
package contract

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Guarantees, as the flag names them.
const (
	AtLeastOnce = "at_least_once"
	ExactlyOnce = "exactly_once"
)

// Commit intervals of the two guarantees.
const (
	ExactlyOnceCommit = 100 * time.Millisecond
	AtLeastOnceCommit = 30 * time.Second
)

// Flags are the arguments the driver gives to every contender.
type Flags struct {
	Brokers    []string // seed addresses
	Scenario   string
	Guarantee  string // AtLeastOnce or ExactlyOnce
	Threads    int    // workers
	AppID      string // consumer group, and prefix of internal topics
	StateDir   string
	In         []string // topics: the stream first, then the table or the right side
	Out        string   // topic
	Partitions int      // of every topic
}

// Args are the flags as a command line.
func (f Flags) Args() []string {
	return []string{
		"--brokers", strings.Join(f.Brokers, ","),
		"--scenario", f.Scenario,
		"--guarantee", f.Guarantee,
		"--threads", fmt.Sprint(f.Threads),
		"--app-id", f.AppID,
		"--state-dir", f.StateDir,
		"--in", strings.Join(f.In, ","),
		"--out", f.Out,
		"--partitions", fmt.Sprint(f.Partitions),
	}
}

// Parse reads a command line. The set may hold flags of the contender's own.
func Parse(set *flag.FlagSet, args []string) (Flags, error) {
	var f Flags
	brokers := set.String("brokers", "", "comma separated seed addresses")
	in := set.String("in", "", "comma separated input topics")
	set.StringVar(&f.Scenario, "scenario", "count", "what to run")
	set.StringVar(&f.Guarantee, "guarantee", ExactlyOnce, AtLeastOnce+" or "+ExactlyOnce)
	set.IntVar(&f.Threads, "threads", 1, "workers")
	set.StringVar(&f.AppID, "app-id", "", "application id")
	set.StringVar(&f.StateDir, "state-dir", "", "directory of the local state")
	set.StringVar(&f.Out, "out", "", "output topic")
	set.IntVar(&f.Partitions, "partitions", 0, "partitions of every topic")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	f.Brokers, f.In = strings.Split(*brokers, ","), strings.Split(*in, ",")
	var faults []error
	for _, name := range []string{"brokers", "app-id", "in", "out"} {
		if set.Lookup(name).Value.String() == "" {
			faults = append(faults, fmt.Errorf("--%s is required", name))
		}
	}
	if f.Guarantee != AtLeastOnce && f.Guarantee != ExactlyOnce {
		faults = append(faults, fmt.Errorf("--guarantee %s: want %s or %s", f.Guarantee, AtLeastOnce, ExactlyOnce))
	}
	if f.Partitions < 1 {
		faults = append(faults, fmt.Errorf("--partitions %d: want at least 1", f.Partitions))
	}
	return f, errors.Join(faults...)
}

// Event is one line on standard output.
type Event struct {
	Event   string `json:"event"` // "restored" or "running"
	Records int64  `json:"records,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	Ms      int64  `json:"ms,omitempty"`
}

// Reporter tells the driver how far a contender is.
type Reporter struct{ w io.Writer }

// NewReporter writes events to w.
func NewReporter(w io.Writer) Reporter { return Reporter{w} }

// Running says that all partitions are assigned and their state is complete.
func (r Reporter) Running() error { return r.emit(Event{Event: "running"}) }

// Restored says what a restore read. It comes before Running.
func (r Reporter) Restored(records, bytes int64, took time.Duration) error {
	return r.emit(Event{Event: "restored", Records: records, Bytes: bytes, Ms: took.Milliseconds()})
}

func (r Reporter) emit(e Event) error {
	b, err := json.Marshal(e)
	if err == nil {
		_, err = r.w.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("tell the driver %q: %w", e.Event, err)
	}
	return nil
}

// Main is the main function of a contender. It parses the command line, in which set may have registered flags of its own, runs until SIGTERM and ends
// the process: with status 1 if run fails, 2 if the command line is wrong.
func Main(set *flag.FlagSet, run func(context.Context, Flags, Reporter) error) {
	f, err := Parse(set, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, f, NewReporter(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
