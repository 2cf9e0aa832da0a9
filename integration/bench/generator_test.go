package bench

import (
	"slices"
	"testing"
	"time"
)

var testInput = Input{Records: 20_000, Keys: 50, Dist: Uniform, Seed: 7, Partitions: 3, Base: time.UnixMilli(1_700_000_000_000), Step: time.Millisecond}

func TestSameInputSameRecords(t *testing.T) {
	a, b := newGenerator(testInput), newGenerator(testInput)
	a.windowed("in", map[string]uint64{})
	b.windowed("in", map[string]uint64{})
	if !slices.Equal(a.out, b.out) {
		t.Fatal("two generators with the same input differ")
	}
}

func TestEachGivesEveryKeyOnce(t *testing.T) {
	in := testInput
	in.Dist, in.Records, in.Keys = Each, 10_000, 10_000
	seen := map[int]bool{}
	newGenerator(in).stream("in", in.Records, 0, false, func(key int, _ uint64, _ time.Time) { seen[key] = true })
	if len(seen) != in.Keys {
		t.Fatalf("%d keys, want %d", len(seen), in.Keys)
	}
}

func TestZipfHasHotKeys(t *testing.T) {
	in := testInput
	in.Dist = Zipf
	counts := make([]int, in.Keys)
	newGenerator(in).stream("in", in.Records, 0, false, func(key int, _ uint64, _ time.Time) { counts[key]++ })
	if counts[0] < in.Records/10 {
		t.Fatalf("the first key has %d of %d records", counts[0], in.Records)
	}
}

// Only what is later than the grace is dropped, and that is no more than the records made late on purpose.
func TestWindowedDropsOnlyTheLate(t *testing.T) {
	in := testInput
	in.Records = 200_000 // more than the three minutes after which lateness can show
	emitted := newGenerator(in).windowed("in", map[string]uint64{})
	dropped := int64(in.Records) - emitted
	if limit := int64(2 * in.Records / lateOne); dropped == 0 || dropped > limit {
		t.Fatalf("%d of %d records dropped, want between 1 and %d", dropped, in.Records, limit)
	}
}

// The join of the generator, which only looks left from the right, equals the pairing of everything with everything.
func TestJoinedPairs(t *testing.T) {
	in := testInput
	in.Records = 2_001
	g := newGenerator(in)
	pairs, _ := g.joined("left", "right")
	if len(g.out) != in.Records {
		t.Errorf("%d records, want %d", len(g.out), in.Records)
	}
	var want int64
	for _, l := range g.out {
		for _, r := range g.out {
			if l.topic == "left" && r.topic == "right" && l.key == r.key && max(l.at-r.at, r.at-l.at) <= joinWithin.Milliseconds() {
				want++
			}
		}
	}
	if pairs != want || pairs == 0 {
		t.Fatalf("%d pairs, want %d", pairs, want)
	}
}

// Every id is kept once, at its first record, and a tenth comes again.
func TestIdentified(t *testing.T) {
	g := newGenerator(testInput)
	kept, sum := g.identified("in")
	first := map[string]uint64{}
	repeats := 0
	var want uint64
	for _, p := range g.out {
		key := string(id(p.key))
		if _, ok := first[key]; ok {
			repeats++
			continue
		}
		first[key] = p.n
		want += hashOutput([]byte(key), numbers(p.n, 0)[:8])
	}
	if len(first) != testInput.Records || kept != int64(testInput.Records) || repeats != testInput.Records/repeatAfter || sum != want {
		t.Errorf("%d ids of which %d are said to be kept, %d repeats, sum %x, want %d, %d and %x", len(first), kept, repeats, sum, testInput.Records, testInput.Records/repeatAfter, want)
	}
}

func TestGenerate(t *testing.T) {
	for scenario, want := range map[string]struct {
		topics  int
		records int64
	}{
		Count: {1, 20_000}, CountCached: {1, 20_000}, Window: {1, 20_000}, Join: {2, 20_050}, StreamJoin: {2, 20_000}, Dedup: {1, 22_000},
	} {
		g, d, err := generate(scenario, "p", testInput)
		if err != nil || len(d.topics) != want.topics || d.records != want.records || int64(len(g.out)) != want.records {
			t.Errorf("%s: %+v, %d records, %v; want %+v", scenario, d, len(g.out), err, want)
		}
		if d.want.records == 0 || (d.want.last == nil) == (d.want.sum == 0) {
			t.Errorf("%s: expects %d records, %d keys, sum %d", scenario, d.want.records, len(d.want.last), d.want.sum)
		}
	}
	if _, _, err := generate("nothing", "p", testInput); err == nil {
		t.Error("an unknown scenario was generated")
	}
}

func TestValidate(t *testing.T) {
	if err := testInput.validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Input){
		"keys":         func(in *Input) { in.Keys = 1 },
		"partitions":   func(in *Input) { in.Partitions = 0 },
		"records":      func(in *Input) { in.Records = -1 },
		"distribution": func(in *Input) { in.Dist = "even" },
		"step":         func(in *Input) { in.Step = 0 },
		"each":         func(in *Input) { in.Dist = Each },
	} {
		in := testInput
		if spoil(&in); in.validate() == nil {
			t.Errorf("wrong %s passed", name)
		}
	}
}
