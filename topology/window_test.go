package topology_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

var epoch = topologytest.StartAt(time.UnixMilli(0))

func epochTime(ms int64) time.Time { return time.UnixMilli(ms) }

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// windowWorld is a driver of a topology over windows, and what was written to a topic of it.
type windowWorld struct {
	*topologytest.Driver
	t  *testing.T
	in *topologytest.Input[string, string]
	at map[string]int // records seen, by topic
}

func windows(t *testing.T, declare func(b *topology.Builder, in topology.Stream[string, string]), opts ...topologytest.Option) *windowWorld {
	t.Helper()
	top := build(t, func(b *topology.Builder) { declare(b, b.Stream(words)) })
	d := topologytest.New(t, top, append([]topologytest.Option{epoch}, opts...)...)
	return &windowWorld{Driver: d, t: t, in: d.Input(words), at: map[string]int{}}
}

// send sends records, each as key=value@time or key@time.
func (w *windowWorld) send(records ...string) {
	w.t.Helper()
	for _, r := range records {
		head, at, _ := strings.Cut(r, "@")
		key, value, _ := strings.Cut(head, "=")
		var ms int64
		if _, err := fmt.Sscan(at, &ms); err != nil {
			w.t.Fatal(err)
		}
		w.in.SendAt(time.UnixMilli(ms), key, value)
	}
}

// inWindows writes records of a topic as key[start,end]=value@time.
func inWindows(raws []topologytest.Raw, session bool, size int64) string {
	var out []string
	for _, r := range raws {
		n := len(r.Key) - 8
		start, end := number(r.Key[n:]), int64(0)
		if session {
			n -= 8
			end = number(r.Key[n:])
		} else {
			end = start + size
		}
		out = append(out, fmt.Sprintf("%s[%d,%d]=%s@%d", r.Key[:n], start, end, text(r.Value), r.Time.UnixMilli()))
	}
	return strings.Join(out, " ")
}

func number(b []byte) (n int64) {
	for _, c := range b[:8] {
		n = n<<8 | int64(c)
	}
	return n
}

// wants fails the test unless these records were written to a topic since the last look.
func (w *windowWorld) wants(topic string, session bool, size int64, want string) {
	w.t.Helper()
	all := w.Records(topic)
	got := inWindows(all[min(w.at[topic], len(all)):], session, size)
	w.at[topic] = len(all)
	if got != want {
		w.t.Errorf("%s got\n%s, want\n%s", topic, got, want)
	}
}

func (w *windowWorld) late(want int) {
	w.t.Helper()
	if got := len(w.Drops(processor.Late)); got != want {
		w.t.Errorf("%d records were late, want %d", got, want)
	}
}

// countedIn writes the counts of windows to "updates" and "finals".
func countedIn(spec window.Spec) func(*topology.Builder, topology.Stream[string, string]) {
	return func(_ *topology.Builder, in topology.Stream[string, string]) {
		t := in.GroupByKey().Windowed(spec).Count("counts")
		t.Stream().To(topology.NewTopic("updates", window.KeySerde(serde.String(), spec), serde.Int64()))
		t.Final().To(topology.NewTopic("finals", window.KeySerde(serde.String(), spec), serde.Int64()))
	}
}

// collected writes the values of windows.
func collected(spec window.Spec) func(*topology.Builder, topology.Stream[string, string]) {
	return func(_ *topology.Builder, in topology.Stream[string, string]) {
		t := in.GroupByKey().Windowed(spec).Reduce("values", func(sum, v string) string { return sum + v })
		t.Stream().To(topology.NewTopic("updates", window.KeySerde(serde.String(), spec), serde.String()))
		t.Final().To(topology.NewTopic("finals", window.KeySerde(serde.String(), spec), serde.String()))
	}
}

// sessioned writes the counts of sessions.
func sessioned(spec window.SessionSpec) func(*topology.Builder, topology.Stream[string, string]) {
	return func(_ *topology.Builder, in topology.Stream[string, string]) {
		t := in.GroupByKey().Sessions(spec).Count("counts")
		t.To(topology.NewTopic("updates", window.SessionKeySerde(serde.String()), serde.Int64()))
		t.Final().To(topology.NewTopic("finals", window.SessionKeySerde(serde.String()), serde.Int64()))
	}
}

// W01: the end is exclusive.
func TestW01(t *testing.T) {
	w := windows(t, countedIn(window.Tumbling(millis(10_000))))
	w.send("k@9999", "k@10000", "k@10001", "k@20000")
	w.wants("updates", false, 10_000, "k[0,10000]=1@9999 k[10000,20000]=1@10000 k[10000,20000]=2@10001 k[20000,30000]=1@20000")
	w.wants("finals", false, 10_000, "k[0,10000]=1@9999 k[10000,20000]=2@10001")
}

// W02: the edge of the grace.
func TestW02(t *testing.T) {
	w := windows(t, countedIn(window.Tumbling(millis(10_000)).Grace(millis(5_000))))
	w.send("k@1000", "k@14999", "k@9000", "k@15000", "k@9001")
	w.wants("finals", false, 10_000, "k[0,10000]=2@9000")
	w.late(1)
}

// W03: hopping windows are not filled before they start.
func TestW03(t *testing.T) {
	w := windows(t, countedIn(window.Hopping(millis(10), millis(5))))
	for at := 0; at <= 30; at += 2 {
		w.send(fmt.Sprintf("k@%d", at))
	}
	w.wants("finals", false, 10, "k[0,10]=5@8 k[5,15]=5@14 k[10,20]=5@18 k[15,25]=5@24 k[20,30]=5@28")
	w.send("k@45")
	w.wants("finals", false, 10, "k[25,35]=3@30 k[30,40]=1@30")
}

// W05: days by the calendar of a zone, of 25 and 23 hours too.
func TestW05(t *testing.T) {
	zone := func(name string) *time.Location {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		return loc
	}
	at := func(text string) int64 {
		x, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return x.UnixMilli()
	}
	for _, c := range []struct {
		zone, first, second string
		start, end          int64
	}{
		{"Europe/Copenhagen", "2018-08-08T22:00:00.000Z", "2018-08-09T21:59:59.999Z", 1533765600000, 1533852000000},
		{"Europe/Berlin", "2024-10-26T22:00:00Z", "2024-10-27T22:30:00Z", 1729980000000, 1730070000000},
		{"Europe/Berlin", "2024-03-30T23:00:00Z", "2024-03-31T21:59:59Z", 1711839600000, 1711922400000},
	} {
		w := windows(t, countedIn(window.Daily(zone(c.zone))))
		w.send(fmt.Sprintf("k@%d", at(c.first)), fmt.Sprintf("k@%d", at(c.second)), fmt.Sprintf("k@%d", c.end))
		w.wants("finals", false, c.end-c.start, fmt.Sprintf("k[%d,%d]=2@%d", c.start, c.end, at(c.second)))
	}
}

// W06: another key of the partition closes a window, another partition does not.
func TestW06(t *testing.T) {
	w := windows(t, countedIn(window.Tumbling(millis(60_000))), topologytest.Partitions(2))
	keys := map[int32][]string{}
	for _, k := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		p := ownerOf(k, 2)
		keys[p] = append(keys[p], k)
	}
	one, other := keys[0], keys[1]
	w.send(other[0]+"@5", one[0]+"@0", one[1]+"@61000")
	w.wants("finals", false, 60_000, one[0]+"[0,60000]=1@0")
	w.send(other[1] + "@60000")
	w.wants("finals", false, 60_000, other[0]+"[0,60000]=1@5")
}

// W07: stream time survives a restart, and a result is sent once, also where time jumps past the retention.
func TestW07(t *testing.T) {
	for name, lose := range map[string]func(*windowWorld){
		"restart": func(w *windowWorld) { w.Restart() },
		"crash":   func(w *windowWorld) { w.Crash() },
		"nothing": func(*windowWorld) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := windows(t, countedIn(window.Tumbling(millis(10_000))), topologytest.ManualCommit())
			w.send("a@5000", "a@25000")
			w.Commit()
			lose(w)
			w.send("a@6000")
			w.wants("finals", false, 10_000, "a[0,10000]=1@5000")
			w.late(1)
			w.send("a@30000")
			w.wants("finals", false, 10_000, "a[20000,30000]=1@25000")
		})
	}
}

// An application that comes from Java has committed how far its results have come, but no stream time: what was sent is closed all the same, and is not sent again.
func TestFinalsAfterJava(t *testing.T) {
	for name, declare := range map[string]func(*topology.Builder, topology.Stream[string, string]){
		"tumbling": countedIn(window.Tumbling(millis(10)).Grace(millis(5))), "sessions": sessioned(window.Sessions(millis(9)).Grace(millis(5))),
	} {
		t.Run(name, func(t *testing.T) {
			w := run(t, func(b *topology.Builder) { declare(b, b.Stream(words)) }, func(w *world) { w.env.CloseIdle = 10 })
			one := []byte{0, 0, 0, 0, 0, 0, 0, 1}
			for _, end := range []byte{0, 10} { // windows from 0 and 10, or sessions that end then
				row := []byte{'k', 0, 0, 0, 0, 0, 0, 0, end, 0, 0, 0, 0}
				if name == "sessions" {
					row = []byte{'k', 0, 0, 0, 0, 0, 0, 0, end, 0, 0, 0, 0, 0, 0, 0, end}
				}
				if err := w.tasks[0].Restore(0, row, one, 10); err != nil {
					t.Fatal(err)
				}
			}
			w.tasks[0].Start(0, 0, 0, engine.Meta{PartitionTime: 40, Clocks: map[string]int64{"counts": 25}})
			w.send("words", "k=a@8", "k=b@12")
			w.dropped("KSTREAM-AGGREGATE-0000000001 late", "KSTREAM-AGGREGATE-0000000001 late")
			w.send("words", "k=c@26")
			if due, err := w.tasks[0].IdleDue(w.wall); due == math.MaxInt64 || err != nil {
				t.Errorf("due at %d, %v", due, err)
			}
			w.send("words", "z=d@100")
			if got := w.took("finals"); strings.Count(got, "=1@") != 1 || !strings.Contains(got, "=1@26") {
				t.Errorf("results %q", got)
			}
		})
	}
}

// W08: results do not depend on how fast the input is read.
func TestW08(t *testing.T) {
	w := windows(t, countedIn(window.Tumbling(millis(60_000))))
	for i := range 500 {
		w.send(fmt.Sprintf("a@%d", i*100))
		if i%50 == 0 {
			w.Advance(time.Minute)
		}
	}
	w.send("a@60000")
	w.wants("finals", false, 60_000, "a[0,60000]=500@49900")
}

// S01: a record joins two sessions. Kafka Streams' store has forgotten [0,0] when time is 10 and there is no grace, and so has the rule that no
// record changes a closed session; with a grace the session is still open.
func TestS01(t *testing.T) {
	w := windows(t, sessioned(window.Sessions(millis(5)).Grace(millis(5))))
	w.send("u@0", "u@10", "u@5")
	w.wants("updates", true, 0, "u[0,0]=1@0 u[10,10]=1@10 u[0,0]=∅@0 u[10,10]=∅@10 u[0,10]=3@10")

	closed := windows(t, sessioned(window.Sessions(millis(5))))
	closed.send("u@0", "u@10", "u@5")
	closed.wants("updates", true, 0, "u[0,0]=1@0 u[10,10]=1@10 u[10,10]=∅@10 u[5,10]=2@10")
	closed.wants("finals", true, 0, "u[0,0]=1@0")

	short := windows(t, sessioned(window.Sessions(millis(4))))
	short.send("u@0", "u@10", "u@5")
	short.wants("updates", true, 0, "u[0,0]=1@0 u[10,10]=1@10")
	short.late(1)
}

// S02: a session ends with its last record.
func TestS02(t *testing.T) {
	w := windows(t, sessioned(window.Sessions(millis(30_000))))
	w.send("u@0", "u@10000")
	w.wants("updates", true, 0, "u[0,0]=1@0 u[0,0]=∅@0 u[0,10000]=2@10000")
}

// S03: the session before is deleted, at its own end.
func TestS03(t *testing.T) {
	w := windows(t, sessioned(window.Sessions(millis(30_000))))
	w.send("u@10000", "u@5000")
	w.wants("updates", true, 0, "u[10000,10000]=1@10000 u[10000,10000]=∅@10000 u[5000,10000]=2@10000")
}

// S04: a session is kept until its grace is over.
func TestS04(t *testing.T) {
	hour := time.Hour.Milliseconds()
	w := windows(t, sessioned(window.Sessions(millis(10_000)).Grace(48*time.Hour)))
	w.send("u@0", fmt.Sprintf("x@%d", 36*hour))
	w.Restart()
	w.send("u@5000")
	w.wants("updates", true, 0, fmt.Sprintf("u[0,0]=1@0 x[%d,%d]=1@%d u[0,0]=∅@0 u[0,5000]=2@5000", 36*hour, 36*hour, 36*hour))
}

// A session that would become too long is cut: the record begins a new one.
func TestMaxLength(t *testing.T) {
	w := windows(t, sessioned(window.Sessions(millis(5)).MaxLength(millis(10)).Grace(millis(100))))
	w.send("u@0", "u@4", "u@8", "u@12", "u@14")
	w.wants("updates", true, 0, "u[0,0]=1@0 u[0,0]=∅@0 u[0,4]=2@4 u[0,4]=∅@4 u[0,8]=3@8 u[12,12]=1@12 u[12,12]=∅@12 u[12,14]=2@14")
	w.send("u@10", "u@9") // the first still has room
	w.wants("updates", true, 0, "u[0,8]=∅@8 u[0,10]=4@10 u[0,10]=∅@10 u[0,10]=5@10")
}

// Sessions that are cut are counted, once each, and an endless one stays bounded: no session is longer than the limit, and no more are kept than the retention holds.
func TestMaxLengthIsCounted(t *testing.T) {
	var cuts []string
	w := run(t, func(b *topology.Builder) {
		b.Stream(words).GroupByKey().Sessions(window.Sessions(millis(5)).MaxLength(millis(10)).Grace(millis(5))).Count("bots")
	}, func(w *world) {
		w.env.Missed = func(d engine.Drop) { cuts = append(cuts, fmt.Sprint(d.Node, " ", d.Reason, "@", d.Time)) }
	})
	for at := int64(0); at <= 30_000; at += 3 {
		w.send("words", fmt.Sprintf("bot=v@%d", at))
	}
	// Each session holds 0, 3, 6 and 9 ms after its first record; the next one is cut.
	if len(cuts) != 30_000/12 || cuts[0] != "KSTREAM-AGGREGATE-0000000001 cut@12" || cuts[1] != "KSTREAM-AGGREGATE-0000000001 cut@24" {
		t.Errorf("%d cuts, first %q", len(cuts), cuts[:min(3, len(cuts))])
	}
	if len(w.drops) != 0 {
		t.Errorf("dropped %q", w.drops)
	}
	longest := int64(0)
	w.commit()
	for _, e := range w.changelogs["bots"] {
		n := len(e.key) - 16
		longest = max(longest, number(e.key[n:])-number(e.key[n+8:]))
	}
	if longest > 10 {
		t.Errorf("a session is %d ms long", longest)
	}
	if n := w.tasks[0].AllMisses(); len(n) != 1 || n[0].Cause != "cut" || n[0].Count != 30_000/12 {
		t.Errorf("misses %v", n)
	}
}

// L01: all windows of a record that comes out of order.
func TestL01(t *testing.T) {
	w := windows(t, collected(window.Sliding(millis(10)).Grace(millis(100))))
	w.send("A=1@10", "A=2@20", "A=3@22", "A=4@15")
	last := map[string]string{}
	for _, x := range strings.Fields(inWindows(w.Records("updates"), false, 10)) {
		key, value, _ := strings.Cut(x, "=")
		value, _, _ = strings.Cut(value, "@")
		chars := strings.Split(value, "")
		slices.Sort(chars)
		last[key] = strings.Join(chars, "")
	}
	want := map[string]string{"A[0,10]": "1", "A[5,15]": "14", "A[10,20]": "124", "A[11,21]": "24", "A[12,22]": "234", "A[16,26]": "23", "A[21,31]": "3"}
	if fmt.Sprint(last) != fmt.Sprint(want) {
		t.Errorf("windows %v, want %v", last, want)
	}
}

// L02: a record that is too late, and one that is too late for some windows.
func TestL02(t *testing.T) {
	w := windows(t, countedIn(window.Sliding(millis(10))))
	w.send("k@100", "k@50")
	w.late(1)
	w.wants("updates", false, 10, "k[90,100]=1@100")
	w.send("k@92")
	w.wants("updates", false, 10, "k[90,100]=2@100 k[93,103]=1@100")
	w.late(2) // its own window is closed
}

// Two windows of different grace behind one source judge by the same records, each for itself, also after a restart.
func TestGraces(t *testing.T) {
	w := windows(t, func(_ *topology.Builder, in topology.Stream[string, string]) {
		for _, grace := range []int64{0, 20} {
			spec := window.Tumbling(millis(10)).Grace(millis(grace))
			name := fmt.Sprint("grace", grace)
			in.GroupByKey().Windowed(spec).Count(name).Final().To(topology.NewTopic(name, window.KeySerde(serde.String(), spec), serde.Int64()))
		}
		// This one sees only the records of x.
		spec := window.Tumbling(millis(10))
		in.Filter(func(k, _ string) bool { return k == "x" }).GroupByKey().Windowed(spec).Count("some").Final().To(topology.NewTopic("some", window.KeySerde(serde.String(), spec), serde.Int64()))
	})
	w.send("x@5", "a@1", "a@25")
	w.Restart()
	w.send("a@2", "x@3", "a@40", "x@50")
	w.wants("grace0", false, 10, "a[0,10]=1@1 x[0,10]=1@5 a[20,30]=1@25 a[40,50]=1@40")
	w.wants("grace20", false, 10, "a[0,10]=2@2 x[0,10]=2@5 a[20,30]=1@25")
	w.wants("some", false, 10, "x[0,10]=2@5")
	w.late(2)
}

func ownerOf(key string, n int32) int32 { return engine.Partition([]byte(key), n) }
