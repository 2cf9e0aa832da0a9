package kafka

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
)

// properties is the smallest configuration of a node in which nobody waits without need. Replication is as safe as the number of nodes allows.
func properties(n *Node, nodes, controllerPort int, voters string) map[string]string {
	replicas, inSync := fmt.Sprint(min(nodes, 3)), fmt.Sprint(max(min(nodes, 3)-1, 1))
	return map[string]string{
		"process.roles":             "broker,controller",
		"node.id":                   fmt.Sprint(n.ID),
		"controller.quorum.voters":  voters,
		"controller.listener.names": "CONTROLLER",
		"listeners":                 fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://127.0.0.1:%d", n.Addr, controllerPort),
		"advertised.listeners":      "PLAINTEXT://" + n.Addr,
		"log.dirs":                  filepath.Join(n.dir, "data"),
		// A misspelt topic must fail, not appear.
		"auto.create.topics.enable":                        "false",
		"default.replication.factor":                       replicas,
		"min.insync.replicas":                              inSync,
		"offsets.topic.num.partitions":                     "3",
		"offsets.topic.replication.factor":                 replicas,
		"transaction.state.log.num.partitions":             "3",
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    inSync,
		"share.coordinator.state.topic.num.partitions":     "1",
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            inSync,
		"group.initial.rebalance.delay.ms":                 "0",
		"group.streams.initial.rebalance.delay.ms":         "0",
	}
}

// Ports come from below the range that systems give to outgoing connections (from 32768 on Linux, 49152 elsewhere): a node that is down for a while must find
// its port free again.
const firstPort, ports = 12_000, 20_000

// freePorts finds n different ports that nobody listens on.
func freePorts(n int) ([]int, error) {
	var free []int
	var last error
	for range 100 * n {
		port := firstPort + rand.IntN(ports)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		defer l.Close() // all stay open until the end, so that they differ
		if free = append(free, port); len(free) == n {
			return free, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("found %d of %d free ports on 127.0.0.1 from %d to %d", len(free), n, firstPort, firstPort+ports-1), last)
}
