package exactlyonce

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

var rewrite = flag.Bool("rewrite", false, "write what the machine does into testdata, and the table of errors into doc.go")

// A story is a file of inputs. Under each, indented, stands what the machine asks for, and the state it is in then.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := tell(t, string(want))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("the machine does otherwise:\n%s", got)
			}
		})
	}
}

func tell(t *testing.T, text string) string {
	var out strings.Builder
	var m *machine
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue
		}
		fmt.Fprintln(&out, line)
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		switch words[0] {
		case "new":
			m = &machine{timeout: 10 * time.Second, implicit: words[2] == "v2"}
			if words[1] == "at-least-once" {
				m.guarantee = AtLeastOnce
			}
		case "after":
			d, err := time.ParseDuration(words[1])
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(d)
		default:
			ev, err := parseEvent(words)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			ev.now = now
			fmt.Fprintf(&out, "  %s\n", describe(m, m.step(ev)))
		}
	}
	return out.String()
}

var eventNames = map[string]eventKind{"record": evRecord, "commit": evCommit, "abort": evAbort, "done": evDone, "failed": evFailed, "owner": evOwner,
	"stranger": evStranger, "timeout": evTimeout, "denied": evDenied, "resume": evResume, "open": evOpen}

func parseEvent(words []string) (event, error) {
	kind, ok := eventNames[words[0]]
	if !ok {
		return event{}, errors.New("unknown input")
	}
	ev := event{kind: kind}
	words = words[1:]
	if kind == evFailed {
		code := words[len(words)-1]
		name := strings.Join(words[:len(words)-1], " ")
		for r, n := range requestNames {
			if n == name {
				ev.req = Request(r)
			}
		}
		if ev.req == reqNone {
			return ev, fmt.Errorf("unknown request %q", name)
		}
		ev.err = errorNamed(code)
		if ev.err == nil {
			return ev, fmt.Errorf("unknown error %q", code)
		}
		return ev, nil
	}
	for _, w := range words {
		key, val, _ := strings.Cut(w, "=")
		n, err := strconv.Atoi(val)
		if err != nil && key != "member" {
			return ev, err
		}
		switch key {
		case "offsets":
			ev.offsets = n
		case "acked":
			ev.acked = int64(n)
		case "generation":
			ev.identity.Generation = int32(n)
		case "member":
			ev.identity.Member = val
		default:
			return ev, fmt.Errorf("unknown word %q", w)
		}
	}
	return ev, nil
}

// errorNamed finds a code by its name, or one of the classes.
func errorNamed(name string) error {
	switch name {
	case "transport":
		return errors.New("EOF")
	case "ended":
		return errEnded
	case "moved":
		return errProducerMoved
	case "encoding":
		return ErrStage
	}
	for code := int16(-1); code < 200; code++ {
		if e, ok := kerr.ErrorForCode(code).(*kerr.Error); ok && e.Message == name {
			return e
		}
	}
	return nil
}

func describe(m *machine, a action) string {
	var b strings.Builder
	if a.wait > 0 {
		fmt.Fprintf(&b, "wait %v, ", a.wait)
	}
	b.WriteString(a.kind.String())
	if a.kind == actReturn {
		fmt.Fprintf(&b, " %v", m.out.Kind)
		if m.out.Reopened {
			b.WriteString(", reopened")
		}
		if m.out.TimedOut {
			b.WriteString(", timed out")
		}
		if m.out.Replays > 0 {
			fmt.Fprintf(&b, ", replays %d", m.out.Replays)
		}
		if m.out.Err != nil {
			fmt.Fprintf(&b, ", %s", strings.ReplaceAll(m.out.Err.Error(), "\n", "; "))
		}
	}
	fmt.Fprintf(&b, "  [%v", m.state)
	if m.txn != txnNone {
		b.WriteString(", open")
	}
	if m.broken != nil {
		b.WriteString(", broken")
	}
	b.WriteString("]")
	return b.String()
}

// sample makes an error that the row stands for.
func sample(row Row) error {
	switch row.Err {
	case errAnyTransport, errAnyClient:
		return errors.New("EOF")
	case errAnyRetriable:
		return kerr.NetworkException
	case errAnyOther:
		return kerr.UnsupportedVersion
	}
	return fmt.Errorf("while asking: %w", row.Err)
}

func TestEveryErrorHasItsRow(t *testing.T) {
	for i, row := range table {
		if got := Classify(row.Request, sample(row)); got != row {
			t.Errorf("row %d (%v, %v) is hidden by (%v, %v)", i, row.Request, row.Err, got.Request, got.Err)
		}
		if row.Why == "" || row.Meaning == 0 {
			t.Errorf("row %d (%v, %v) does not say what it means", i, row.Request, row.Err)
		}
		if needs := row.Meaning == Retry || row.Meaning == Await; needs != (row.Then != 0) {
			t.Errorf("row %d (%v, %v): %v then %v", i, row.Request, row.Err, row.Meaning, row.Then)
		}
	}
	for r := ReqBegin; r <= ReqFence; r++ {
		errs := []error{errors.New("EOF"), errEnded}
		for code := int16(-1); code < 140; code++ {
			if err := kerr.ErrorForCode(code); err != nil {
				errs = append(errs, err)
			}
		}
		for _, err := range errs {
			if row := Classify(r, err); row.Why == "not in the table" {
				t.Errorf("%v: no row for %v", r, err)
			}
		}
	}
}

// at brings a machine to the point where a request is in hand.
func at(t *testing.T, r Request, g Guarantee) *machine {
	t.Helper()
	m := &machine{guarantee: g, implicit: r != ReqAddOffsets, timeout: 10 * time.Second}
	now := time.Unix(1000, 0)
	step := func(want actionKind, ev event) {
		t.Helper()
		ev.now = now
		if a := m.step(ev); a.kind != want {
			t.Fatalf("on the way to %v: %v, want %v", r, a.kind, want)
		}
	}
	record := func() {
		t.Helper()
		if g == AtLeastOnce {
			step(actNone, event{kind: evRecord})
			return
		}
		step(actBegin, event{kind: evRecord})
		if r == ReqBegin {
			return
		}
		if m.implicit {
			step(actRegister, event{kind: evDone})
			if r == ReqRegister {
				return
			}
		}
		step(actNone, event{kind: evDone})
	}
	switch r {
	case ReqInitProducerID:
		step(actReopen, event{kind: evOpen})
		return m
	case ReqOffsetCommit:
		if g == AtLeastOnce {
			record()
		}
	default:
		record()
	}
	if r == ReqBegin || r == ReqRegister {
		return m
	}
	if r == ReqEndAbort {
		step(actEndAbort, event{kind: evAbort, acked: 1})
		return m
	}
	step(actGuard, event{kind: evCommit, offsets: 1, acked: 1})
	step(actStage, event{kind: evOwner})
	if r == ReqStage {
		return m
	}
	if r == ReqOffsetCommit && g == ExactlyOnce {
		step(actOffsets, event{kind: evDone})
		return m
	}
	step(actFlush, event{kind: evDone})
	if r == ReqProduce {
		return m
	}
	if r == ReqOffsetCommit {
		step(actOffsets, event{kind: evDone})
		return m
	}
	if r == ReqAddOffsets {
		step(actAddOffsets, event{kind: evDone})
		return m
	}
	step(actTxnOffsets, event{kind: evDone})
	if r == ReqTxnOffsetCommit {
		return m
	}
	step(actEndCommit, event{kind: evDone})
	if r == ReqEndCommit {
		return m
	}
	step(actReopen, event{kind: evFailed, req: ReqEndCommit, err: errors.New("EOF")})
	step(actCompare, event{kind: evDone})
	return m
}

// finish answers everything a machine asks with success until it returns.
func finish(t *testing.T, m *machine, a action) (done []actionKind) {
	t.Helper()
	for range 20 {
		if a.kind == actReturn || a.kind == actNone {
			return done
		}
		done = append(done, a.kind)
		ev := event{kind: evDone, now: time.Unix(1000, 0)}
		switch a.kind {
		case actGuard, actAwait:
			ev = event{kind: evOwner, identity: Identity{Member: "m", Generation: 7}}
		case actCompare:
			ev.kind = evDenied
		}
		a = m.step(ev)
	}
	t.Fatalf("no end: %v", done)
	return nil
}

// Each row of the table, in the place where it comes up: what the machine does first, and how the cycle ends.
func TestEveryRowInTheMachine(t *testing.T) {
	type end struct {
		kind  Kind
		state state
	}
	ends := map[Meaning]end{
		Replay: {Aborted, idle}, Renew: {Aborted, idle}, Unknown: {Aborted, idle}, Refuse: {Refused, refused},
		Reject: {Rejected, idle}, Fail: {Fatal, dead}, Abandon: {Abandoned, dead}, Await: {Committed, idle}, Retry: {Committed, idle},
	}
	for _, row := range table {
		if row.Request == ReqFence || row.Meaning == Skip && row.Request == ReqOffsetFetch {
			continue // not the machine's: Fencer and fetchOffsets look these up themselves
		}
		for _, g := range []Guarantee{ExactlyOnce, AtLeastOnce} {
			if g == AtLeastOnce && row.Request != ReqProduce && row.Request != ReqStage && row.Request != ReqOffsetCommit {
				continue
			}
			t.Run(fmt.Sprintf("%v/%v/%v", g, row.Request, row.Err), func(t *testing.T) {
				m := at(t, row.Request, g)
				now := time.Unix(1000, 0)
				fail := event{kind: evFailed, req: row.Request, err: sample(row), now: now}
				a := m.step(fail)
				switch row.Request {
				case ReqInitProducerID:
					want := end{Fatal, dead}
					if row.Meaning == Retry {
						want = end{Nothing, idle}
						if a.kind != actReopen || a.wait != reopenPause {
							t.Fatalf("asks for %v", a.kind)
						}
					}
					finish(t, m, a)
					if got := (end{m.out.Kind, m.state}); got != want {
						t.Fatalf("ends as %v, want %v", got, want)
					}
					return
				case ReqBegin, ReqRegister:
					if row.Meaning == Retry {
						if a.kind != actRegister || a.wait != registerPause {
							t.Fatalf("asks for %v", a.kind)
						}
						a = m.step(event{kind: evDone, now: now})
					}
					if a.kind != actNone || (m.broken != nil) != (row.Meaning == Renew) {
						t.Fatalf("asks for %v, broken %v", a.kind, m.broken)
					}
					did := finish(t, m, m.step(event{kind: evCommit, offsets: 1, now: now}))
					want := []actionKind{actGuard, actStage, actFlush, actTxnOffsets, actEndCommit, actCommitted}
					if row.Meaning == Renew {
						want = []actionKind{actReopen, actRollback}
					}
					if !reflect.DeepEqual(did, want) {
						t.Fatalf("does %v, want %v", did, want)
					}
					return
				}
				want := ends[row.Meaning]
				if row.Request == ReqOffsetFetch && row.Meaning == Retry || row.Request == ReqEndAbort {
					want = end{Aborted, idle}
				}
				did := finish(t, m, a)
				if got := (end{m.out.Kind, m.state}); got != want {
					t.Fatalf("ends as %v after %v, want %v", got, did, want)
				}
				last := did[len(did)-1]
				if want.kind == Committed && last != actCommitted || want.kind != Committed && last != actRollback {
					t.Fatalf("does %v", did)
				}
				if row.Meaning == Renew || row.Meaning == Unknown {
					if did[0] != actReopen {
						t.Fatalf("does %v", did)
					}
				}
				if row.Meaning != Retry && row.Meaning != Await {
					return
				}
				// And when it does not stop.
				m = at(t, row.Request, g)
				m.step(fail)
				if row.Meaning == Await {
					a = m.step(event{kind: evTimeout, now: now})
				} else {
					fail.now = now.Add(m.timeout)
					a = m.step(fail)
				}
				if row.Then == row.Meaning {
					if a.kind != actCompare {
						t.Fatalf("gives up with %v", a.kind)
					}
					return
				}
				did = finish(t, m, a)
				if got := (end{m.out.Kind, m.state}); got != ends[row.Then] {
					t.Fatalf("in the end %v after %v, want %v", got, did, ends[row.Then])
				}
			})
		}
	}
}
