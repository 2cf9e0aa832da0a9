package badgerstore

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
)

var kills = flag.Int("kills", 20, "how many times TestKill kills the process that writes")

const childDir = "KOLK_BADGERSTORE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// TestKill lets a child write checkpoints and kills it after some number of steps, again and again. Each child first checks every row that
// the one before it left against what the last finished checkpoint must hold.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 0))
	undone := 0
	for kill := range *kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Half of them die young, in the recovery.
		steps := rng.IntN(12)
		if rng.IntN(2) == 0 {
			steps = rng.IntN(120)
		}
		r := bufio.NewReader(out)
		for range steps {
			var step byte
			if step, err = r.ReadByte(); err != nil {
				break
			}
			if step == 'u' {
				undone++
			}
		}
		killErr := cmd.Process.Kill()
		waitErr := cmd.Wait()
		if stderr.Len() > 0 || err != nil || killErr != nil {
			t.Fatalf("child %d, to be killed at step %d: %v, %v, %v\n%s", kill, steps, err, killErr, waitErr, stderr.Bytes())
		}
	}
	s := open(t, dir, killConfig())
	if err := checkHistory(s); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s checkpoints and %d kills, databases undone at least %d times", s.Data(), *kills, undone)
	closeStore(t, s, true)
}

func killConfig() Config {
	cfg := testConfig()
	cfg.segmentRows = 300
	cfg.BootID = bootID
	return cfg
}

// child writes checkpoints until it is killed. It tells each step's first letter on its standard output.
func child(dir string) error {
	cfg := killConfig()
	cfg.fault = func(step string) error {
		_, err := os.Stdout.WriteString(step[:1])
		return err
	}
	s, err := Open(dir, cfg)
	if err != nil {
		return err
	}
	if err := checkHistory(s); err != nil {
		return err
	}
	h, err := historyOf(s.Data())
	if err != nil {
		return err
	}
	for {
		batches, segments, drop := h.next()
		if err := s.ApplySegments(batches, segments, drop, strconv.AppendInt(nil, int64(h.turn), 10)); err != nil {
			return err
		}
		s.Switch()
	}
}

// killHistory makes a row of checkpoints that is the same in every process, and knows what they lead to.
type killHistory struct {
	turn int
	rng  *rand.Rand
	rows map[state.Segment]map[string]string // plain rows under slot 1, segment 0
}

func historyOf(data []byte) (*killHistory, error) {
	h := &killHistory{rng: rand.New(rand.NewPCG(7, 7)), rows: map[state.Segment]map[string]string{}}
	if data == nil {
		return h, nil
	}
	n, err := strconv.Atoi(string(data))
	for h.turn < n {
		h.next()
	}
	return h, err
}

func (h *killHistory) next() (batches []state.Batch, segments []state.SegmentBatch, drop []state.Segment) {
	h.turn++
	batches = []state.Batch{{Slot: 1, Rows: h.change(state.Segment{Slot: 1}, 2000)}}
	now := int64(h.turn / 3)
	for _, n := range []int64{now, now + 1} {
		seg := state.Segment{Slot: 2, Number: n}
		segments = append(segments, state.SegmentBatch{Segment: seg, Rows: h.change(seg, 400)})
	}
	if h.turn%3 == 0 {
		old := state.Segment{Slot: 2, Number: now - 2}
		drop = append(drop, old)
		delete(h.rows, old)
	}
	return batches, segments, drop
}

func (h *killHistory) change(at state.Segment, n int) []state.Row {
	if h.rows[at] == nil {
		h.rows[at] = map[string]string{}
	}
	changes := map[string]string{}
	for range n {
		key := fmt.Sprintf("key%05d", h.rng.IntN(6000))
		switch h.rng.IntN(10) {
		case 0, 1, 2:
			changes[key] = ""
		default:
			changes[key] = fmt.Sprintf("%s in turn %d", key, h.turn)
		}
		if h.rng.IntN(1000) == 0 {
			changes[key] = string(bytes.Repeat([]byte{byte(h.turn)}, 100_000)) // for the value log
		}
	}
	var rows []state.Row
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		r := state.Row{Key: []byte(key)}
		old, had := h.rows[at][key]
		if h.rng.IntN(2) == 0 {
			r.Known, r.Was = true, -1
			if had {
				r.Was = int64(len(key) + len(old))
			}
		}
		if v := changes[key]; v != "" {
			r.Value = []byte(v)
			h.rows[at][key] = v
		} else {
			delete(h.rows[at], key)
		}
		rows = append(rows, r)
	}
	return rows
}

// checkHistory compares all rows, counts and segments with what the checkpoint that the store says it has must hold.
func checkHistory(s *Store) error {
	h, err := historyOf(s.Data())
	if err != nil {
		return err
	}
	want := map[uint16]count{}
	for at, rows := range h.rows {
		left := maps.Clone(rows)
		var differs error
		visit := func(key, value []byte) bool {
			if v, ok := left[string(key)]; !ok || v != string(value) {
				differs = fmt.Errorf("turn %d, %v, key %s: %d bytes %.60q, want %.60q, %v", h.turn, at, key, len(value), value, v, ok)
			}
			delete(left, string(key))
			return differs == nil
		}
		var err error
		if at.Slot == 1 {
			err = s.Scan(1, nil, nil, false, visit)
		} else {
			err = s.ScanSegment(at, nil, nil, true, visit)
		}
		if err = errors.Join(err, differs); err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("turn %d, %v: %d rows are missing", h.turn, at, len(left))
		}
		c := want[at.Slot]
		for k, v := range rows {
			c.add(count{1, int64(len(k) + len(v))})
		}
		want[at.Slot] = c
	}
	for slot, c := range want {
		if n, size := s.Count(slot); n != c.rows || size != c.bytes {
			return fmt.Errorf("turn %d, slot %d: counts %d rows of %d bytes, want %d of %d", h.turn, slot, n, size, c.rows, c.bytes)
		}
	}
	return nil
}
