package rebalance

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
)

// DefaultProtocol is the protocol name in the group when [Config.Protocol] is
// empty.
const DefaultProtocol = "kolk"

const maxWorkers = 1024

// SubTopology is what the group must know of one sub-topology of a member's
// topology.
type SubTopology struct {
	// ID is the number of the sub-topology in this member's topology. Two
	// members may number the same sub-topology differently: the group knows
	// it by its topics and fingerprint.
	ID int
	// Fingerprint changes when a task of this build cannot take over from a
	// task of another build, and only then.
	Fingerprint uint64
	// Topics are the full names of the source and repartition topics it
	// reads. At least one; no other sub-topology reads the same topic.
	Topics []string
	// Stateful says that its tasks keep state.
	Stateful bool
}

// Config configures a [Balancer].
type Config struct {
	// Protocol is the name of the group's protocol. All members must agree
	// on one. Empty means [DefaultProtocol].
	Protocol string
	// Process is the id that this process keeps over restarts, and that no
	// other process has. Required.
	Process string
	// Host is the address at which other members reach this one for
	// queries, empty if they cannot.
	Host string
	// Rack is where the process runs, empty if unknown. It is passed on to
	// all members; it does not influence who runs which task.
	Rack string
	// Workers is the number of workers and so the process's share of the
	// tasks. Less than 1 counts as 1; more than 1024 is refused.
	Workers int
	// SubTopologies are the parts of the topology that have tasks. At least
	// one.
	SubTopologies []SubTopology
	// Positions returns how far the local state of each task reaches, in
	// changelog records, for every task that has state on this machine,
	// whether the task runs or not. It is called once per join, on the
	// client's group goroutine, and must not wait for anything that waits
	// for the group. Nil means that there is no local state.
	Positions func() map[Task]int64
	// Logger receives what the leader decides and what is wrong with other
	// members. Nil means no log.
	Logger *slog.Logger
}

// validate returns every fault of c at once.
func (c *Config) validate() error {
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("rebalance: "+format, args...))
	}
	if c.Process == "" {
		fault("Config.Process is empty; give the id that the process keeps over restarts")
	}
	if c.Workers > maxWorkers {
		fault("Config.Workers is %d; a process can have %d at most", c.Workers, maxWorkers)
	}
	if len(c.SubTopologies) == 0 {
		fault("Config.SubTopologies is empty; a member without sub-topologies has nothing to run")
	}
	ids := make(map[int]bool)
	readers := make(map[string]int)
	for _, s := range c.SubTopologies {
		if s.ID < 0 || s.ID > math.MaxInt32 {
			fault("sub-topology %d: the id is out of range", s.ID)
		}
		if ids[s.ID] {
			fault("sub-topology %d is there twice", s.ID)
		}
		ids[s.ID] = true
		if len(s.Topics) == 0 {
			fault("sub-topology %d reads no topic, so it has no tasks; leave it out", s.ID)
		}
		for _, topic := range s.Topics {
			if topic == "" {
				fault("sub-topology %d: a topic name is empty", s.ID)
			} else if other, taken := readers[topic]; taken {
				fault("topic %q is read by sub-topologies %d and %d; a topic belongs to one", topic, other, s.ID)
			}
			readers[topic] = s.ID
		}
	}
	return errors.Join(errs...)
}
