package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// brokerCommand as first argument makes this program the broker of another one; the second is the folder of its data.
const brokerCommand = "broker"

// segmentBytes is small, so that what has been deleted leaves the disk soon.
const segmentBytes = "1048576"

// serveBroker is the broker's process: it tells its address and serves until its standard input ends, which happens at the latest when the process that
// started it is gone.
func serveBroker(dir string, in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt) // Ctrl-C is for the job, which needs its broker to end well
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir), kfake.BrokerConfigs(map[string]string{"log.segment.bytes": segmentBytes}))
	if err != nil {
		return fmt.Errorf("start a broker in %s: %w", dir, err)
	}
	defer cluster.Close()
	if _, err := fmt.Fprintln(out, cluster.ListenAddrs()[0]); err != nil {
		return fmt.Errorf("tell the broker's address: %w", err)
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// broker is a broker in a process of its own.
type broker struct {
	addr string
	cmd  *exec.Cmd
	hold io.Closer // closing it ends the process
}

// startBroker runs this program a second time, as a broker with its data in dir.
func startBroker(dir string) (*broker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a broker: %w", err)
	}
	cmd := exec.Command(self, brokerCommand, dir)
	cmd.Stderr = os.Stderr
	hold, badIn := cmd.StdinPipe()
	out, badOut := cmd.StdoutPipe()
	if err := errors.Join(badIn, badOut); err != nil {
		return nil, fmt.Errorf("start a broker: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a broker: %w", err)
	}
	b := &broker{cmd: cmd, hold: hold}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("start a broker: it ended before it told its address: %w", errors.Join(err, b.stop()))
	}
	b.addr = strings.TrimSpace(line)
	return b, nil
}

// stop ends the process and waits for its end.
func (b *broker) stop() error {
	if err := b.hold.Close(); err != nil {
		return fmt.Errorf("stop the broker: %w", err)
	}
	late := time.AfterFunc(10*time.Second, func() { _ = b.cmd.Process.Kill() })
	defer late.Stop()
	if err := b.cmd.Wait(); err != nil {
		return fmt.Errorf("stop the broker: %w", err)
	}
	return nil
}
