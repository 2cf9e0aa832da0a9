package state_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kolkstreams/kolk/internal/state"
)

// handle stands for the public handles.
type handle struct{ state.Hook }

func TestDeclarations(t *testing.T) {
	d := &state.Decl{Name: "words"}
	if got := state.Of(handle{state.HookOf(d)}); got != d {
		t.Errorf("declaration %p, not %p", got, d)
	}
	if state.Of(handle{}) != nil {
		t.Error("a handle that was never declared has a declaration")
	}
	if d.Full() != "words" {
		t.Error(d.Full())
	}
	if d.Version = 3; d.Full() != "words-v3" {
		t.Error(d.Full())
	}
}

func TestFailures(t *testing.T) {
	cause := errors.New("disk gone")
	b := state.Broken{Store: "words", Err: cause}
	if !errors.Is(b, cause) || b.Error() != `store "words" failed: disk gone` {
		t.Error(b)
	}
	f := state.Failed{Store: "words", Err: cause}
	if !errors.Is(f, cause) || !strings.Contains(f.Error(), `"words"`) {
		t.Error(f)
	}
}

func TestCheckBatches(t *testing.T) {
	row := func(key string) state.Row { return state.Row{Key: []byte(key), Value: []byte("v")} }
	segment := func(slot uint16, number int64, rows ...state.Row) state.SegmentBatch {
		return state.SegmentBatch{Segment: state.Segment{Slot: slot, Number: number}, Rows: rows}
	}
	for _, c := range []struct {
		name     string
		batches  []state.Batch
		segments []state.SegmentBatch
		want     string
	}{
		{"nothing", nil, nil, ""},
		{"in order", []state.Batch{{Slot: 0, Rows: []state.Row{row(""), row("a"), row("a\x00"), row("b")}}, {Slot: 1, Rows: []state.Row{row("a")}}}, []state.SegmentBatch{segment(0, 1, row("a")), segment(1, 1, row("a"))}, ""},
		{"a slot twice", []state.Batch{{Slot: 4}, {Slot: 4}}, nil, "slot 4: two batches"},
		{"a segment twice", nil, []state.SegmentBatch{segment(2, 7), segment(2, 7)}, "slot 2, segment 7: two batches"},
		{"out of order", []state.Batch{{Rows: []state.Row{row("b"), row("a")}}}, nil, "not in ascending order"},
		{"a key twice", nil, []state.SegmentBatch{segment(2, 7, row("a"), row("a"))}, "not in ascending order"},
		{"a long key", []state.Batch{{Rows: []state.Row{row(strings.Repeat("k", state.MaxKey)), row(strings.Repeat("l", state.MaxKey+1))}}}, nil, "64001 bytes"},
		{"a long value", []state.Batch{{Rows: []state.Row{{Key: []byte("a"), Value: make([]byte, state.MaxValue+1)}}}}, nil, "at most 67108864"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := state.CheckBatches(c.batches, c.segments)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if large := strings.HasPrefix(c.name, "a long"); errors.Is(err, state.ErrTooLarge) != large {
				t.Errorf("too large: %v", !large)
			}
		})
	}
}

func TestBudget(t *testing.T) {
	var none *state.Budget
	none.Add(5)
	if none.Used() != 0 || none.Limit() != 0 || none.Over() > 0 {
		t.Error("no budget has a limit")
	}
	b := state.NewBudget(100)
	b.Add(70)
	if b.Over() != -30 {
		t.Errorf("over by %d", b.Over())
	}
	if b.Add(50); b.Over() != 20 || b.Used() != 120 || b.Limit() != 100 {
		t.Errorf("over by %d, used %d of %d", b.Over(), b.Used(), b.Limit())
	}
	if b.Add(-20); b.Over() > 0 {
		t.Errorf("over by %d", b.Over())
	}
	if !b.Reserve(150) || b.Reserve(1) || b.Used() != 100 || b.Reserved() != 150 {
		t.Errorf("%d can be reserved, %d are, %d are used", b.Limit(), b.Reserved(), b.Used())
	}
	if b.Reserve(-30); !b.Reserve(30) || b.Reserve(1) {
		t.Error("what was given back cannot be reserved again")
	}
	if b.Reserve(-150); b.Reserved() != 0 || !none.Reserve(1) || none.Reserved() != 0 {
		t.Errorf("%d reserved", b.Reserved())
	}
	free := state.NewBudget(-1)
	if free.Add(1 << 40); free.Over() > 0 || free.Limit() != 0 || !free.Reserve(1<<40) {
		t.Error("a budget without limit is spent")
	}
	var used []int64
	done := make(chan struct{})
	for range 4 {
		go func() {
			for range 1000 {
				b.Add(1)
			}
			done <- struct{}{}
		}()
	}
	for range 4 {
		<-done
		used = append(used, b.Used())
	}
	if !slices.IsSorted(used) || b.Used() != 4100 {
		t.Errorf("used %v", used)
	}
}

func TestShare(t *testing.T) {
	b := state.NewBudget(100)
	var one, other state.Share
	one.Hold(b, 70)
	other.Hold(b, 20)
	if one.Hold(b, 50); b.Used() != 70 || one.Held != 50 {
		t.Errorf("%d used, %d of them by one", b.Used(), one.Held)
	}
	one.Hold(b, 0)
	if one.Hold(nil, 5); b.Used() != 20 || one.Held != 5 {
		t.Errorf("%d used", b.Used())
	}
}
