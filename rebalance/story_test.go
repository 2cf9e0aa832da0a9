package rebalance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write what the stories in testdata answer instead of checking it")

// TestStories runs the files in testdata. Each is a list of commands, with
// what follows from them below "----", up to an empty line. Commands are
//
//	topics NAME=PARTITIONS...
//	build NAME SUB:TOPIC,TOPIC:stateful|stateless:FINGERPRINT...
//	join PROCESS build=NAME [workers=N] [instance=ID]
//	kill PROCESS
//	wipe PROCESS      lose its local state
//	work N            every stateful task writes N records
//	restart PROCESS build=NAME   a static member comes back unnoticed
//	force             give the broker a reason for a rebalance
//	round             rebalance once
//	settle            rebalance until nothing follows
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.story")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".story"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(text), got); d != "" {
				t.Errorf("(-file +now; -rewrite accepts it)\n%s", d)
			}
		})
	}
}

// tell runs a story and returns it with the answers of now.
func tell(text string) string {
	var out strings.Builder
	st := story{sim: newSim(map[string]int32{}), builds: map[string][]SubTopology{}}
	for _, block := range strings.Split(strings.TrimRight(text, "\n"), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		out.WriteString(commands + "\n")
		st.out.Reset()
		answers := false
		for _, line := range strings.Split(commands, "\n") {
			if strings.HasPrefix(line, "#") {
				continue
			}
			answers = true
			if err := st.run(strings.Fields(line)); err != nil {
				fmt.Fprintf(&st.out, "error: %v\n", err)
			}
		}
		if answers {
			out.WriteString("----\n" + st.out.String())
		}
	}
	return out.String()
}

type story struct {
	sim    *sim
	builds map[string][]SubTopology
	out    strings.Builder
}

func (st *story) run(words []string) error {
	if len(words) == 0 {
		return nil
	}
	verb, args := words[0], words[1:]
	options := make(map[string]string)
	for _, a := range args {
		if k, v, ok := strings.Cut(a, "="); ok {
			options[k] = v
		}
	}
	switch verb {
	case "topics":
		for name, n := range options {
			count, err := strconv.Atoi(n)
			if err != nil {
				return err
			}
			st.sim.counts[name] = int32(count)
			st.sim.changed = true
		}
	case "build":
		var subs []SubTopology
		for _, a := range args[1:] {
			f := strings.Split(a, ":")
			if len(f) != 4 {
				return fmt.Errorf("sub-topology %q", a)
			}
			id, err := strconv.Atoi(f[0])
			if err != nil {
				return err
			}
			fp, err := strconv.ParseUint(f[3], 16, 64)
			if err != nil {
				return err
			}
			subs = append(subs, SubTopology{ID: id, Topics: strings.Split(f[1], ","), Stateful: f[2] == "stateful", Fingerprint: fp})
		}
		st.builds[args[0]] = subs
	case "join":
		workers := 1
		if w, ok := options["workers"]; ok {
			var err error
			if workers, err = strconv.Atoi(w); err != nil {
				return err
			}
		}
		return st.sim.join(args[0], options["instance"], workers, st.builds[options["build"]])
	case "kill":
		st.sim.kill(args[0])
	case "wipe":
		clear(st.sim.disks[args[0]])
	case "work":
		n, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return err
		}
		st.sim.work(n)
	case "restart":
		i := slices.IndexFunc(st.sim.members, func(m *simMember) bool { return m.process == args[0] })
		if err := st.sim.restart(i, 1, st.builds[options["build"]]); err != nil {
			return err
		}
		st.print()
	case "force":
		st.sim.changed = true
	case "round":
		if err := st.sim.round(); err != nil {
			return err
		}
		st.print()
	case "settle":
		return st.sim.settle(st.print)
	default:
		return fmt.Errorf("unknown command %q", verb)
	}
	return nil
}

func (st *story) print() {
	fmt.Fprintf(&st.out, "generation %d", st.sim.generation)
	if a := st.sim.members[0].b.Assignment(); a.Withheld > 0 || len(a.Missing) > 0 {
		if a.Withheld > 0 {
			fmt.Fprintf(&st.out, ", %d partitions withheld", a.Withheld)
		}
		if err := a.Err(); err != nil {
			fmt.Fprintf(&st.out, ", missing %s", strings.Join(a.Missing, " "))
		}
	}
	st.out.WriteString("\n")
	for _, m := range st.sim.members {
		fmt.Fprintf(&st.out, "  %s:", m.process)
		a := m.b.Assignment()
		for _, t := range a.Tasks {
			lag := ""
			for _, sub := range m.build {
				key := topicPartition{sub.Topics[0], t.Partition}
				if sub.ID == t.Sub && st.sim.ends[key] > st.sim.disks[m.process][key] {
					lag = fmt.Sprintf("(lag %d)", st.sim.ends[key]-st.sim.disks[m.process][key])
				}
			}
			fmt.Fprintf(&st.out, " %s%s", t, lag)
		}
		if a.Rejoin {
			st.out.WriteString(" (rejoins)")
		}
		st.out.WriteString("\n")
	}
}
