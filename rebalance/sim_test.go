package rebalance

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sim is a consumer group without a broker: it carries out rebalances one
// generation after the other, through the real balancers and their bytes, and
// keeps the members' promises: who gives something up rejoins.
type sim struct {
	counts     map[string]int32
	members    []*simMember // the first is the leader
	generation int32
	joined     int
	changed    bool                                // the broker has a reason for a rebalance
	ends       map[topicPartition]int64            // changelog ends, by first topic of the task
	disks      map[string]map[topicPartition]int64 // process -> what its directory holds
}

type simMember struct {
	id, process string
	instance    string
	build       []SubTopology
	b           *Balancer
	generation  int32
	owned       map[string][]int32
	raw         []byte // the last assignment
	rejoins     bool   // and has a reason to join again
}

func newSim(counts map[string]int32) *sim {
	return &sim{
		counts: counts,
		ends:   make(map[topicPartition]int64),
		disks:  make(map[string]map[topicPartition]int64),
	}
}

func (s *sim) join(process, instance string, workers int, build []SubTopology) error {
	m, err := s.newMember(process, instance, workers, build)
	s.members = append(s.members, m)
	s.changed = true
	return err
}

// restart lets a static member's process die and come back before anybody
// notices: the broker repeats its last assignment.
func (s *sim) restart(i, workers int, build []SubTopology) error {
	old := s.members[i]
	m, err := s.newMember(old.process, "i-"+old.process, workers, build)
	if err != nil {
		return err
	}
	s.members[i] = m
	m.b.JoinGroupMetadata(nil, nil, -1)
	m.raw, m.generation = old.raw, old.generation
	m.owned, err = m.b.ParseSyncAssignment(m.raw)
	m.rejoins = m.b.Assignment().Rejoin
	return err
}

func (s *sim) newMember(process, instance string, workers int, build []SubTopology) (*simMember, error) {
	s.joined++
	m := &simMember{
		id:         fmt.Sprintf("%s-%d", process, s.joined),
		process:    process,
		instance:   instance,
		build:      build,
		generation: -1,
	}
	if s.disks[process] == nil {
		s.disks[process] = make(map[topicPartition]int64)
	}
	var err error
	m.b, err = NewBalancer(Config{
		Process:       process,
		Host:          process + ":80",
		Workers:       workers,
		SubTopologies: build,
		Positions: func() map[Task]int64 {
			local := make(map[Task]int64)
			for _, sub := range build {
				for p := range int32(100) {
					if pos, ok := s.disks[process][topicPartition{slices.Min(sub.Topics), p}]; ok {
						local[Task{sub.ID, p}] = pos
					}
				}
			}
			return local
		},
	})
	return m, err
}

// kill removes a member without giving it the time to do anything.
func (s *sim) kill(process string) {
	s.members = slices.DeleteFunc(s.members, func(m *simMember) bool { return m.process == process })
	s.changed = true
}

// work lets every stateful task write n records to its changelog.
func (s *sim) work(n int64) {
	for _, m := range s.members {
		for _, t := range m.b.Assignment().Tasks {
			for _, sub := range m.build {
				if sub.ID == t.Sub && sub.Stateful {
					key := topicPartition{slices.Min(sub.Topics), t.Partition}
					s.ends[key] += n
					s.disks[m.process][key] = s.ends[key]
				}
			}
		}
	}
}

// due reports whether a rebalance follows by itself.
func (s *sim) due() bool {
	return s.changed || slices.ContainsFunc(s.members, func(m *simMember) bool { return m.rejoins })
}

// round carries out one rebalance.
func (s *sim) round() error {
	s.generation++
	s.changed = false
	if len(s.members) == 0 {
		return nil
	}
	var joined []kmsg.JoinGroupResponseMember
	fresh := make(map[topicPartition]*simMember)
	for _, m := range s.members {
		j := kmsg.NewJoinGroupResponseMember()
		j.MemberID = m.id
		if m.instance != "" {
			j.InstanceID = &m.instance
		}
		j.ProtocolMetadata = m.b.JoinGroupMetadata(nil, m.owned, m.generation)
		joined = append(joined, j)
		if m.generation == s.generation-1 {
			for topic, partitions := range m.owned {
				for _, p := range partitions {
					fresh[topicPartition{topic, p}] = m
				}
			}
		}
		m.generation = s.generation
	}
	lead := s.members[0].b
	gb, _, err := lead.MemberBalancer(joined)
	if err != nil {
		return err
	}
	gb.(kgo.GroupMemberBalancerInfo).SetBalanceInfo(kgo.BalanceInfo{Group: "sim", Generation: s.generation})
	owner := make(map[topicPartition]*simMember)
	for _, a := range gb.Balance(maps.Clone(s.counts)).IntoSyncAssignment() {
		i := slices.IndexFunc(s.members, func(m *simMember) bool { return m.id == a.MemberID })
		m := s.members[i]
		got, err := m.b.ParseSyncAssignment(a.MemberAssignment)
		if err != nil {
			return err
		}
		for topic, partitions := range got {
			for _, p := range partitions {
				tp := topicPartition{topic, p}
				if o := owner[tp]; o != nil {
					return fmt.Errorf("%v was given to %s and %s", tp, o.id, m.id)
				}
				owner[tp] = m
				if o := fresh[tp]; o != nil && o != m {
					return fmt.Errorf("%v was given to %s while %s had it", tp, m.id, o.id)
				}
			}
		}
		m.rejoins = givesUp(m.owned, got) || m.b.Assignment().Rejoin
		m.owned, m.raw = got, a.MemberAssignment
	}
	return nil
}

// settle rebalances until nothing follows.
func (s *sim) settle(each func()) error {
	for range 10 {
		if !s.due() {
			return nil
		}
		if err := s.round(); err != nil {
			return err
		}
		each()
	}
	return fmt.Errorf("no end of rebalances after generation %d", s.generation)
}
