package kafka

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kolkstreams/kolk/integration/child"
)

// Node is one broker. It keeps its port and its data over restarts. Its methods may be called from several goroutines.
type Node struct {
	ID   int32  // node.id
	Addr string // host:port for clients

	cluster        *Cluster
	dir, classpath string
	java           []string // options

	mu      sync.Mutex
	process *child.Process // nil before the first start
}

// jvm are options for a process that lives for seconds rather than hours.
func jvm(quick bool) []string {
	if quick {
		return []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}
	}
	return nil
}

// format writes the configuration and the metadata of the storage.
func (n *Node) format(ctx context.Context, clusterID string, props map[string]string) error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(props)) {
		fmt.Fprintf(&b, "%s=%s\n", k, props[k])
	}
	if err := os.WriteFile(n.config(), []byte(b.String()), 0o644); err != nil {
		return err
	}
	args := append(jvm(true), "-cp", n.classpath, "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", clusterID, "-c", n.config())
	cmd := exec.CommandContext(ctx, "java", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format the storage of node %d of Kafka in %s: %w\n%s", n.ID, n.dir, err, out)
	}
	return nil
}

func (n *Node) config() string { return filepath.Join(n.dir, "server.properties") }

// Log is the path of the file with the broker's warnings and errors.
func (n *Node) Log() string { return filepath.Join(n.dir, "broker.log") }

// launch starts the process and does not wait for it to be ready.
func (n *Node) launch() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.alive() {
		return fmt.Errorf("start node %d of Kafka: it is running already", n.ID)
	}
	log, err := os.OpenFile(n.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	args := append(slices.Clone(n.java), "-Dorg.apache.logging.log4j.level=WARN", "-cp", n.classpath, "kafka.Kafka", n.config())
	cmd := exec.Command("java", args...)
	cmd.Stdout, cmd.Stderr = log, log
	n.process, err = child.Start(cmd)
	return err
}

// alive is called with mu held.
func (n *Node) alive() bool {
	if n.process == nil {
		return false
	}
	select {
	case <-n.process.Done():
		return false
	default:
		return true
	}
}

// current is the process, nil while the node is down.
func (n *Node) current() *child.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.alive() {
		return nil
	}
	return n.process
}

// Pid is the process id, 0 while the node is down.
func (n *Node) Pid() int {
	if p := n.current(); p != nil {
		return p.Pid()
	}
	return 0
}

// Start starts a node that was stopped or killed and waits until it answers and sees all nodes that run.
func (n *Node) Start(ctx context.Context) error {
	if err := n.launch(); err != nil {
		return err
	}
	return n.ready(ctx)
}

// Stop ends the node in good order: it hands its partitions over and closes its logs. A node that is down stays so.
func (n *Node) Stop() error { return n.end(syscall.SIGTERM) }

// Kill ends the node at once, as a crash does. A node that is down stays so.
func (n *Node) Kill() error { return n.end(syscall.SIGKILL) }

// Restart stops the node in good order and starts it again.
func (n *Node) Restart(ctx context.Context) error {
	if err := n.Stop(); err != nil {
		return err
	}
	return n.Start(ctx)
}

// Freeze halts the process without ending it, which looks from outside like a long pause. Thaw lets it go on.
func (n *Node) Freeze() error { return n.signal(syscall.SIGSTOP) }

// Thaw continues a frozen node.
func (n *Node) Thaw() error { return n.signal(syscall.SIGCONT) }

func (n *Node) end(sig syscall.Signal) error {
	if p := n.current(); p != nil {
		return p.Stop(sig, time.Minute)
	}
	return nil
}

func (n *Node) signal(sig syscall.Signal) error {
	if p := n.current(); p != nil {
		return p.Signal(sig)
	}
	return fmt.Errorf("send %v to node %d of Kafka: it is down", sig, n.ID)
}

// ready waits until the node answers and sees all nodes that run.
func (n *Node) ready(ctx context.Context) error {
	p := n.current()
	if p == nil {
		return fmt.Errorf("node %d of Kafka ended while starting:\n%s", n.ID, n.logTail())
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; nil would be all
	for {
		// Asked of the node itself: the client would answer from its cache, which may hold fewer nodes for minutes.
		resp, err := cl.SeedBrokers()[0].Request(ctx, req)
		if err == nil && n.cluster.knows(resp.(*kmsg.MetadataResponse)) {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("node %d of Kafka ended while starting (%v):\n%s", n.ID, p.Err(), n.logTail())
		case <-ctx.Done():
			return fmt.Errorf("node %d of Kafka at %s is not ready: %w (last answer: %v)\n%s", n.ID, n.Addr, ctx.Err(), err, n.logTail())
		case <-time.After(poll):
		}
	}
}

// logTail is the end of the broker's log, for error messages.
func (n *Node) logTail() string {
	b, err := os.ReadFile(n.Log())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}
