package rebalance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestNewBalancerNamesEveryFault(t *testing.T) {
	_, err := NewBalancer(Config{Workers: 5000, SubTopologies: []SubTopology{
		{ID: 0, Topics: []string{"a", ""}},
		{ID: 0, Topics: []string{"a"}},
		{ID: -1},
	}})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"Process is empty", "Workers is 5000", "topic name is empty", `topic "a" is read by`, "0 is there twice", "-1: the id", "-1 reads no topic"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	if _, err := NewBalancer(Config{Process: "p"}); err == nil {
		t.Error("a configuration without sub-topologies was accepted")
	}
}

func balancer(t *testing.T, process string, subs ...SubTopology) *Balancer {
	t.Helper()
	b, err := NewBalancer(Config{Process: process, Host: process + ":80", Rack: "r", SubTopologies: subs})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// joinResponse is one member as the broker shows it to the leader.
func joinResponse(id string, metadata []byte) kmsg.JoinGroupResponseMember {
	j := kmsg.NewJoinGroupResponseMember()
	j.MemberID, j.ProtocolMetadata = id, metadata
	return j
}

// lead balances as leader and returns each member's partitions and bytes.
func lead(t *testing.T, b *Balancer, generation int32, counts map[string]int32, joined ...kmsg.JoinGroupResponseMember) (map[string]map[string][]int32, map[string][]byte) {
	t.Helper()
	gb, _, err := b.MemberBalancer(joined)
	if err != nil {
		t.Fatal(err)
	}
	gb.(kgo.GroupMemberBalancerInfo).SetBalanceInfo(kgo.BalanceInfo{Generation: generation})
	parts, raw := map[string]map[string][]int32{}, map[string][]byte{}
	for _, a := range gb.Balance(counts).IntoSyncAssignment() {
		var m kmsg.ConsumerMemberAssignment
		if err := m.ReadFrom(a.MemberAssignment); err != nil {
			t.Fatal(err)
		}
		parts[a.MemberID] = map[string][]int32{}
		for _, topic := range m.Topics {
			parts[a.MemberID][topic.Topic] = topic.Partitions
		}
		raw[a.MemberID] = a.MemberAssignment
	}
	return parts, raw
}

var orders = SubTopology{ID: 0, Topics: []string{"orders"}, Fingerprint: 1, Stateful: true}

func TestMetadataIsReadableByTools(t *testing.T) {
	b := balancer(t, "p", orders)
	raw := b.JoinGroupMetadata([]string{"orders"}, map[string][]int32{"orders": {2, 1}}, 5)
	var meta kmsg.ConsumerMemberMetadata
	if err := meta.ReadFrom(raw); err != nil {
		t.Fatal(err)
	}
	if meta.Version != 3 || !slices.Equal(meta.Topics, []string{"orders"}) || meta.Generation != 5 || *meta.Rack != "r" {
		t.Errorf("metadata = %+v", meta)
	}
	if len(meta.OwnedPartitions) != 1 || !slices.Equal(meta.OwnedPartitions[0].Partitions, []int32{1, 2}) {
		t.Errorf("owned = %+v", meta.OwnedPartitions)
	}
}

func TestStaleClaimIsGivenUpByItsHolderToo(t *testing.T) {
	a, b := balancer(t, "a", orders), balancer(t, "b", orders)
	zombie := a.JoinGroupMetadata(nil, map[string][]int32{"orders": {0, 1}}, 3)
	live := b.JoinGroupMetadata(nil, map[string][]int32{"orders": {1}}, 7)
	parts, raw := lead(t, b, 8, map[string]int32{"orders": 3}, joinResponse("a", zombie), joinResponse("b", live))
	// 0 is withheld from both; 1 stays where it is; 2 is free.
	want := map[string]map[string][]int32{"a": {"orders": {2}}, "b": {"orders": {1}}}
	if d := cmp.Diff(want, parts); d != "" {
		t.Error(d)
	}
	if _, err := a.ParseSyncAssignment(raw["a"]); err != nil {
		t.Fatal(err)
	}
	if got := a.Assignment(); got.Withheld != 1 || got.Rejoin {
		t.Errorf("assignment = %+v, want 1 withheld, and the client to rejoin by itself", got)
	}
}

func TestUnreadableMemberKeepsWhatItOwns(t *testing.T) {
	a, b := balancer(t, "a", orders), balancer(t, "b", orders)
	var meta kmsg.ConsumerMemberMetadata
	if err := meta.ReadFrom(b.JoinGroupMetadata(nil, map[string][]int32{"orders": {0}}, 1)); err != nil {
		t.Fatal(err)
	}
	meta.UserData = []byte{9, 9, 1, 2, 3}
	parts, raw := lead(t, a, 2, map[string]int32{"orders": 4},
		joinResponse("a", a.JoinGroupMetadata(nil, nil, -1)),
		joinResponse("b", meta.AppendTo(nil)),
		joinResponse("c", []byte("not metadata at all")),
		joinResponse("c", []byte("and listed twice")))
	want := map[string]map[string][]int32{"a": {"orders": {1, 2, 3}}, "b": {"orders": {0}}, "c": {}}
	if d := cmp.Diff(want, parts); d != "" {
		t.Error(d)
	}
	// The newer member reads our answer and is not sent round in circles.
	if _, err := b.ParseSyncAssignment(raw["b"]); err != nil {
		t.Fatal(err)
	}
	if got := b.Assignment(); got.Rejoin {
		t.Errorf("assignment = %+v, want no rejoin", got)
	}
}

func TestOldMetadataDoesNotTakePartitionsAway(t *testing.T) {
	a := balancer(t, "a", orders)
	parts, _ := lead(t, a, 2, map[string]int32{"orders": 2},
		joinResponse("a", a.JoinGroupMetadata(nil, map[string][]int32{"orders": {0, 1, 2}}, 1)))
	if d := cmp.Diff([]int32{0, 1, 2}, parts["a"]["orders"]); d != "" {
		t.Error(d)
	}
}

func TestAssignmentTellsWhoRunsWhat(t *testing.T) {
	clicks := SubTopology{ID: 5, Topics: []string{"clicks", "users"}, Fingerprint: 2}
	a, b := balancer(t, "a", orders, clicks), balancer(t, "b", orders)
	_, raw := lead(t, a, 1, map[string]int32{"orders": 2, "clicks": 1, "users": 2},
		joinResponse("a", a.JoinGroupMetadata(nil, nil, -1)), joinResponse("b", b.JoinGroupMetadata(nil, nil, -1)))
	for id, x := range map[string]*Balancer{"a": a, "b": b} {
		if _, err := x.ParseSyncAssignment(raw[id]); err != nil {
			t.Fatal(err)
		}
		got := x.Assignment()
		if p, ok := got.Owner("users", 1); !ok || p.Host != "a:80" || p.Rack != "r" {
			t.Errorf("%s: users 1 is at %+v, %v; want a", id, p, ok)
		}
		if _, ok := got.Owner("users", 2); ok {
			t.Errorf("%s: a partition that does not exist has an owner", id)
		}
	}
	// The task exists on the larger topic's partitions, without the smaller.
	if got := a.Assignment().Tasks; !slices.Contains(got, Task{5, 1}) || !slices.Contains(got, Task{5, 0}) {
		t.Errorf("tasks of a = %v, want 5_0 and 5_1 among them", got)
	}
}

func TestMissingTopicIsNamed(t *testing.T) {
	clicks := SubTopology{ID: 1, Topics: []string{"clicks", "users"}}
	a := balancer(t, "a", orders, clicks)
	parts, raw := lead(t, a, 1, map[string]int32{"orders": 1, "clicks": 3}, joinResponse("a", a.JoinGroupMetadata(nil, nil, -1)))
	if d := cmp.Diff(map[string][]int32{"orders": {0}}, parts["a"]); d != "" {
		t.Error(d)
	}
	if _, err := a.ParseSyncAssignment(raw["a"]); err != nil {
		t.Fatal(err)
	}
	got := a.Assignment()
	if err := got.Err(); !errors.Is(err, ErrMissingTopic) || !strings.Contains(err.Error(), "users") {
		t.Errorf("Err = %v, want ErrMissingTopic naming users", err)
	}
	if err := (&Assignment{}).Err(); err != nil {
		t.Errorf("nothing missing: %v", err)
	}
}

// A static member that comes back with another configuration is handed its old
// assignment by the broker, and has to ask for a rebalance itself.
func TestReturningMemberAsksForRebalance(t *testing.T) {
	a := balancer(t, "a", orders)
	_, raw := lead(t, a, 1, map[string]int32{"orders": 1}, joinResponse("a", a.JoinGroupMetadata(nil, nil, -1)))
	same := balancer(t, "a", orders)
	changed, err := NewBalancer(Config{Process: "a", Workers: 8, SubTopologies: []SubTopology{orders}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		b    *Balancer
		want bool
	}{{"same", same, false}, {"changed", changed, true}} {
		before := c.b.JoinGroupMetadata(nil, nil, -1)
		if _, err := c.b.ParseSyncAssignment(raw["a"]); err != nil {
			t.Fatal(err)
		}
		if got := c.b.Assignment().Rejoin; got != c.want {
			t.Errorf("%s: Rejoin = %v, want %v", c.name, got, c.want)
		}
		if after := c.b.JoinGroupMetadata(nil, nil, -1); slices.Equal(before, after) == c.want {
			t.Errorf("%s: the join's bytes changed: %v, want %v", c.name, !c.want, c.want)
		}
	}
}

func TestParseSyncAssignmentOddities(t *testing.T) {
	b := balancer(t, "a", orders)
	if got, err := b.ParseSyncAssignment(nil); err != nil || len(got) != 0 {
		t.Errorf("empty assignment: %v, %v", got, err)
	}
	if _, err := b.ParseSyncAssignment([]byte{1}); err == nil {
		t.Error("a broken assignment was accepted")
	}
	var m kmsg.ConsumerMemberAssignment
	m.UserData = []byte{1}
	if _, err := b.ParseSyncAssignment(m.AppendTo(nil)); err == nil {
		t.Error("broken user data was accepted")
	}
	m.UserData = []byte{9, 9}
	m.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "orders", Partitions: []int32{1, 0}}}
	got, err := b.ParseSyncAssignment(m.AppendTo(nil))
	if err != nil || !slices.Equal(got["orders"], []int32{0, 1}) {
		t.Errorf("assignment of a newer leader: %v, %v", got, err)
	}
	if a := b.Assignment(); a.Rejoin || !slices.Equal(a.Tasks, []Task{{0, 0}, {0, 1}}) {
		t.Errorf("assignment of a newer leader: %+v", a)
	}
}
