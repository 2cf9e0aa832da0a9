package rebalance

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var sampleJoin = joinData{
	process: "p-1",
	host:    "10.0.0.1:8080",
	rack:    "eu-1a",
	workers: 4,
	ask:     2,
	subs: []SubTopology{
		{ID: 0, Fingerprint: math.MaxUint64, Topics: []string{"orders", "payments"}, Stateful: true},
		{ID: 2, Fingerprint: 7, Topics: []string{"clicks"}},
	},
	local: map[Task]int64{{0, 0}: 0, {0, 1}: math.MaxInt64, {2, math.MaxInt32}: 300},
}

var sampleSync = syncData{
	digest: 99,
	owes:   true,
	topics: []string{"clicks", "orders"},
	peers: []peerData{
		{process: "p-1", host: "h:1", rack: "r", active: []partitionSet{{0, []int32{0, 3, math.MaxInt32}}, {1, []int32{5}}}},
		{process: "p-2", standby: []partitionSet{{1, []int32{0}}}},
	},
	missing:  []string{"users"},
	withheld: 3,
}

func TestWireRoundTrip(t *testing.T) {
	all := cmp.AllowUnexported(joinData{}, syncData{}, peerData{}, partitionSet{})
	j, err := readJoinData(sampleJoin.append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if want := digest(sampleJoin.appendStable(nil)); j.digest != want {
		t.Errorf("digest = %x, want %x", j.digest, want)
	}
	j.digest = 0
	if d := cmp.Diff(sampleJoin, j, all); d != "" {
		t.Error(d)
	}
	s, err := readSyncData(sampleSync.append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sampleSync, s, all); d != "" {
		t.Error(d)
	}
}

// The layout is fixed: members of this version are in groups with later ones.
func TestWireGolden(t *testing.T) {
	j := joinData{
		process: "p", host: "h", rack: "r", workers: 2, ask: 1,
		subs:  []SubTopology{{ID: 3, Fingerprint: 0x0102030405060708, Topics: []string{"t"}, Stateful: true}},
		local: map[Task]int64{{3, 4}: 300},
	}
	want := []byte("\x01\x01\x01p\x01h\x01r\x02\x01\x03\x01\x02\x03\x04\x05\x06\x07\x08\x01\x01\x01t\x01\x01\x03\x04\xac\x02")
	if got := j.append(nil); !bytes.Equal(got, want) {
		t.Errorf("join data\n got %q\nwant %q", got, want)
	}
	s := syncData{
		digest: 1, owes: true, topics: []string{"t"}, missing: []string{"m"}, withheld: 2,
		peers: []peerData{{process: "p", host: "h", rack: "r", active: []partitionSet{{0, []int32{1, 3}}}}},
	}
	want = []byte("\x01\x01\x00\x00\x00\x00\x00\x00\x00\x01\x01\x01\x01t\x01\x01p\x01h\x01r\x01\x00\x02\x01\x02\x00\x01\x01m\x02")
	if got := s.append(nil); !bytes.Equal(got, want) {
		t.Errorf("sync data\n got %q\nwant %q", got, want)
	}
}

func TestWireTruncated(t *testing.T) {
	j, s := sampleJoin.append(nil), sampleSync.append(nil)
	for n := range j {
		if _, err := readJoinData(j[:n]); err == nil {
			t.Errorf("join data cut to %d of %d bytes was accepted", n, len(j))
		}
	}
	for n := range s {
		if _, err := readSyncData(s[:n]); err == nil {
			t.Errorf("sync data cut to %d of %d bytes was accepted", n, len(s))
		}
	}
}

func TestWireVersions(t *testing.T) {
	// A later version that only added fields is readable.
	later := append(sampleJoin.append(nil), "new field"...)
	later[0] = 9
	if j, err := readJoinData(later); err != nil || j.process != sampleJoin.process {
		t.Errorf("compatible later version: %+v, %v", j, err)
	}
	later[1] = 2
	if _, err := readJoinData(later); !errors.Is(err, errNewer) {
		t.Errorf("incompatible later version: %v, want errNewer", err)
	}
	// What no sound member sends is refused before it can do harm.
	odd := sampleJoin
	odd.subs = []SubTopology{{ID: 0}}
	if _, err := readJoinData(odd.append(nil)); err == nil {
		t.Error("a sub-topology without topics was accepted")
	}
	// A count that the bytes cannot hold must not be allocated.
	if _, err := readSyncData([]byte("\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x0f")); !errors.Is(err, errShort) {
		t.Errorf("huge count: %v, want errShort", err)
	}
}

func FuzzReadJoinData(f *testing.F) {
	f.Add(sampleJoin.append(nil))
	f.Add([]byte("\x01\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := readJoinData(b)
		if err != nil {
			return
		}
		again, err := readJoinData(d.append(nil))
		if err != nil {
			t.Fatalf("%+v was read, written and refused: %v", d, err)
		}
		again.digest = d.digest
		if diff := cmp.Diff(d, again, cmp.AllowUnexported(joinData{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzReadSyncData(f *testing.F) {
	f.Add(sampleSync.append(nil))
	f.Add([]byte("\x01\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := readSyncData(b)
		if err != nil {
			return
		}
		newAssignment(&d, nil, nil)
		again, err := readSyncData(d.append(nil))
		if err != nil {
			t.Fatalf("%+v was read, written and refused: %v", d, err)
		}
		all := cmp.AllowUnexported(syncData{}, peerData{}, partitionSet{})
		if diff := cmp.Diff(d, again, all); diff != "" {
			t.Fatal(diff)
		}
	})
}
