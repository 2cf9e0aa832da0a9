package rebalance

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSimulatedGroups lets members come, go, freeze, wake and be upgraded in
// any order, with rebalances cut off at any point, and checks after each
// storm that the group comes to rest complete and balanced. That no partition
// has two owners is checked by the sim in every round.
func TestSimulatedGroups(t *testing.T) {
	builds := [][]SubTopology{
		{{ID: 0, Topics: []string{"orders"}, Stateful: true, Fingerprint: 1}, {ID: 1, Topics: []string{"clicks"}, Fingerprint: 2}},
		{{ID: 1, Topics: []string{"orders"}, Stateful: true, Fingerprint: 1}, {ID: 0, Topics: []string{"clicks"}, Fingerprint: 3}},
		{{ID: 4, Topics: []string{"clicks", "orders"}, Stateful: true, Fingerprint: 4}},
	}
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(map[string]int32{
			"orders": rapid.Int32Range(1, 6).Draw(t, "orders"),
			"clicks": rapid.Int32Range(1, 6).Draw(t, "clicks"),
		})
		mixed := rapid.Bool().Draw(t, "mixed")
		var frozen []*simMember
		pick := func(list []*simMember) int { return rapid.IntRange(0, len(list)-1).Draw(t, "who") }
		names := 0
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"join", "join", "kill", "freeze", "wake", "work", "grow", "restart", "round", "settle"}).Draw(t, "step") {
			case "join":
				names++
				build := builds[0]
				if mixed {
					build = rapid.SampledFrom(builds).Draw(t, "build")
				}
				if err := s.join(fmt.Sprint("p", names), "", 1, build); err != nil {
					t.Fatal(err)
				}
			case "kill":
				if len(s.members) > 0 {
					s.kill(s.members[pick(s.members)].process)
				}
			case "freeze":
				if len(s.members) > 0 {
					i := pick(s.members)
					frozen = append(frozen, s.members[i])
					s.members = slices.Delete(s.members, i, i+1)
					s.changed = true
				}
			case "wake":
				if len(frozen) > 0 {
					i := pick(frozen)
					m := frozen[i]
					frozen = slices.Delete(frozen, i, i+1)
					stale := m.generation != s.generation
					had := maps.Clone(m.owned)
					s.members = append(s.members, m)
					if err := s.round(); err != nil {
						t.Fatal(err)
					}
					if stale && len(had) > 0 && sharesAny(had, m.owned) {
						t.Fatalf("%s kept some of %v, which it may have lost meanwhile: %v", m.id, had, m.owned)
					}
				}
			case "work":
				s.work(rapid.Int64Range(1, 100).Draw(t, "records"))
			case "grow":
				s.counts["orders"]++
				s.changed = true
			case "restart":
				if len(s.members) > 0 {
					i := pick(s.members)
					build := s.members[i].build
					if mixed {
						build = rapid.SampledFrom(builds).Draw(t, "build")
					}
					if err := s.restart(i, 1, build); err != nil {
						t.Fatal(err)
					}
				}
			case "round":
				if err := s.round(); err != nil {
					t.Fatal(err)
				}
			case "settle":
				settleAndCheck(t, s, !mixed)
			}
		}
		settleAndCheck(t, s, !mixed)
	})
}

func sharesAny(a, b map[string][]int32) bool {
	for topic, partitions := range a {
		for _, p := range partitions {
			if slices.Contains(b[topic], p) {
				return true
			}
		}
	}
	return false
}

func settleAndCheck(t *rapid.T, s *sim, balanced bool) {
	if len(s.members) == 0 {
		return
	}
	if err := s.settle(func() {}); err != nil {
		t.Fatal(err)
	}
	partitions := 0
	var tasks []int
	for _, m := range s.members {
		for _, list := range m.owned {
			partitions += len(list)
		}
		tasks = append(tasks, len(m.b.Assignment().Tasks))
	}
	if want := int(s.counts["orders"] + s.counts["clicks"]); partitions != want {
		t.Fatalf("%d partitions have an owner, want %d", partitions, want)
	}
	if balanced && slices.Max(tasks)-slices.Min(tasks) > 1 {
		t.Fatalf("tasks per member: %v", tasks)
	}
	// At rest a further rebalance changes nothing, wherever state is.
	s.work(1000)
	before := make(map[string]string)
	for _, m := range s.members {
		before[m.id] = fmt.Sprint(m.owned)
	}
	if err := s.round(); s.due() || err != nil {
		t.Fatalf("a rebalance without reason: another follows %v, %v", s.due(), err)
	}
	for _, m := range s.members {
		if now := fmt.Sprint(m.owned); now != before[m.id] {
			t.Fatalf("%s went from %s to %s without reason", m.id, before[m.id], now)
		}
	}
}
