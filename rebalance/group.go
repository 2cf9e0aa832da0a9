package rebalance

import (
	"cmp"
	"maps"
	"slices"
)

type topicPartition struct {
	topic     string
	partition int32
}

// groupMember is one member as the leader sees it.
type groupMember struct {
	id, instance string
	generation   int32 // in which the claims were made
	claims       map[topicPartition]struct{}
	data         joinData
	unreadable   error // why data is empty, nil if it is not

	owned map[topicPartition]struct{} // claims that hold, see resolveClaims
}

// holder is the member that may still be running a partition.
type holder struct {
	member int
	fresh  bool // the claim is from the generation just ended
}

// groupMove is a task on its way to another member, for the log.
type groupMove struct {
	topics    []string
	partition int32
	from, to  string // processes
	lag       int64
}

// groupPlan is the outcome of one rebalance. Slices run parallel to the
// members.
type groupPlan struct {
	given    []map[string][]int32 // partitions in order
	owes     []bool               // the member holds what others wait for
	missing  []string             // topics that do not exist
	withheld int                  // partitions nobody gets this time
	tasks    int                  // tasks there are, given out or not
	moves    []groupMove
}

// resolveClaims finds who may be running each partition, and sets owned.
//
// A claim holds if it is from the generation that has just ended: then the
// member was in the group all the time. An older claim is of a member that
// missed a generation; somebody else may have run the task meanwhile, so the
// member must drop it before anybody, itself included, gets it again. A later
// one comes from a generation that a failing coordinator forgot before it gave
// out assignments, and is as good.
func resolveClaims(members []groupMember, generation int32) map[topicPartition]holder {
	last := generation - 1
	if generation <= 0 {
		last = -1
		for i := range members {
			last = max(last, members[i].generation)
		}
	}
	holders := make(map[topicPartition]holder)
	for i := range members {
		m := &members[i]
		m.owned = make(map[topicPartition]struct{})
		for tp := range m.claims {
			h := holder{member: i, fresh: m.generation >= last}
			old, taken := holders[tp]
			if !taken || h.fresh && !old.fresh {
				holders[tp] = h
			}
		}
	}
	for tp, h := range holders {
		if h.fresh {
			members[h.member].owned[tp] = struct{}{}
		}
	}
	return holders
}

// planGroup balances the generation that begins (0 if unknown), given the
// number of partitions of each topic. It is pure. The order of members matters
// only where two claim one partition by equal right: the first has it.
func planGroup(members []groupMember, generation int32, counts map[string]int32) groupPlan {
	g := grouping{
		members: members,
		holders: resolveClaims(members, generation),
		plan: groupPlan{
			given: make([]map[string][]int32, len(members)),
			owes:  make([]bool, len(members)),
		},
	}
	for i := range members {
		g.plan.given[i] = make(map[string][]int32)
	}
	g.units = chooseVersions(members)
	g.countPartitions(counts)
	g.keep()
	g.assign()
	for i := range g.plan.given {
		for _, partitions := range g.plan.given[i] {
			slices.Sort(partitions)
		}
	}
	return g.plan
}

// grouping is the work on one groupPlan.
type grouping struct {
	members []groupMember
	holders map[topicPartition]holder
	units   []unit
	counts  map[string]int32
	frozen  map[string]bool // topics of units that miss a topic
	plan    groupPlan
}

// countPartitions takes the client's word for the number of partitions, unless
// a member owns one beyond it: the client's knowledge may be minutes old.
func (g *grouping) countPartitions(counts map[string]int32) {
	g.counts = maps.Clone(counts)
	if g.counts == nil {
		g.counts = make(map[string]int32)
	}
	missing := make(map[string]bool)
	g.frozen = make(map[string]bool)
	for _, u := range g.units {
		for _, t := range u.topics {
			if counts[t] <= 0 {
				missing[t] = true
				for _, other := range u.topics {
					g.frozen[other] = true
				}
			}
		}
	}
	g.plan.missing = slices.Sorted(maps.Keys(missing))
	for tp, h := range g.holders {
		if h.fresh && !missing[tp.topic] {
			g.counts[tp.topic] = max(g.counts[tp.topic], tp.partition+1)
		}
	}
}

// keep gives back what is not up for assignment: the partitions of members
// that nobody understands, and those of sub-topologies of which a topic is
// missing. Their tasks run on, and none is added.
func (g *grouping) keep() {
	for i := range g.members {
		m := &g.members[i]
		for tp := range m.owned {
			if m.unreadable != nil || g.frozen[tp.topic] {
				g.give(i, tp)
			}
		}
	}
}

func (g *grouping) give(member int, tp topicPartition) {
	given := g.plan.given[member]
	given[tp.topic] = append(given[tp.topic], tp.partition)
}

// partitions lists what the task of a unit reads. A topic with fewer
// partitions is absent in the higher tasks.
func (g *grouping) partitions(u *unit, partition int32) []topicPartition {
	var list []topicPartition
	for _, t := range u.topics {
		if partition < g.counts[t] {
			list = append(list, topicPartition{t, partition})
		}
	}
	return list
}

func (g *grouping) assign() {
	candidates := make([]Member, 0, len(g.members))
	index := make(map[string]int)
	for i := range g.members {
		m := &g.members[i]
		index[m.id] = i
		if m.unreadable != nil {
			continue
		}
		candidates = append(candidates, g.candidate(i))
	}
	at := make(map[string]int) // member id -> index in candidates
	for i := range candidates {
		at[candidates[i].ID] = i
	}

	var work []Work
	for n := range g.units {
		u := &g.units[n]
		if g.frozen[u.topics[0]] {
			continue
		}
		var tasks int32
		for _, t := range u.topics {
			tasks = max(tasks, g.counts[t])
		}
		for p := range tasks {
			g.plan.tasks++
			owner, free := g.owner(g.partitions(u, p))
			if !free {
				continue
			}
			task := Task{n, p}
			work = append(work, Work{Task: task, Fingerprint: u.fingerprint, Stateful: u.stateful})
			if c, ok := at[owner]; ok {
				candidates[c].Owned = append(candidates[c].Owned, task)
			}
		}
	}

	plan := Assign(work, candidates)
	for id, tasks := range plan.Tasks {
		for _, t := range tasks {
			g.hand(index[id], &g.units[t.Sub], t.Partition)
		}
	}
	for _, m := range plan.Moves {
		g.plan.moves = append(g.plan.moves, groupMove{
			topics:    g.units[m.Task.Sub].topics,
			partition: m.Task.Partition,
			from:      g.members[index[m.From]].data.process,
			to:        g.members[index[m.To]].data.process,
			lag:       m.Lag,
		})
	}
}

// candidate describes a member in the group's numbering of sub-topologies.
func (g *grouping) candidate(i int) Member {
	m := &g.members[i]
	c := Member{
		ID:         m.id,
		InstanceID: m.instance,
		Process:    m.data.process,
		Workers:    m.data.workers,
		Local:      make(map[Task]int64),
		Subs:       make(map[int]uint64),
	}
	units := make(map[int]int) // the member's number -> the group's
	for n := range g.units {
		if number, ok := g.units[n].number[i]; ok {
			units[number] = n
			c.Subs[n] = g.units[n].fingerprint
		}
	}
	for t, pos := range m.data.local {
		if n, ok := units[t.Sub]; ok {
			c.Local[Task{n, t.Partition}] = pos
		}
	}
	return c
}

// owner returns the id of the member that runs the task with these
// partitions, empty if nobody does. It reports false if the task is not to be
// had, because a member that nobody understands holds a part of it.
func (g *grouping) owner(partitions []topicPartition) (id string, free bool) {
	for _, tp := range partitions {
		h, held := g.holders[tp]
		if !held || !h.fresh {
			continue
		}
		m := &g.members[h.member]
		if m.unreadable != nil {
			return "", false
		}
		id = cmp.Or(id, m.id)
	}
	return id, true
}

// hand gives a task to a member, or withholds it while somebody may still be
// running a part of it.
func (g *grouping) hand(member int, u *unit, partition int32) {
	partitions := g.partitions(u, partition)
	held := false
	for _, tp := range partitions {
		h, ok := g.holders[tp]
		if ok && (h.member != member || !h.fresh) {
			held = true
			g.plan.owes[h.member] = true
		}
	}
	if held {
		g.plan.withheld += len(partitions)
		return
	}
	for _, tp := range partitions {
		g.give(member, tp)
	}
}

// syncData collects what all members are told alike.
func (p *groupPlan) syncData(members []groupMember) syncData {
	d := syncData{missing: p.missing, withheld: p.withheld}
	topics := make(map[string]int)
	for _, given := range p.given {
		for t := range given {
			topics[t] = 0
		}
	}
	d.topics = slices.Sorted(maps.Keys(topics))
	for i, t := range d.topics {
		topics[t] = i
	}
	for i := range members {
		m := &members[i]
		if m.unreadable != nil {
			continue
		}
		peer := peerData{process: m.data.process, host: m.data.host, rack: m.data.rack}
		for _, t := range slices.Sorted(maps.Keys(p.given[i])) {
			peer.active = append(peer.active, partitionSet{topics[t], p.given[i][t]})
		}
		d.peers = append(d.peers, peer)
	}
	slices.SortStableFunc(d.peers, func(a, b peerData) int { return cmp.Compare(a.process, b.process) })
	return d
}
