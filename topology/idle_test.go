package topology_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kolkstreams/kolk/processor"
	"github.com/kolkstreams/kolk/serde"
	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/topology"
	"github.com/kolkstreams/kolk/topology/topologytest"
	"github.com/kolkstreams/kolk/window"
)

var second = topology.NewTopic("second", serde.String(), serde.String())

// idleFor is a driver's option: stream time goes on after ms without records.
func idleFor(ms int64) topologytest.Option { return topologytest.CloseIdle(millis(ms)) }

// W06: what may close windows on the wall clock is asked for, and then it closes those of each partition by the partition's own time.
func TestW06CloseIdle(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []topologytest.Option
		want int
	}{{"off", nil, 0}, {"on", []topologytest.Option{idleFor(1000)}, 2}} {
		t.Run(c.name, func(t *testing.T) {
			w := windows(t, countedIn(window.Tumbling(millis(60_000))), append(c.opts, topologytest.Partitions(2))...)
			one, other := "a", "b"
			for _, k := range []string{"b", "c", "d", "e"} {
				if ownerOf(k, 2) != ownerOf(one, 2) {
					other = k
				}
			}
			w.send(one+"@1000", other+"@50000")
			w.Advance(millis(9_999))
			w.wants("finals", false, 60_000, "")
			w.Advance(time.Hour)
			if got := len(w.Records("finals")); got != c.want {
				t.Errorf("%d results, want %d", got, c.want)
			}
			w.late(0)
			w.send(one + "@59999")
			w.late(c.want / 2)
		})
	}
}

// SU01: the last window of a stream that ends is sent once the stream is idle for as long as it was still open, by whatever closes windows.
func TestSU01CloseIdle(t *testing.T) {
	tumbling := window.Tumbling(millis(60_000)).Grace(millis(5_000))
	for name, declare := range map[string]func(*topology.Builder, topology.Stream[string, string]){"final": countedIn(tumbling), "suppress": suppressed(tumbling)} {
		t.Run(name, func(t *testing.T) {
			w := windows(t, declare, idleFor(1000))
			w.send("a@0", "a@30000", "b@40000")
			w.Advance(millis(24_999)) // a window is open until 65000, stream time is 40000
			w.wants("finals", false, 60_000, "")
			w.Advance(millis(1))
			w.wants("finals", false, 60_000, "a[0,60000]=2@30000 b[0,60000]=1@40000")
			// It is closed for good, also after a restart: nothing changes it, and what comes is counted.
			w.send("a@59999")
			w.Restart()
			w.send("b@2")
			w.Advance(time.Hour)
			w.wants("finals", false, 60_000, "")
			w.late(2)
			// Records of a window that is open count, however far their time is behind that of the wall.
			w.send("a@60000", "a@66000")
			w.Advance(time.Hour)
			w.wants("finals", false, 60_000, "a[60000,120000]=2@66000")
		})
	}
}

// A restart in the middle of an idle time keeps what stream time had got to; what was not committed is done again.
func TestCloseIdleOverRestart(t *testing.T) {
	for name, lose := range map[string]func(*windowWorld){
		"restart": func(w *windowWorld) { w.Restart() },
		"crash":   func(w *windowWorld) { w.Crash() },
		"abort":   func(w *windowWorld) { w.Abort() },
	} {
		t.Run(name, func(t *testing.T) {
			w := windows(t, countedIn(window.Hopping(millis(20), millis(10))), idleFor(1), topologytest.ManualCommit())
			w.send("a@25") // in [10,30) and [20,40)
			w.Commit()
			w.Advance(millis(5))
			w.wants("finals", false, 20, "a[10,30]=1@25")
			w.Commit()
			w.Advance(millis(10))
			w.wants("finals", false, 20, "a[20,40]=1@25")
			lose(w)
			if name != "abort" { // the others commit

				w.wants("finals", false, 20, "")
			} else {
				w.at["finals"] = 1
				w.Advance(millis(9)) // stream time is that of the commit, 30
				w.wants("finals", false, 20, "")
				w.Advance(millis(1))
				w.wants("finals", false, 20, "a[20,40]=1@25")
			}
			w.Commit()
			w.send("a@19", "a@29", "a@39")
			w.late(2 + 2 + 1) // the last one has a window that is open
		})
	}
}

func TestCloseIdleSessions(t *testing.T) {
	w := windows(t, sessioned(window.Sessions(millis(100)).Grace(millis(50))), idleFor(10))
	w.send("u@0", "u@80", "v@90")
	w.wants("updates", true, 0, "u[0,0]=1@0 u[0,0]=∅@0 u[0,80]=2@80 v[90,90]=1@90")
	w.Advance(millis(140)) // u is open as long as stream time is at most 230
	w.wants("finals", true, 0, "")
	w.Advance(millis(1))
	w.wants("finals", true, 0, "u[0,80]=2@80")
	w.Advance(millis(10))
	w.wants("finals", true, 0, "v[90,90]=1@90")
	w.send("u@10")
	w.late(1)
}

func TestCloseIdleSliding(t *testing.T) {
	w := windows(t, countedIn(window.Sliding(millis(10))), idleFor(1))
	w.send("a@10", "a@15")
	w.Advance(millis(100))
	w.wants("finals", false, 10, "a[0,10]=1@10 a[5,15]=2@15 a[11,21]=1@15")
}

// Throttle and Suppress let rows go when they have waited long enough.
func TestCloseIdleThrottle(t *testing.T) {
	for name, held := range map[string]func(topology.Table[string, string]) topology.Table[string, string]{
		"throttle": func(t topology.Table[string, string]) topology.Table[string, string] {
			return t.Throttle("slow", ms(10))
		},
		"suppress": func(t topology.Table[string, string]) topology.Table[string, string] {
			return t.Suppress("slow", topology.UntilTimeLimit(ms(10)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := topologytest.New(t, build(t, func(b *topology.Builder) { held(b.Table("rows", words, few)).To(more) }), epoch, idleFor(1))
			in, out := d.Input(words), d.Output(more)
			in.SendAt(time.UnixMilli(100), "a", "1")
			in.SendAt(time.UnixMilli(104), "b", "1")
			d.Advance(ms(5))
			out.None()
			d.Advance(ms(1))
			out.Next("a", "1")
			d.Restart()
			d.Advance(ms(4))
			out.Next("b", "1")
			out.None()
		})
	}
}

// The "not" of a sequence is decided by stream time, and so on the wall clock where that moves it.
func TestCloseIdleSequence(t *testing.T) {
	declare := func(b *topology.Builder) {
		p := topology.First("a", func(v string) bool { return v == "a" }).ThenNot("b", func(v string) bool { return v == "b" }).Within(ms(50))
		b.Stream(words).Sequence("seek", p, func(_ string, m topology.Match[string]) string { return "unanswered" }).To(more)
	}
	d := topologytest.New(t, build(t, declare), epoch, idleFor(1))
	in, out := d.Input(words), d.Output(more)
	in.SendAt(time.UnixMilli(0), "k", "a")
	in.SendAt(time.UnixMilli(10), "l", "a")
	in.SendAt(time.UnixMilli(20), "l", "b")
	d.Advance(ms(30)) // k may still be answered at 50
	out.None()
	d.Advance(ms(1))
	out.Next("k", "unanswered")
	d.Restart()
	in.SendAt(time.UnixMilli(0), "k", "b") // too late
	d.Advance(time.Hour)
	out.None()
	if n := len(d.Drops(processor.Late)); n != 1 {
		t.Errorf("%d records were late, want 1", n)
	}
}

// Records that wait for a table's time are joined.
func TestCloseIdleAsOf(t *testing.T) {
	d := topologytest.New(t, build(t, func(b *topology.Builder) { charge(b, time.Minute, topology.WaitFor("waiting", ms(20))) }), epoch, idleFor(1))
	table, stream, out := d.Input(fares), d.Input(rides), d.Output(charged)
	table.SendAt(time.UnixMilli(100), "u", "A")
	stream.SendAt(time.UnixMilli(105), "u", "e")
	d.Restart()
	d.Advance(ms(19))
	out.None()
	d.Advance(ms(1))
	out.Next("u", "e+A")
	stream.SendAt(time.UnixMilli(110), "u", "f")
	d.Advance(time.Hour)
	out.Next("u", "f+A")
}

// Records of a join of two streams that found no partner are sent, with either way of sending them.
func TestCloseIdleStreamJoin(t *testing.T) {
	for name, opts := range map[string][]topology.StateOption{"soon": nil, "late": {topology.UnmatchedLate()}} {
		t.Run(name, func(t *testing.T) {
			top := build(t, func(b *topology.Builder) {
				b.Stream(words).OuterJoin("j", b.Stream(more), window.Within(millis(10)).Grace(millis(5)), func(l, r *string) string {
					if l == nil {
						return "-+" + *r
					}
					if r == nil {
						return *l + "+-"
					}
					return *l + "+" + *r
				}, opts...).To(charged)
			})
			d := topologytest.New(t, top, epoch, idleFor(1))
			left, right, out := d.Input(words), d.Input(more), d.Output(charged)
			left.SendAt(time.UnixMilli(100), "k", "A")
			right.SendAt(time.UnixMilli(105), "k", "a")
			out.Next("k", "A+a")
			left.SendAt(time.UnixMilli(106), "l", "B")
			right.SendAt(time.UnixMilli(108), "m", "c")
			d.Restart()
			d.Advance(ms(13)) // B may find a partner up to 121, and stream time is 121
			out.None()
			d.Advance(ms(1))
			out.Next("l", "B+-")
			d.Advance(ms(2))
			out.Next("m", "-+c")
			d.Advance(time.Hour)
			out.None()
		})
	}
}

// Timers of stream time fire, and entries expire.
func TestCloseIdleTimersAndTTL(t *testing.T) {
	var fired []int64
	top := build(t, func(b *topology.Builder) {
		b.Table("rows", words, store.TTL(ms(80))).To(more)
		b.Stream(second).Process("ticks", func() *ticks { return &ticks{&fired} })
	})
	d := topologytest.New(t, top, epoch, idleFor(5))
	rows := d.Output(more)
	d.Input(words).SendAt(time.UnixMilli(100), "a", "1")
	rows.Next("a", "1")
	d.Input(second).SendAt(time.UnixMilli(1000), "a", "1")
	d.Advance(ms(89)) // gone at 180, removed when the bucket up to 190 has passed
	rows.None()
	d.Advance(ms(1))
	rows.NextDeleted("a")
	if want := []int64{1000, 1020, 1040, 1060, 1080}; !slices.Equal(fired, want) {
		t.Errorf("fired at %v, want %v", fired, want)
	}
}

type ticks struct{ fired *[]int64 }

func (p *ticks) Init(ctx *processor.Context[string, string]) error {
	ctx.Every(ms(20), processor.StreamTime, func(now time.Time) error {
		*p.fired = append(*p.fired, now.UnixMilli())
		return nil
	})
	return nil
}

func (p *ticks) Process(*processor.Context[string, string], processor.Record[string, string]) error {
	return nil
}

// Windows over what another operator of the same task holds back lose none of it: their time stands still until it has come.
func TestCloseIdleChain(t *testing.T) {
	spec := window.Tumbling(millis(10))
	w := windows(t, func(b *topology.Builder, in topology.Stream[string, string]) {
		in.ToTable("rows", few).Throttle("slow", millis(10)).Stream().GroupByKey().Windowed(spec).Count("counts").Final().
			To(topology.NewTopic("finals", window.KeySerde(serde.String(), spec), serde.Int64()))
	}, idleFor(1))
	w.send("a=1@0", "a=2@9", "b=1@9")
	w.Advance(millis(1)) // a comes out, with the time 9
	w.Advance(millis(9)) // b comes out, with the time 9 too
	w.wants("finals", false, 10, "")
	w.Advance(millis(1))
	w.wants("finals", false, 10, "a[0,10]=1@9 b[0,10]=1@9")
	w.late(0)
}

// Straight runs and runs with restarts, crashes and aborts in them have the same results, if idle times are between the same records.
func TestCloseIdleProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := window.Hopping(millis(20), millis(10)).Grace(millis(rapid.SampledFrom([]int64{0, 7}).Draw(rt, "grace")))
		straight := windows(t, countedIn(spec), idleFor(5))
		broken := windows(t, countedIn(spec), idleFor(5), topologytest.ManualCommit())
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			if rapid.IntRange(0, 3).Draw(rt, "idle") == 0 {
				d := millis(rapid.Int64Range(1, 60).Draw(rt, "for"))
				straight.Advance(d)
				broken.Advance(d)
				broken.Commit()
			} else {
				r := fmt.Sprintf("%s@%d", rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key"), rapid.Int64Range(0, 200).Draw(rt, "time"))
				straight.send(r)
				broken.send(r)
				switch rapid.IntRange(0, 5).Draw(rt, "then") {
				case 0:
					broken.Restart()
					straight.Restart()
				case 1:
					broken.Abort()
				case 2:
					broken.Commit()
				}
			}
		}
		broken.Commit()
		got, want := inWindows(broken.Records("finals"), false, 20), inWindows(straight.Records("finals"), false, 20)
		if got != want {
			rt.Fatalf("finals with failures\n%s, without\n%s", got, want)
		}
	})
}
