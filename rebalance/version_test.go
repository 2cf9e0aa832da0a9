package rebalance

import (
	"fmt"
	"strings"
	"testing"
)

func TestChooseVersions(t *testing.T) {
	sub := func(id int, fingerprint uint64, topics ...string) SubTopology {
		return SubTopology{ID: id, Fingerprint: fingerprint, Topics: topics}
	}
	member := func(workers, owned int, subs ...SubTopology) groupMember {
		m := groupMember{data: joinData{workers: workers, subs: subs}, owned: map[topicPartition]struct{}{}}
		for p := range owned {
			m.owned[topicPartition{subs[0].Topics[0], int32(p)}] = struct{}{}
		}
		return m
	}
	for _, c := range []struct {
		name    string
		members []groupMember
		want    string // topics/fingerprint of each unit
	}{
		{"nobody", nil, ""},
		{"numbers do not matter", []groupMember{
			member(1, 0, sub(0, 1, "a"), sub(1, 2, "b")),
			member(1, 0, sub(5, 1, "a"), sub(0, 2, "b")),
		}, "a/1 b/2"},
		{"neither does the order of topics", []groupMember{
			member(1, 0, sub(0, 1, "a", "b")), member(1, 0, sub(0, 1, "b", "a")),
		}, "a,b/1"},
		{"most workers", []groupMember{
			member(1, 9, sub(0, 1, "a")), member(1, 0, sub(0, 1, "a")), member(3, 0, sub(0, 2, "a")),
		}, "a/2"},
		{"then most partitions", []groupMember{
			member(1, 1, sub(0, 1, "a")), member(1, 2, sub(0, 2, "a")),
		}, "a/2"},
		{"each family alone", []groupMember{
			member(1, 0, sub(0, 1, "a"), sub(1, 1, "b")), member(2, 0, sub(0, 2, "a")),
		}, "a/2 b/1"},
		{"split against whole", []groupMember{
			member(2, 0, sub(0, 1, "a"), sub(1, 1, "b")), member(1, 0, sub(0, 2, "a", "b")),
		}, "a/1 b/1"},
		{"whole against split", []groupMember{
			member(1, 0, sub(0, 1, "a"), sub(1, 1, "b")), member(2, 0, sub(0, 2, "a", "b")),
		}, "a,b/2"},
		{"chained through a third topic", []groupMember{
			member(2, 0, sub(0, 1, "a", "b"), sub(1, 1, "c")), member(1, 0, sub(0, 2, "b", "c"), sub(1, 2, "a")),
		}, "a,b/1 c/1"},
	} {
		var got []string
		for _, u := range chooseVersions(c.members) {
			got = append(got, fmt.Sprintf("%s/%d", strings.Join(u.topics, ","), u.fingerprint))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
}
