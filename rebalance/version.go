package rebalance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// unit is a sub-topology as the group runs it: one that every member of the
// version in force knows, whatever number each gives it.
type unit struct {
	topics      []string // sorted
	fingerprint uint64
	stateful    bool
	number      map[int]int // member index -> its id for the unit
}

// variantKey identifies a sub-topology over members: topics and fingerprint.
func variantKey(s *SubTopology) string {
	topics := slices.Sorted(slices.Values(s.Topics))
	return fmt.Sprintf("%s|%016x", strings.Join(topics, ","), s.Fingerprint)
}

// families joins topics that some member reads in one sub-topology, and
// returns for each topic the one that stands for its family. Sub-topologies
// of different builds compete for partitions only within a family.
func families(members []groupMember) map[string]string {
	parent := make(map[string]string)
	var find func(string) string
	find = func(t string) string {
		if p, ok := parent[t]; !ok {
			parent[t] = t
		} else if p != t {
			parent[t] = find(p)
		}
		return parent[t]
	}
	for i := range members {
		for _, s := range members[i].data.subs {
			for _, t := range s.Topics {
				a, b := find(s.Topics[0]), find(t)
				parent[max(a, b)] = min(a, b)
			}
		}
	}
	for t := range parent {
		find(t)
	}
	return parent
}

// chooseVersions decides, where members of different builds are in the group,
// which build's sub-topologies run. Each family is decided alone: the version
// that most workers know wins, then the one that owns more partitions now. So
// a rolling deploy switches once, half-way, and never back, and at least half
// of the workers share the tasks all the time.
func chooseVersions(members []groupMember) []unit {
	family := families(members)

	type version struct {
		key     string
		members []int
		workers int
		owned   int
	}
	versions := make(map[string]map[string]*version) // family -> key -> version
	for i := range members {
		m := &members[i]
		keys := make(map[string][]string)
		for j := range m.data.subs {
			s := &m.data.subs[j]
			f := family[s.Topics[0]]
			keys[f] = append(keys[f], variantKey(s))
		}
		for f, list := range keys {
			slices.Sort(list)
			key := strings.Join(list, ";")
			if versions[f] == nil {
				versions[f] = make(map[string]*version)
			}
			v := versions[f][key]
			if v == nil {
				v = &version{key: key}
				versions[f][key] = v
			}
			v.members = append(v.members, i)
			v.workers += max(m.data.workers, 1)
			for tp := range m.owned {
				if family[tp.topic] == f {
					v.owned++
				}
			}
		}
	}

	var units []unit
	for _, f := range slices.Sorted(maps.Keys(versions)) {
		v := slices.MinFunc(slices.Collect(maps.Values(versions[f])), func(a, b *version) int {
			return cmp.Or(cmp.Compare(b.workers, a.workers), cmp.Compare(b.owned, a.owned), cmp.Compare(a.key, b.key))
		})
		byVariant := make(map[string]*unit)
		for _, i := range v.members {
			for j := range members[i].data.subs {
				s := &members[i].data.subs[j]
				if family[s.Topics[0]] != f {
					continue
				}
				key := variantKey(s)
				u := byVariant[key]
				if u == nil {
					u = &unit{
						topics:      slices.Sorted(slices.Values(s.Topics)),
						fingerprint: s.Fingerprint,
						number:      make(map[int]int),
					}
					byVariant[key] = u
				}
				u.stateful = u.stateful || s.Stateful
				u.number[i] = s.ID
			}
		}
		for _, key := range slices.Sorted(maps.Keys(byVariant)) {
			units = append(units, *byVariant[key])
		}
	}
	return units
}
