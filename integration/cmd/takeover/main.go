// Command takeover measures, on a real broker, how fast an application goes on after kill -9, what its commits take on one and on three brokers, and what a
// restart with a million rows reads. KAFKA=host:port uses a cluster that runs already, in place of both.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/kolkstreams/kolk/integration/chaos"
	"github.com/kolkstreams/kolk/integration/kafka"
	"github.com/kolkstreams/kolk/integration/takeover"
)

func main() {
	chaos.Child()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	times := flag.Int("times", 3, "take-overs of each kind")
	flag.Parse()
	if err := run(ctx, *times); err != nil {
		fmt.Fprintln(os.Stderr, "takeover:", err)
		os.Exit(1)
	}
}

// bench makes beds on a cluster.
type bench struct {
	c     *kafka.Cluster
	dir   string
	count int
}

func (b *bench) bed(guarantee string) *takeover.Bed {
	b.count++
	app := fmt.Sprintf("takeover-%d-%d", time.Now().Unix(), b.count)
	return &takeover.Bed{Seeds: b.c.Seeds(), Application: app, Guarantee: guarantee, Dir: filepath.Join(b.dir, app)}
}

func run(ctx context.Context, times int) error {
	dir, err := os.MkdirTemp("", "kolk-takeover-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := on(ctx, 1, dir, func(b *bench) error { return errors.Join(killed(ctx, b, times), commits(ctx, b), restarts(ctx, b)) }); err != nil {
		return err
	}
	return on(ctx, 3, dir, func(b *bench) error { return commits(ctx, b) })
}

// on runs something on so many brokers.
func on(ctx context.Context, nodes int, dir string, do func(*bench) error) error {
	c, err := kafka.LaunchOrConnect(ctx, kafka.Config{Nodes: nodes, Heap: "768m", QuickStart: true})
	if err != nil {
		return err
	}
	if len(c.Nodes()) == 0 {
		fmt.Printf("== on %s\n", strings.Join(c.Seeds(), ","))
	} else {
		fmt.Printf("== on brokers: %d\n", nodes)
	}
	return errors.Join(do(&bench{c: c, dir: dir}), c.Close())
}

var guarantees = []string{chaos.ExactlyOnce, chaos.AtLeastOnce}

func killed(ctx context.Context, b *bench, times int) error {
	for _, g := range guarantees {
		all, err := takeover.TakeOver(ctx, b.bed(g), times)
		for _, e := range all {
			fmt.Printf("%s: kill -9, another instance goes on (session timeout %v): %v\n", g, takeover.Session, e)
		}
		if err != nil {
			return err
		}
	}
	for _, g := range guarantees {
		all, err := takeover.Static(ctx, b.bed(g), times)
		for _, d := range all {
			fmt.Printf("%s: kill -9, the static member started again goes on: %.2f s\n", g, d.Seconds())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func commits(ctx context.Context, b *bench) error {
	for _, g := range guarantees {
		l, err := takeover.Commits(ctx, b.bed(g), 20*time.Second)
		if err != nil {
			return err
		}
		fmt.Printf("%s: commit every 100 ms: %v\n", g, l)
	}
	return nil
}

func restarts(ctx context.Context, b *bench) error {
	r, err := takeover.Restart(ctx, b.bed(chaos.ExactlyOnce))
	if err != nil {
		return err
	}
	fmt.Printf("restart: %v\n", r)
	return r.Wrong()
}
