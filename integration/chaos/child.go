package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// First arguments that make a program one of this package's children.
const (
	instanceCommand = "kolk-instance"
	brokerCommand   = "kolk-fake-broker"
)

// Child does the work of a child process and ends the program, if it was started as one. Programs and tests that start instances call it first.
func Child() {
	if len(os.Args) < 3 {
		return
	}
	var err error
	switch os.Args[1] {
	case instanceCommand:
		var s Spec
		if err = json.Unmarshal([]byte(os.Args[2]), &s); err == nil {
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			err = RunInstance(ctx, s, os.Stdout)
			stop()
		}
	case brokerCommand:
		err = serveFake(os.Args[2], os.Stdout)
	default:
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveFake is an in-process broker with a process of its own. It prints its address and serves until SIGTERM.
func serveFake(dir string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.BrokerConfigs(map[string]string{
		"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}))
	if err != nil {
		return fmt.Errorf("start a broker in %s: %w", dir, err)
	}
	defer c.Close()
	if err := json.NewEncoder(out).Encode(Event{Event: "listening", At: time.Now(), Address: c.ListenAddrs()[0]}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
