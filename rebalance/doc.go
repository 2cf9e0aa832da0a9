// Package rebalance decides which member of a group runs which task.
//
// A task is a sub-topology on one partition, written 0_3 for sub-topology 0 on
// partition 3. It reads that partition of every topic of its sub-topology; a
// topic with fewer partitions is absent in the higher tasks. There are two
// layers here, and the lower one knows nothing of Kafka:
//
//   - [Assign] distributes tasks over the members of a group, and [Spread] the
//     tasks of one process over its workers. Both are pure functions: the same
//     input gives the same plan, in whatever order it comes.
//   - [Balancer] is a protocol of the classic consumer group. It lets one
//     member, the leader, run Assign for all, and carries what Assign must
//     know to the leader and what came of it back.
//
// # Using it
//
// A process has one Balancer and one client with it, whose callbacks open and
// close tasks:
//
//	b, err := rebalance.NewBalancer(rebalance.Config{
//		Process:       processID, // kept in the state directory
//		Host:          "10.0.0.7:8080",
//		Workers:       4,
//		SubTopologies: subs,
//		Positions:     func() map[rebalance.Task]int64 { return states.Positions() },
//	})
//	...
//	cl, err := kgo.NewClient(
//		kgo.ConsumerGroup("app"),
//		kgo.ConsumeTopics(topics...), // all topics of subs
//		kgo.Balancers(b),
//		kgo.OnPartitionsAssigned(func(ctx context.Context, cl *kgo.Client, added map[string][]int32) {
//			a := b.Assignment()
//			// Close what is not in a.Tasks, open what is, and:
//			if a.Rejoin {
//				cl.ForceRebalance()
//			}
//		}),
//		...
//	)
//
// # What a plan is
//
// Assign takes the best plan by rules of which each counts only where the ones
// before it are content: balance, stateful tasks first; leaving tasks where
// they run; sending the others where the least of their state is missing;
// spreading each sub-topology. So a rebalance without a reason changes
// nothing, a member that joins takes its share and no more, and a process that
// comes back with its directory gets the tasks it had. A task never leaves a
// living owner only because another member has more of its state.
//
// # Two phases
//
// A partition is never given to a member while another may still be running
// it. When a task is to move, the leader withholds its partitions from
// everybody ([Assignment.Withheld]); its owner finds them gone from its
// assignment, commits and closes the task in OnPartitionsRevoked, and joins
// again, which the client does by itself. Now nobody claims the partitions,
// and the leader gives them out. Tasks that stay run through both phases.
//
//	a owns 0 1 2 3, b joins
//	phase 1   a: 0 2      b: -        1 and 3 withheld
//	          a commits and closes 1 and 3, joins again
//	phase 2   a: 0 2      b: 1 3
//
// The second plan takes nothing away from anybody, because what each member
// still owns is its share of it already. So two phases are enough unless the
// group changes in between.
//
// A claim counts if it was made in the generation that has just ended. A
// member whose claim is older missed a generation: its task may have run
// elsewhere and come to rest again. It gets none of those partitions in this
// round, not even those that nobody else claims, so that it has to close the
// tasks and to open them anew from what is committed. What such a member
// writes meanwhile is for the commit to fence, which is not done here.
//
// # Members of different builds
//
// The group knows a sub-topology by its topics and its fingerprint, not by its
// number, which an edit of the topology may change. Where builds agree, their
// members share the tasks. Where they do not, one build's sub-topologies run
// at a time: those that most workers know, or, of two equally common ones,
// those that own more partitions. A rolling deploy therefore switches once,
// half-way. This is decided apart for each set of topics that some build reads
// together; the rest of the topology is not touched.
//
// # The bytes
//
// The outer messages are those of Kafka's own assignors, so that tools can
// show the group: ConsumerMemberMetadata version 3 in the subscription, with
// topics, owned partitions, generation and rack; ConsumerMemberAssignment in
// the assignment. Our part is their user data. It starts with two bytes: the
// version that wrote it (1), and the oldest version that can read it (1). A
// later version that only appends fields raises the first, and readers ignore
// what they do not know. Strings and lists are preceded by their length;
// numbers are unsigned varints where nothing else is said.
//
//	subscription: process, host, rack, workers,
//	              sub-topologies: id, fingerprint (8 bytes), flags (1: stateful), topics
//	              ask
//	              positions: sub-topology, partition, position
//	assignment:   digest (8 bytes), flags (1: owes)
//	              topics
//	              members: process, host, rack, active, standby
//	              missing topics
//	              withheld
//
// where active and standby are lists of topic (an index into topics) and
// partitions (each as the distance from the one before, the first from 0).
//
// Which partitions are the member's own is in the outer message alone. A member
// whose user data the leader cannot read keeps what it owns and gets nothing
// more. A member that cannot read the leader's user data runs what it is given,
// and does not know the others' hosts.
//
// The digest is that of the subscription up to the topics of the last
// sub-topology, as the leader knew it; zero if it could not read it. Owes says
// that the leader waits for this member to give something up. Both serve
// static members: one that restarts gets its last assignment repeated without
// any rebalance, even if it comes back with another topology or if the
// assignment was the first of two phases. Such a member finds out by them that
// it has to ask for a rebalance ([Assignment.Rejoin]), and raises ask, because
// the broker takes a join with the same bytes for a repetition.
//
// # When a rebalance happens
//
// The subscription is built when the client joins, not between; so positions
// that change, however often, set off nothing. A member joins when it starts,
// when the broker announces a rebalance, when it has given something up, when
// its topics change, and after ForceRebalance. The leader also joins again
// when a topic of the group has more partitions, or begins to exist, which it
// sees when it refreshes metadata (every [kgo.MetadataMaxAge]).
//
// # What is not here
//
//   - Standbys and warm-ups. The format has room for standbys; none are
//     assigned. A task that moves is down while its new owner restores it.
//   - The streams rebalance protocol (KIP-1071), in which the broker assigns.
//   - Racks in the assignment. They are passed on for queries.
//   - Creating topics. A topic that is missing is reported
//     ([Assignment.Err]), and the sub-topologies that read it get no new tasks.
//   - Commits, fencing and anything else that a task does when it moves.
package rebalance
