package rebalance

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Balancer is kolk's protocol in a classic consumer group. Give it to one
// client with [kgo.Balancers], as the only one, together with
// [kgo.ConsumeTopics] for all topics of its sub-topologies.
//
// The client calls its methods; applications call [Balancer.Assignment]. It is
// safe for concurrent use.
type Balancer struct {
	cfg    Config
	log    *slog.Logger
	digest uint64

	mu      sync.Mutex
	ask     uint64
	claimed map[string][]int32 // what the last join said is ours
	current *Assignment
}

var _ kgo.GroupBalancer = (*Balancer)(nil)

// NewBalancer returns a balancer for one client. The error names every fault
// of the configuration.
func NewBalancer(cfg Config) (*Balancer, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Protocol == "" {
		cfg.Protocol = DefaultProtocol
	}
	cfg.Workers = max(cfg.Workers, 1)
	b := &Balancer{cfg: cfg, log: cfg.Logger, current: &Assignment{}}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	b.cfg.SubTopologies = nil
	for _, s := range cfg.SubTopologies {
		s.Topics = slices.Sorted(slices.Values(s.Topics))
		b.cfg.SubTopologies = append(b.cfg.SubTopologies, s)
	}
	slices.SortFunc(b.cfg.SubTopologies, func(x, y SubTopology) int { return x.ID - y.ID })
	d := b.joinData()
	b.digest = digest(d.appendStable(nil))
	return b, nil
}

func (b *Balancer) joinData() joinData {
	return joinData{
		process: b.cfg.Process,
		host:    b.cfg.Host,
		rack:    b.cfg.Rack,
		workers: b.cfg.Workers,
		subs:    b.cfg.SubTopologies,
	}
}

// Assignment returns what the group last told this member. It is the zero
// Assignment before that. It changes before the client calls
// OnPartitionsAssigned, which it does in every rebalance; OnPartitionsLost does
// not change it. What it refers to must not be changed.
func (b *Balancer) Assignment() Assignment {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *b.current
}

// ProtocolName returns the name of the protocol in the group.
func (b *Balancer) ProtocolName() string { return b.cfg.Protocol }

// IsCooperative returns true: members keep working through a rebalance.
func (b *Balancer) IsCooperative() bool { return true }

// JoinGroupMetadata returns what the member tells the leader when it joins.
func (b *Balancer) JoinGroupMetadata(interests []string, owned map[string][]int32, generation int32) []byte {
	d := b.joinData()
	if b.cfg.Positions != nil {
		d.local = make(map[Task]int64)
		for t, pos := range b.cfg.Positions() {
			if t.Sub >= 0 && t.Partition >= 0 {
				d.local[t] = max(pos, 0)
			}
		}
	}
	b.mu.Lock()
	d.ask = b.ask
	b.claimed = owned
	b.mu.Unlock()

	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version = 3
	// Only topics that the client has seen to exist: when another one begins
	// to, the bytes change, and with them the broker's answer to a rejoin.
	meta.Topics = slices.Clone(interests)
	meta.Generation = generation
	if b.cfg.Rack != "" {
		meta.Rack = &b.cfg.Rack
	}
	for _, topic := range slices.Sorted(maps.Keys(owned)) {
		o := kmsg.NewConsumerMemberMetadataOwnedPartition()
		o.Topic = topic
		o.Partitions = slices.Sorted(slices.Values(owned[topic]))
		meta.OwnedPartitions = append(meta.OwnedPartitions, o)
	}
	meta.UserData = d.append(nil)
	return meta.AppendTo(nil)
}

// ParseSyncAssignment takes in what the leader decided for this member.
func (b *Balancer) ParseSyncAssignment(raw []byte) (map[string][]int32, error) {
	own := make(map[string][]int32)
	var msg kmsg.ConsumerMemberAssignment
	// A member that joined after the leader balanced has no assignment at
	// all; the rebalance it started is on its way.
	if len(raw) > 0 {
		if err := msg.ReadFrom(raw); err != nil {
			return nil, fmt.Errorf("rebalance: reading the assignment of protocol %q: %w", b.cfg.Protocol, err)
		}
	}
	for _, t := range msg.Topics {
		own[t.Topic] = slices.Sorted(slices.Values(t.Partitions))
	}

	var d syncData
	if len(raw) > 0 {
		var err error
		d, err = readSyncData(msg.UserData)
		switch {
		case errors.Is(err, errNewer):
			// The partitions are in the outer message, which all versions
			// share. Only the view of the other members is missing.
			b.log.Warn("the leader is newer than this member; hosts of other members are unknown", "err", err)
			d = syncData{}
		case err != nil:
			return nil, fmt.Errorf("rebalance: reading the user data of the assignment of protocol %q: %w", b.cfg.Protocol, err)
		}
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	a := newAssignment(&d, own, b.cfg.SubTopologies)
	// The client rejoins by itself if it has to give up something.
	if !givesUp(b.claimed, own) {
		a.Rejoin = d.owes || d.digest != 0 && d.digest != b.digest
	}
	if a.Rejoin {
		b.ask++
	}
	b.current = a
	return own, nil
}

// givesUp reports whether some partition of had is not in has.
func givesUp(had, has map[string][]int32) bool {
	for topic, partitions := range had {
		for _, p := range partitions {
			if !slices.Contains(has[topic], p) {
				return true
			}
		}
	}
	return false
}

// MemberBalancer reads the members' metadata on the leader. It never fails:
// one member that nobody understands must not stop the others.
func (b *Balancer) MemberBalancer(joined []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	l := &leader{log: b.log, topics: make(map[string]struct{})}
	seen := make(map[string]bool)
	processes := make(map[string]string)
	for _, j := range joined {
		if seen[j.MemberID] {
			continue // a broker that lists a member twice must not double its share
		}
		seen[j.MemberID] = true
		m := readMember(j)
		if m.unreadable != nil {
			b.log.Warn("cannot read a member's user data; it keeps what it owns and gets nothing more",
				"member", m.id, "instance", m.instance, "err", m.unreadable)
		}
		if other, twice := processes[m.data.process]; twice && m.unreadable == nil {
			b.log.Warn("two members have one process id; was a state directory copied?",
				"process", m.data.process, "member", m.id, "other", other)
		}
		processes[m.data.process] = m.id
		for _, s := range m.data.subs {
			for _, t := range s.Topics {
				l.topics[t] = struct{}{}
			}
		}
		l.members = append(l.members, m)
	}
	return l, l.topics, nil
}

func readMember(j kmsg.JoinGroupResponseMember) groupMember {
	m := groupMember{id: j.MemberID, generation: -1}
	if j.InstanceID != nil {
		m.instance = *j.InstanceID
	}
	var meta kmsg.ConsumerMemberMetadata
	meta.Default()
	if err := meta.ReadFrom(j.ProtocolMetadata); err != nil {
		m.unreadable = fmt.Errorf("metadata: %w", err)
		return m
	}
	m.generation = meta.Generation
	m.claims = make(map[topicPartition]struct{})
	for _, o := range meta.OwnedPartitions {
		for _, p := range o.Partitions {
			m.claims[topicPartition{o.Topic, p}] = struct{}{}
		}
	}
	data, err := readJoinData(meta.UserData)
	if err != nil {
		m.unreadable = fmt.Errorf("user data: %w", err)
		return m
	}
	m.data = data
	return m
}

// leader balances one generation.
type leader struct {
	log        *slog.Logger
	members    []groupMember
	topics     map[string]struct{}
	generation int32
	group      string
}

var _ kgo.GroupMemberBalancerInfo = (*leader)(nil)

func (l *leader) SetBalanceInfo(info kgo.BalanceInfo) {
	l.generation, l.group = info.Generation, info.Group
}

// Balance decides who gets what.
func (l *leader) Balance(counts map[string]int32) kgo.IntoSyncAssignment {
	p := planGroup(l.members, l.generation, counts)
	log := l.log.With("group", l.group, "generation", l.generation)
	if len(p.missing) > 0 {
		log.Error("topics do not exist; their sub-topologies get no new tasks", "topics", p.missing)
	}
	for _, m := range p.moves {
		log.Debug("task moves", "topics", m.topics, "partition", m.partition, "from", m.from, "to", m.to, "lag", m.lag)
	}
	log.Info("assigned tasks", "members", len(l.members), "tasks", p.tasks, "moves", len(p.moves), "withheld", p.withheld)
	return syncPlan{p, l.members}
}

// syncPlan is a plan on its way to the members.
type syncPlan struct {
	plan    groupPlan
	members []groupMember
}

// IntoSyncAssignment encodes the plan for every member.
func (s syncPlan) IntoSyncAssignment() []kmsg.SyncGroupRequestGroupAssignment {
	var out []kmsg.SyncGroupRequestGroupAssignment
	data := s.plan.syncData(s.members)
	for i, m := range s.members {
		data.digest, data.owes = m.data.digest, s.plan.owes[i]
		var msg kmsg.ConsumerMemberAssignment
		for _, topic := range slices.Sorted(maps.Keys(s.plan.given[i])) {
			t := kmsg.NewConsumerMemberAssignmentTopic()
			t.Topic, t.Partitions = topic, s.plan.given[i][topic]
			msg.Topics = append(msg.Topics, t)
		}
		msg.UserData = data.append(nil)
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = m.id, msg.AppendTo(nil)
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b kmsg.SyncGroupRequestGroupAssignment) int {
		return cmp.Compare(a.MemberID, b.MemberID)
	})
	return out
}
