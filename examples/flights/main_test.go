package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The demo runs itself as its broker. In a test it is the test's binary that is run, so that has to do the same.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == brokerCommand {
		exit(serveBroker(os.Args[2], os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// The demo as `make demo` runs it, with fewer flights: broker, job, table, comparison.
func TestDemo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	if err := run(t.Context(), options{flights: 3000, log: quiet()}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		`broker at 127\.0\.0\.1:\d+, a process of its own`,
		`3,000 flights and 3,376 airports`,
		`records in, .* commits +state: +[\d,]+ entries`,
		`(?m)^  code +airport +state +flights +average$`,
		`6,000 committed updates`,
		`(?m)^equal to batch: [1-9]\d* rows\n\z`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("there is no %q in the output:\n%s", want, out.String())
		}
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("the demo left %v", left)
	}
}

// On a cluster the demo leaves nothing behind, and with -keep it leaves everything.
func TestDemoOnCluster(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	addr := c.ListenAddrs()[0]
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	adm := kadm.NewClient(client)

	for _, keep := range []bool{false, true} {
		var out bytes.Buffer
		if err := run(t.Context(), options{kafka: addr, keep: keep, flights: 300, log: quiet()}, &out); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		topics, err := adm.ListTopics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		groups, err := adm.ListGroups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// Four of the demo, two to repartition by, and the changelogs of three stores.
		if left := topics.Names(); !keep && len(left) > 0 || keep && len(left) != 9 {
			t.Errorf("keep %v: topics %v are there", keep, left)
		}
		if left := groups.Groups(); keep != (len(left) == 1) {
			t.Errorf("keep %v: groups %v are there", keep, left)
		}
		for _, topic := range topics.Names() {
			configs, err := adm.DescribeTopicConfigs(t.Context(), topic)
			if err != nil {
				t.Fatal(err)
			}
			for _, config := range configs[0].Configs {
				if config.Key == "retention.ms" && config.MaybeValue() != "-1" {
					t.Errorf("%s has retention.ms=%s: its records of 2001 would be deleted", topic, config.MaybeValue())
				}
			}
		}
	}
}

func TestNoBroker(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, errors.New("waited long enough"))
	defer stop()
	var out bytes.Buffer
	err = run(ctx, options{kafka: addr, flights: 1, log: quiet()}, &out)
	if err == nil || !strings.HasPrefix(err.Error(), "kafka at "+addr) {
		t.Errorf("error %v, want one that names the broker", err)
	}
}

func TestLogger(t *testing.T) {
	var b bytes.Buffer
	log, err := logger(&b, "warn")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("not this")
	log.Warn("but this", "task", "0_1")
	if got := b.String(); strings.Contains(got, "not this") || !strings.Contains(got, "but this") || !strings.Contains(got, "0_1") {
		t.Errorf("logged %q", got)
	}
	if _, err := logger(&b, "loud"); err == nil || !strings.HasPrefix(err.Error(), "-log: ") {
		t.Errorf("error %v", err)
	}
}
