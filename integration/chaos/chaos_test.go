package chaos_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/integration/chaos"
	"github.com/kolkstreams/kolk/integration/kafka"
)

func TestMain(m *testing.M) {
	chaos.Child()
	kafka.Main(m)
}

// output passes progress on to the test's log.
type output struct{ t *testing.T }

func (o output) Write(b []byte) (int, error) {
	o.t.Log(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

// suffer runs jobs under both guarantees through three faults each.
func suffer(t *testing.T, o chaos.Options, jobs ...string) {
	for seed, job := range jobs {
		for _, guarantee := range []string{chaos.ExactlyOnce, chaos.AtLeastOnce} {
			t.Run(job+" "+guarantee, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				o := o
				o.Job, o.Guarantee, o.Faults, o.Seed, o.Dir, o.Progress = job, guarantee, 3, uint64(1+seed), t.TempDir(), output{t}
				o.Application = fmt.Sprintf("chaos-%s-%s-%d", job, strings.ReplaceAll(guarantee, "_", "-"), time.Now().UnixNano())
				c, err := chaos.Run(ctx, o)
				if err != nil {
					t.Error(err)
				} else if !c.Equal() {
					t.Error(c)
				}
				t.Log(c)
				if t.Failed() {
					logs(t, filepath.Join(o.Dir, "log"))
				}
			})
		}
	}
}

// logs shows the ends of the instances' logs.
func logs(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Error(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		t.Logf("%s:\n%s", filepath.Base(name), text[max(0, len(text)-4000):])
	}
}

// TestKillOnFake is the kill test on the in-process broker, which runs in a process of its own.
func TestKillOnFake(t *testing.T) {
	dir := t.TempDir()
	p, addr, err := chaos.StartFake(dir, filepath.Join(dir, "broker.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	suffer(t, chaos.Options{Seeds: []string{addr}, Session: 2 * time.Second, Calm: true}, "count", "flights")
}

// TestKillOnKafka is the kill test on a real broker, which dies too if it is the test's own.
func TestKillOnKafka(t *testing.T) {
	c, err := kafka.LaunchOrConnect(t.Context(), kafka.Config{Heap: "512m", QuickStart: true, Properties: map[string]string{"group.min.session.timeout.ms": "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	o := chaos.Options{Seeds: c.Seeds(), Nodes: c.Nodes()}
	if len(o.Nodes) > 0 {
		o.Session = 2 * time.Second
	}
	suffer(t, o, "count", "flights", "foreign", "pairs")
}
