package takeover_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/integration/chaos"
	"github.com/kolkstreams/kolk/integration/kafka"
	"github.com/kolkstreams/kolk/integration/takeover"
)

func TestMain(m *testing.M) {
	chaos.Child()
	kafka.Main(m)
}

func bed(t *testing.T, guarantee string) *takeover.Bed {
	c := kafka.Shared(t)
	return &takeover.Bed{Seeds: c.Seeds(), Application: c.Name(t), Guarantee: guarantee, Dir: t.TempDir()}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestRestart restarts a store of a million rows: nothing is read from the changelog after a clean stop, and after kill -9 what was written since the last checkpoint.
func TestRestart(t *testing.T) {
	r, err := takeover.Restart(within(t, 6*time.Minute), bed(t, chaos.ExactlyOnce))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if err := r.Wrong(); err != nil {
		t.Error(err)
	}
	if r.Rows != 1_000_000 || r.Killed == 0 {
		t.Errorf("%d rows, want a million; %d records read after kill -9, want some", r.Rows, r.Killed)
	}
}

// How long it takes is printed and not judged here; that it happens is.
func TestTakeOver(t *testing.T) {
	for _, guarantee := range []string{chaos.ExactlyOnce, chaos.AtLeastOnce} {
		t.Run(guarantee, func(t *testing.T) {
			all, err := takeover.TakeOver(within(t, 2*time.Minute), bed(t, guarantee), 1)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("from kill -9: %v", all)
		})
	}
}

func TestStatic(t *testing.T) {
	all, err := takeover.Static(within(t, 2*time.Minute), bed(t, chaos.ExactlyOnce), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("from kill -9: %v", all)
}

func TestCommits(t *testing.T) {
	l, err := takeover.Commits(within(t, 2*time.Minute), bed(t, chaos.ExactlyOnce), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(l)
	if l.Commits == 0 || l.P99 < l.P50 || l.P50 <= 0 {
		t.Errorf("latency %+v", l)
	}
}

func TestWrongRestarts(t *testing.T) {
	if err := (takeover.Restarts{Rows: 5, Written: 3, Killed: 3}).Wrong(); err != nil {
		t.Error(err)
	}
	err := takeover.Restarts{Clean: 1, Written: 3, Killed: 4, Idle: 2}.Wrong()
	for _, part := range []string{"1 changelog records were read after a clean stop", "4 changelog records", "2 changelog records"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}
