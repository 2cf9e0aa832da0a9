package kolk

import (
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

func built(t *testing.T, b *topology.Builder) *topology.Topology {
	t.Helper()
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// Everything that is wrong is said at once, with what to do.
func TestConfigFaults(t *testing.T) {
	top := built(t, counting())
	_, err := New(top, Config{
		CommitEvery: -1, CheckpointEvery: -1, SessionTimeout: -1, TransactionTimeout: time.Millisecond, CloseTimeout: -1, Workers: -1, Memory: -1, MinFreeDisk: -1,
		MaxIdle: -2, MaxAhead: -1, CloseIdle: time.Microsecond, Guarantee: 7, InternalTopics: InternalTopics{Replicas: -1, Config: map[string]string{"cleanup.policy": "delete"}},
		Kafka: []kgo.Opt{kgo.TransactionalID("mine")},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"Application is empty", "Brokers is empty", `StateDir is empty, but store "counts"`, "CommitEvery", "CheckpointEvery", "SessionTimeout", "CloseTimeout", "Workers",
		"Memory", "MinFreeDisk", "MaxIdle", "MaxAhead", "CloseIdle is 1µs; give at least 1ms", "Guarantee is 7", "Replicas", "cleanup.policy=delete", "kgo.TransactionalID"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in:\n%v", part, err)
		}
	}
	_, err = New(top, Config{Application: "a/b", Brokers: []string{" "}, StateDir: "x", CommitEvery: time.Minute})
	for _, part := range []string{"Application", "empty address", "TransactionTimeout is 10s, not longer than CommitEvery, 1m0s"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in:\n%v", part, err)
		}
	}
	if _, err := New(nil, Config{}); err == nil || !strings.Contains(err.Error(), "topology is nil") {
		t.Errorf("nil topology: %v", err)
	}
}

func TestConfigDefaults(t *testing.T) {
	c := Config{Application: "a", Brokers: []string{"b:1"}}
	c.fill()
	if c.CommitEvery != 100*time.Millisecond || c.SessionTimeout != 15*time.Second || c.TransactionTimeout != 10*time.Second || c.CheckpointEvery != 10*time.Second || c.Workers < 1 || c.Memory <= 0 {
		t.Errorf("exactly once: %+v", c)
	}
	c = Config{Application: "a", Brokers: []string{"b:1"}, Guarantee: AtLeastOnce, InstanceID: "i"}
	c.fill()
	if c.CommitEvery != 30*time.Second || c.SessionTimeout != 45*time.Second {
		t.Errorf("at least once, static: %+v", c)
	}
	// At least once has no transaction that could time out.
	c.StateDir = "x"
	if err := c.validate(new(engine.Graph)); err != nil {
		t.Error(err)
	}
}

// An application with nothing on disk needs no StateDir.
func TestNoStateDirNeeded(t *testing.T) {
	if _, err := New(built(t, counting(store.InMemory())), Config{Application: "a", Brokers: []string{"b:1"}}); err != nil {
		t.Error(err)
	}
}
