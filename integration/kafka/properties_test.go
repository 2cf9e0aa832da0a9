package kafka

import (
	"slices"
	"testing"
)

func TestPropertiesReplicateAsTheNodesAllow(t *testing.T) {
	for nodes, want := range map[int][2]string{1: {"1", "1"}, 3: {"3", "2"}, 5: {"3", "2"}} {
		p := properties(&Node{ID: 1, Addr: "127.0.0.1:12000", dir: "d"}, nodes, 12001, "1@127.0.0.1:12001")
		if got := [2]string{p["transaction.state.log.replication.factor"], p["transaction.state.log.min.isr"]}; got != want {
			t.Errorf("%d nodes: replicas and in-sync replicas %v, want %v", nodes, got, want)
		}
	}
}

func TestFreePorts(t *testing.T) {
	got, err := freePorts(6)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != 6 || got[0] < firstPort || got[5] >= firstPort+ports {
		t.Errorf("ports %v, want six different ones from %d on", got, firstPort)
	}
}

func TestClusterIDBeginsWithALetter(t *testing.T) {
	for range 1000 {
		if id := newClusterID(); id[0] < 'A' || id[0] > 'f' || len(id) != 22 {
			t.Fatalf("cluster id %q", id)
		}
	}
}
